# SPDX-License-Identifier: Apache-2.0

"""One run of the demo, from nothing to nothing: server, ini file, driver, journey.

Whatever it takes is given back when it ends, in whatever way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from ironic_virt import conf as options
from ironic_virt import virt
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.compute.demo import display as displays
from ironic_virt.compute.demo import report as reports
from ironic_virt.compute.demo import servers
from ironic_virt.compute.demo.errors import Interrupted
from ironic_virt.compute.demo.interrupts import Interrupts
from ironic_virt.compute.demo.journey import Journey
from ironic_virt.compute.demo.progress import Board
from ironic_virt.compute.demo.report import Report
from ironic_virt.compute.demo.service import Service

FAKE = "fake"
REAL = "real"

_HOST = "demo"
_INI = """\
[DEFAULT]
compute_driver = ironic
host = {host}

[ironic]
auth_type = none
endpoint_override = {url}
# Nothing is far away here, so look often and give up early.
api_max_retries = 10
api_retry_interval = 1
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What was asked for.

    :ivar ironic: :data:`FAKE` or :data:`REAL`.
    :ivar nodes: how many nodes the Ironic gets.
    :ivar instances: how many are deployed at once; not more than ``nodes``.
    :ivar deploy_time: seconds, about, that a deployment takes.
    :ivar json: print a report to standard output, and all else to standard error.
    """

    ironic: str = FAKE
    nodes: int = 5
    instances: int = 3
    deploy_time: float = 3.0
    json: bool = False


def run(
    settings: Settings,
    *,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> int:
    """Run the demo.  In the main thread only: it handles signals.

    :returns: the exit code; 0 when everything was as it should be, 128 and the
        signal's number when a signal ended it.
    :raises IronicVirtError: something failed; all is cleaned up by then.
    """
    stdout = stdout or sys.stdout
    display = displays.choose((stderr or sys.stderr) if settings.json else stdout, environ)
    report = Report(settings.ironic)
    try:
        with Interrupts(lambda: _say_that_it_stops(display)) as interrupts:
            interrupts.before_leaving(display.hand_back)
            try:
                _run(settings, display, interrupts, report)
            except Exception:
                # Ctrl-C reaches programs that we have started, too: they fail of it, not we.
                interrupts.check()
                raise
        report.result = reports.OK
        return 0
    except Interrupted as interrupted:
        report.result = reports.INTERRUPTED
        return interrupted.exit_code
    except Exception as error:
        report.error = " ".join(str(error).split())
        raise
    finally:
        if settings.json:
            stdout.write(json.dumps(report.to_json(), indent=2) + "\n")
            stdout.flush()


def _run(
    settings: Settings, display: displays.Display, interrupts: Interrupts, report: Report
) -> None:
    real = settings.ironic == REAL
    display.title(
        f"ironic-virt {reports.own_version()}: a journey through the driver, on "
        + ("a real Ironic" if real else "the fake Ironic")
    )
    began = report.clock()
    board = Board(report.clock)
    with _directory(interrupts) as directory, contextlib.ExitStack() as stack:
        with report.timed("start"):
            server = stack.enter_context(_started(settings, display, board, interrupts))
        interrupts.check()
        with report.timed("load"):
            path = directory / "ironic-virt.conf"
            path.write_text(_INI.format(host=_HOST, url=server.url))
            conf = options.load([str(path)])
            client = IronicClient.from_conf(conf)
            report.ironic_version = server.version
            report.api_version = str(client.versions.maximum)
            service = Service(_HOST, board)
            driver = virt.load_compute_driver(conf, service)
            report.driver = f"{type(driver).__module__}.{type(driver).__qualname__}"
            driver.init_host(_HOST)
        display.done(
            f"Started {server.name} (API {report.api_version}) with {settings.nodes} nodes at "
            f"{server.url}",
            report.seconds["start"],
        )
        display.done(
            f"Loaded the driver {conf.compute_driver!r} by {path}", report.seconds["load"]
        )
        Journey(driver, service, board, client, display, interrupts, report).go(settings.instances)
    interrupts.check()
    display.done(
        "Every node is available again, and nothing is left behind", report.clock() - began
    )


def _started(
    settings: Settings, display: displays.Display, board: Board, interrupts: Interrupts
) -> contextlib.AbstractContextManager[servers.Server]:
    if settings.ironic == FAKE:
        return servers.fake(settings.nodes, settings.deploy_time)
    return servers.real(settings.nodes, settings.deploy_time, interrupts, display, board)


def _say_that_it_stops(display: displays.Display) -> None:
    display.note("Interrupted: cleaning up. Interrupt again to leave at once.")


@contextlib.contextmanager
def _directory(interrupts: Interrupts) -> Iterator[Path]:
    """A directory for the ini file, that is gone however the process ends (but for SIGKILL)."""
    path = tempfile.mkdtemp(prefix="ironic-virt-demo-")
    interrupts.before_leaving(lambda: shutil.rmtree(path, ignore_errors=True))
    try:
        yield Path(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
