# SPDX-License-Identifier: Apache-2.0

"""The demo's compute service: a real ``ironic-virt-compute``, for as long as the demo runs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ironic_virt.cmd.demo.interrupts import DemoFailed, Interrupts

if TYPE_CHECKING:
    from ironic_virt.compute.db import Database
    from ironic_virt.testing.server_process import ServerProcess

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
inventory_sweep_interval = 0
"""
_UP_SECONDS = 300.0
_LOOK_SECONDS = 0.1


class Service:
    """A compute service that runs.

    :param tell: where its log goes as it grows; ``None``: nowhere.
    """

    def __init__(self, process: ServerProcess, tell: TextIO | None) -> None:
        self._process = process
        self._tell = tell
        self._told = 0

    def check(self) -> None:
        """See that it still runs, and pass on what it has logged.

        :raises DemoFailed: it has ended; the last line of its log is told.
        """
        self._pass_on()
        if self._process.exit_status is not None:
            last = self._process.log_tail(1) or "it has logged nothing"
            raise DemoFailed(f"ironic-virt-compute has ended: {last}")

    def _pass_on(self) -> None:
        if self._tell is None:
            return
        with contextlib.suppress(FileNotFoundError):
            text = self._process.log.read_text(errors="replace")
            self._tell.write(text[self._told :])
            self._tell.flush()
            self._told = len(text)


@contextlib.contextmanager
def started(config: Path, directory: Path, tell: TextIO | None) -> Iterator[Service]:
    """A compute service.  It can't outlive this process.

    :param directory: for its log; it is removed at the end.
    :param tell: where its log goes too.
    """
    from ironic_virt.testing.server_process import ServerProcess

    process = ServerProcess(
        # The console script calls the same function; it needs not be on the PATH.
        [sys.executable, "-m", "ironic_virt.cmd.compute", "--config-file", str(config)],
        directory=directory,
        log=directory / "ironic-virt-compute.log",
        grace=5.0,
    )
    try:
        yield Service(process, tell)
    finally:
        process.stop()


def free_places(database: Database) -> int:
    """How many servers the records have a place for: free nodes, or places in pools."""
    pools = database.pools.list()
    if pools:
        return sum(pool.free for pool in pools)
    return sum(node.available for node in database.compute_nodes.list())


def wait_until_up(
    service: Service,
    database: Database,
    nodes: int,
    interrupts: Interrupts,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Return when the service is up and all nodes are known to be free.

    :raises DemoFailed: it ended, or took too long.
    :raises Interrupted: a signal came.
    """
    deadline = clock() + _UP_SECONDS
    while True:
        service.check()
        free = free_places(database)
        if free == nodes and HOST in database.services.up():
            return
        if clock() > deadline:
            raise DemoFailed(
                f"ironic-virt-compute has {free} of {nodes} nodes after {_UP_SECONDS:.0f} s"
            )
        interrupts.sleep(_LOOK_SECONDS)
