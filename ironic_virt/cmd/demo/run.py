# SPDX-License-Identifier: Apache-2.0

"""One run of the demo: Ironic, ini file, compute service, journey, cleanup.

Everything is removed when it ends.  Ctrl-C, SIGTERM and SIGHUP are exceptions in the
main thread.  A signal during the cleanup ends the process at once; the processes that it
has started notice that, and end too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from ironic_virt import conf as options
from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.cmd.configured import ENVIRONMENT
from ironic_virt.cmd.demo.commands import Commands, DemoFailed, Display
from ironic_virt.cmd.demo.journey import RESOURCE_CLASS, Journey, free_places
from ironic_virt.compute.db import Database
from ironic_virt.conf import database as records_options

HOST = "demo"
CONFIG = """\
[DEFAULT]
compute_driver = ironic
host = {host}
state_path = {directory}
# When the demo ends, don't wait for tasks.
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
_LOOK_SECONDS = 0.1
# What other transitions of the fake Ironic take, as a share of a deployment.
_SHARES = {"deploy": 1.0, "undeploy": 0.3, "clean": 0.4, "power": 0.2}


class Server(NamedTuple):
    """An Ironic that runs.

    :ivar name: for messages.
    """

    name: str
    url: str


@contextlib.contextmanager
def fake(nodes: int, deploy_time: float, _display: Display) -> Iterator[Server]:
    """A fake Ironic, served over HTTP by threads of this process.

    :param nodes: how many nodes it has, each with one port.
    :param deploy_time: seconds, about, that a deployment takes.
    :raises ExtrasMissing: a package that it needs isn't installed.
    """
    try:
        from ironic_virt.testing import fake_ironic
    except ModuleNotFoundError as error:
        raise exceptions.ExtrasMissing(error.name, "demo") from error
    spans = {
        name: (0.75 * share * deploy_time, 1.25 * share * deploy_time)
        for name, share in _SHARES.items()
    }
    server = fake_ironic.FakeIronicServer(
        durations=fake_ironic.Durations(**spans),
        # As real hardware does: more states to show.
        wait_states=True,
        power_follows_deploy=True,
    )
    server.fake.add_nodes(nodes, resource_class=RESOURCE_CLASS)
    with server:
        yield Server("the fake Ironic", server.url)


Start = Callable[[int, float, Display], contextlib.AbstractContextManager[Server]]


def run(
    args: argparse.Namespace, start: Start | None = None, ironic: str = "the fake Ironic"
) -> None:
    """Run the demo.  In the main thread only: it handles signals.

    :param args: those of the command; ``verbose``: show the compute service's log on standard
        error.
    :param start: starts an Ironic, given its number of nodes, the seconds of a deployment, and
        the display; ``None``: the fake one.
    :param ironic: its name in the title.
    :raises IronicVirtError: something failed; all is cleaned up by then.
    :raises SystemExit: SIGTERM or SIGHUP ended it, with 128 and the signal's number.
    """
    display = Display(sys.stdout)
    version = metadata.version("ironic-virt")
    display.note(f"ironic-virt {version}: servers on bare metal, on {ironic}")
    began = time.monotonic()
    with _handle_signals(), contextlib.ExitStack() as stack:
        try:
            _run_journey(args, start or fake, display, stack)
        except (KeyboardInterrupt, SystemExit):
            display.note("Interrupted: cleaning up. Interrupt again to leave at once.")
            raise
    display.note("")
    display.done(
        "Every node is available again, and nothing is left behind", time.monotonic() - began
    )


def _run_journey(
    args: argparse.Namespace, start: Start, display: Display, stack: contextlib.ExitStack
) -> None:
    began = time.monotonic()
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ironic-virt-demo-")))
    config = directory / "ironic-virt.conf"
    os.environ[ENVIRONMENT] = str(config)
    # It imports what commands need while Ironic and the service start.
    commands = Commands(display)
    nodes, selection = args.nodes, args.node_selection
    server = stack.enter_context(start(nodes, args.deploy_time, display))
    config.write_text(
        CONFIG.format(host=HOST, directory=directory, url=server.url, node_selection=selection)
    )
    ironic = IronicClient.from_conf(options.load([str(config)]))
    display.done(
        f"Started {server.name}, API {ironic.versions.maximum}, {nodes} nodes: {server.url}",
        time.monotonic() - began,
    )
    began = time.monotonic()
    # The records, made now: the compute service and commands find them there.
    database = Database(records_options.load([str(config)]))
    stack.callback(database.close)
    database.open()
    display.command(f"ironic-virt-compute --config-file {config} &")
    commands.meanwhile = check = stack.enter_context(_start_service(config, args.verbose))
    while HOST not in database.services.up() or free_places(database) < nodes:
        check()
        if time.monotonic() - began > _UP_SECONDS:
            raise DemoFailed(f"ironic-virt-compute has not all nodes after {_UP_SECONDS:.0f} s")
        time.sleep(_LOOK_SECONDS)
    display.done(f"Compute service {HOST} is up and has {nodes} nodes", time.monotonic() - began)
    display.command(f"export {ENVIRONMENT}={config}")
    Journey(commands, database, ironic, display, pooled=selection == "ironic").go(args.servers)


@contextlib.contextmanager
def _start_service(config: Path, verbose: bool) -> Iterator[Callable[[], None]]:
    """A real ``ironic-virt-compute``; it can't outlive this process.

    :param verbose: its log goes to standard error.
    :returns: a check that raises :class:`DemoFailed` if it has ended.
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
def _handle_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the process as Ctrl-C does, by an exception."""

    def end(signum: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + signum)

    before = {}
    for signum in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup, SIGHUP is ignored, and the demo outlives the terminal.
        if signal.getsignal(signum) is not signal.SIG_IGN:
            before[signum] = signal.signal(signum, end)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
