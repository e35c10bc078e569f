# SPDX-License-Identifier: Apache-2.0

"""One run of the demo, from nothing to nothing: Ironic, ini file, compute service, journey.

Whatever it takes is given back when it ends.  Ctrl-C, SIGTERM and SIGHUP are exceptions in the
main thread.  One that comes while a run cleans up ends it at once: what it has started sees
that the process is gone, and ends too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import NoReturn

from ironic_virt import conf as options
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.cmd.demo import IRONIC, SCHEDULER, servers
from ironic_virt.cmd.demo.commands import Commands, DemoFailed
from ironic_virt.cmd.demo.journey import Journey, free_places
from ironic_virt.cmd.progress import Display, takes_pictures
from ironic_virt.compute.db import Database
from ironic_virt.conf import database as records_options

ENVIRONMENT = "IRONIC_VIRT_CONFIG_FILE"
HOST = "demo"
CONFIG = """\
[DEFAULT]
compute_driver = ironic
host = {host}
state_path = {directory}
# Whatever goes on is of no use to anybody once the demo ends.
graceful_shutdown_timeout = 0

[compute]
# There are a few nodes only, so look often.
task_interval = 0.2
resource_refresh_interval = 1

[ironic]
auth_type = none
endpoint_override = {url}
node_selection = {node_selection}
# Nothing is far away here, so look often and give up early.
api_max_retries = 10
api_retry_interval = 1
"""
_UP_SECONDS = 300.0
Start = Callable[[int, float, Display], contextlib.AbstractContextManager[servers.Server]]
_LOOK_SECONDS = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What was asked for.

    :ivar nodes: how many nodes the Ironic gets.
    :ivar instances: how many are deployed at once; not more than ``nodes``.
    :ivar deploy_time: seconds, about, that a deployment takes.
    :ivar node_selection: who picks the nodes, as ``[ironic] node_selection`` says it.
    :ivar verbose: show the compute service's log on standard error, and no live picture.
    """

    nodes: int = 5
    instances: int = 3
    deploy_time: float = 2.0
    node_selection: str = SCHEDULER
    verbose: bool = False


def run(settings: Settings, start: Start | None = None, ironic: str = "the fake Ironic") -> None:
    """Run the demo.  In the main thread only: it handles signals.

    :param start: starts an Ironic, given how many nodes it has, how long a deployment takes, and
        where to tell of it; ``None``: the fake one.
    :param ironic: what to call that.
    :raises IronicVirtError: something failed; all is cleaned up by then.
    :raises SystemExit: SIGTERM or SIGHUP ended it, with 128 and the signal's number.
    """
    if settings.verbose:
        # Log lines would go through the picture.
        os.environ["NO_COLOR"] = "1"
    display = Display(sys.stdout, pictures=takes_pictures(sys.stdout, os.environ))
    version = metadata.version("ironic-virt")
    display.title(f"ironic-virt {version}: servers on bare metal, on {ironic}")
    began = time.monotonic()
    with _signals(), contextlib.ExitStack() as stack:
        try:
            _go(settings, start or servers.fake, display, stack)
        except (KeyboardInterrupt, SystemExit):
            display.note("Interrupted: cleaning up. Interrupt again to leave at once.")
            raise
    display.note("")
    display.done(
        "Every node is available again, and nothing is left behind", time.monotonic() - began
    )


def _go(settings: Settings, start: Start, display: Display, stack: contextlib.ExitStack) -> None:
    began = time.monotonic()
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ironic-virt-demo-")))
    config = directory / "ironic-virt.conf"
    os.environ[ENVIRONMENT] = str(config)
    # While Ironic and the service start.
    commands = Commands(display)
    nodes, deploy_time = settings.nodes, settings.deploy_time
    server = stack.enter_context(start(nodes, deploy_time, display))
    config.write_text(
        CONFIG.format(
            host=HOST,
            directory=directory,
            url=server.url,
            node_selection=settings.node_selection,
        )
    )
    ironic = IronicClient.from_conf(options.load([str(config)]))
    display.done(
        f"Started {server.name}, API {ironic.versions.maximum}, {nodes} nodes: {server.url}",
        time.monotonic() - began,
    )
    began = time.monotonic()
    # The records, made now: the compute service and commands find them there.
    database = Database(records_options.load([str(config)]), patient=False)
    stack.callback(database.close)
    database.open()
    display.command(f"ironic-virt-compute --config-file {config} &")
    commands.meanwhile = check = stack.enter_context(_service(config, settings.verbose))
    while HOST not in database.services.up() or free_places(database) < nodes:
        check()
        if time.monotonic() - began > _UP_SECONDS:
            raise DemoFailed(f"ironic-virt-compute has not all nodes after {_UP_SECONDS:.0f} s")
        time.sleep(_LOOK_SECONDS)
    display.done(f"Compute service {HOST} is up and has {nodes} nodes", time.monotonic() - began)
    display.command(f"export {ENVIRONMENT}={config}")
    pooled = settings.node_selection == IRONIC
    Journey(commands, database, ironic, display, pooled=pooled).go(settings.instances)


@contextlib.contextmanager
def _service(config: Path, verbose: bool) -> Iterator[Callable[[], None]]:
    """A real ``ironic-virt-compute``; it can't outlive this process.

    :param verbose: its log goes to standard error.
    :returns: what sees that it still runs, and raises :class:`DemoFailed` if it does not.
    """
    from ironic_virt.testing.server_process import ServerProcess

    directory = config.parent / "service"
    directory.mkdir()
    process = ServerProcess(
        # The console script calls the same function; it needs not be on the PATH.
        [sys.executable, "-m", "ironic_virt.cmd.compute", "--config-file", str(config)],
        directory=directory,
        log=None if verbose else directory / "ironic-virt-compute.log",
        grace=5.0,
    )

    def check() -> None:
        if process.exit_status is not None:
            last = "see its log above" if verbose else process.log_tail(1)
            raise DemoFailed(f"ironic-virt-compute has ended: {last or 'it has logged nothing'}")

    try:
        yield check
    finally:
        process.stop()


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the process as Ctrl-C does, by an exception."""

    def end(signum: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + signum)

    before = {}
    for signum in (signal.SIGTERM, signal.SIGHUP):
        # Whoever ignores SIGHUP (nohup) wants us to outlive the terminal.
        if signal.getsignal(signum) is not signal.SIG_IGN:
            before[signum] = signal.signal(signum, end)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
