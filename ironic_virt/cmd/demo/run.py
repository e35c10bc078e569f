# SPDX-License-Identifier: Apache-2.0

"""One run of the demo, from nothing to nothing: Ironic, ini file, compute service, journey.

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
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.cmd.demo import FAKE, IRONIC, REAL, SCHEDULER, servers, service
from ironic_virt.cmd.demo import report as reports
from ironic_virt.cmd.demo.commands import ENVIRONMENT, Commands, preload
from ironic_virt.cmd.demo.interrupts import Interrupted, Interrupts
from ironic_virt.cmd.demo.journey import Journey
from ironic_virt.cmd.demo.report import Report
from ironic_virt.cmd.progress import Display, takes_pictures
from ironic_virt.compute.db import Database
from ironic_virt.conf import database as records_options


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What was asked for.

    :ivar ironic: :data:`FAKE` or :data:`REAL`.
    :ivar nodes: how many nodes the Ironic gets.
    :ivar instances: how many are deployed at once; not more than ``nodes``.
    :ivar deploy_time: seconds, about, that a deployment takes.
    :ivar node_selection: who picks the nodes, as ``[ironic] node_selection`` says it.
    :ivar json: print a report to standard output, and all else to standard error.
    :ivar verbose: show the compute service's log on standard error, and no live picture.
    """

    ironic: str = FAKE
    nodes: int = 5
    instances: int = 3
    deploy_time: float = 2.0
    node_selection: str = SCHEDULER
    json: bool = False
    verbose: bool = False


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
    stdout, stderr = stdout or sys.stdout, stderr or sys.stderr
    stream = stderr if settings.json else stdout
    if settings.verbose:
        # Log lines would go through the picture.
        environ = {**environ, "NO_COLOR": "1"}
    display = Display(stream, pictures=takes_pictures(stream, environ))
    report = Report(settings.ironic)
    try:
        with Interrupts(lambda: _say_that_it_stops(display)) as interrupts:
            interrupts.before_leaving(display.hand_back)
            try:
                tell = stderr if settings.verbose else None
                _Run(settings, display, interrupts, report, stream, environ, tell).run()
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


@dataclasses.dataclass(frozen=True, slots=True)
class _Run:
    """A run, and where it shows itself."""

    settings: Settings
    display: Display
    interrupts: Interrupts
    report: Report
    stream: TextIO
    environ: Mapping[str, str]
    tell: TextIO | None

    def run(self) -> None:
        display, report = self.display, self.report
        real = self.settings.ironic == REAL
        display.title(
            f"ironic-virt {reports.own_version()}: servers on bare metal, on "
            + ("a real Ironic" if real else "the fake Ironic")
        )
        began = report.clock()
        with _directory(self.interrupts) as directory, contextlib.ExitStack() as stack:
            # While Ironic and the service start.
            preload(self.interrupts)
            with report.timed("start"):
                server = stack.enter_context(self._started())
            self.interrupts.check()
            config = directory / "ironic-virt.conf"
            config.write_text(
                service.CONFIG.format(
                    host=service.HOST,
                    directory=directory,
                    url=server.url,
                    node_selection=self.settings.node_selection,
                )
            )
            ironic = IronicClient.from_conf(options.load([str(config)]))
            report.ironic_version = server.version
            report.api_version = str(ironic.versions.maximum)
            display.done(
                f"Started {server.name}, API {report.api_version}, {self.settings.nodes} nodes: "
                f"{server.url}",
                report.seconds["start"],
            )
            database = stack.enter_context(_records(config))
            with report.timed("service"):
                display.command(f"ironic-virt-compute --config-file {config} &")
                compute = stack.enter_context(service.started(config, directory, self.tell))
                nodes = self.settings.nodes
                service.wait_until_up(compute, database, nodes, self.interrupts)
            display.done(
                f"Compute service {service.HOST} is up and has {nodes} nodes",
                report.seconds["service"],
            )
            display.command(f"export {ENVIRONMENT}={config}")
            commands = Commands(
                *(display, self.interrupts, self.stream),
                {**self.environ, ENVIRONMENT: str(config)},
                meanwhile=compute.check,
            )
            Journey(
                *(commands, database, ironic, display, self.interrupts, report),
                check=compute.check,
                pooled=self.settings.node_selection == IRONIC,
            ).go(self.settings.instances)
        self.interrupts.check()
        display.note("")
        display.done(
            "Every node is available again, and nothing is left behind", report.clock() - began
        )

    def _started(self) -> contextlib.AbstractContextManager[servers.Server]:
        nodes, deploy_time = self.settings.nodes, self.settings.deploy_time
        if self.settings.ironic == FAKE:
            return servers.fake(nodes, deploy_time)
        return servers.real(nodes, deploy_time, self.interrupts, self.display)


@contextlib.contextmanager
def _records(config: Path) -> Iterator[Database]:
    """The records, made now: the compute service and commands find them there."""
    database = Database(records_options.load([str(config)]), patient=False)
    try:
        yield database.open()
    finally:
        database.close()


def _say_that_it_stops(display: Display) -> None:
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
