# SPDX-License-Identifier: Apache-2.0

"""The journey: the commands that the demo types, and what it sees to in between.

What commands print is the records' word.  The journey looks at the nodes in Ironic by itself:
that everything is as it was is Ironic's word.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.cmd.demo.commands import DemoFailed
from ironic_virt.cmd.demo.servers import RESOURCE_CLASS
from ironic_virt.cmd.progress import Display
from ironic_virt.compute.db import Database

FLAVOR = "gold"
# Nobody fetches it: the hardware is fake on either Ironic.
IMAGE = "file:///images/demo.img"
# What fits into a terminal of 80 columns.
_NODE_COLUMNS = ("-c", "UUID", "-c", "State", "-c", "Host")
_SERVER_COLUMNS = ("-c", "Name", "-c", "Status", "-c", "Node")
_CLEANED_SECONDS = 300.0
_LOOK_SECONDS = 0.25
_STUCK = (states.CLEAN_FAILED, states.ERROR)


class Ironic(Protocol):
    """What the journey looks at by itself."""

    def list_nodes(self) -> list[Node]:
        """All nodes."""


class Journey:
    """One journey, to be gone once.

    :param command: runs an ``ironic-virt`` command with these arguments to its end.
    :param database: the records; they are looked at only.
    :param pooled: Ironic picks the nodes, so the commands list pools.
    """

    def __init__(
        self,
        command: Callable[..., None],
        database: Database,
        ironic: Ironic,
        display: Display,
        *,
        pooled: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._command = command
        self._db = database
        self._ironic = ironic
        self._display = display
        self._clock = clock
        self._sleep = sleep
        self._list = ("node", "list", *(["--pools"] if pooled else _NODE_COLUMNS))

    def go(self, count: int) -> None:
        """Build ``count`` servers, try them, and delete them.

        :raises IronicVirtError: something failed.
        """
        names = ["demo"] if count == 1 else [f"demo-{number}" for number in range(1, count + 1)]
        self._command("flavor", "create", FLAVOR, "--resource-class", RESOURCE_CLASS)
        self._command(*self._list)
        several = () if count == 1 else ("--min", str(count), *_SERVER_COLUMNS)
        self._command(
            *("server", "create", "--flavor", FLAVOR, "--image", IMAGE, *several),
            *("--wait", "demo"),
        )
        self._look_at_servers(names)
        self._command(*self._list)
        for action, name in (("reboot", names[0]), ("stop", names[-1]), ("start", names[-1])):
            self._command("server", action, name, "--wait")
        self._command("server", "delete", *names, "--wait")
        self._wait_until_available()
        self._command(*self._list)

    def _look_at_servers(self, names: list[str]) -> None:
        """See that Ironic has each server on the node that the records say."""
        carried = {node.instance_uuid: node for node in self._ironic.list_nodes()}
        for name in names:
            record = self._db.instances.get(name)
            node = carried.get(record.uuid)
            if node is None or node.uuid != record.node or node.provision_state != states.ACTIVE:
                raise DemoFailed(
                    f"{name} is {record.vm_state} on node {record.node}, and Ironic has it "
                    + (f"on {node.uuid}, {node.provision_state}" if node else "nowhere")
                )

    def _wait_until_available(self) -> None:
        """Wait until Ironic has cleaned all nodes, and the compute service has seen it."""
        began = self._clock()
        self._display.note("\nIronic cleans the nodes ...")
        while left := self._left():
            if self._clock() - began > _CLEANED_SECONDS:
                raise DemoFailed(
                    f"Not as before after {_CLEANED_SECONDS:.0f} s: {', '.join(left)}"
                )
            self._sleep(_LOOK_SECONDS)

    def _left(self) -> list[str]:
        """What is not as it was before the journey.

        :raises DemoFailed: it never will be.
        """
        nodes = self._ironic.list_nodes()
        for node in nodes:
            if node.provision_state in _STUCK:
                reason = node.last_error or "Ironic gives no reason"
                raise DemoFailed(f"Node {node.name or node.uuid} was not cleaned: {reason}")
        left = [
            f"node {node.name or node.uuid} is {node.provision_state}"
            + (f" with server {node.instance_uuid}" if node.instance_uuid else "")
            for node in nodes
            # Before API version 1.2 there was no name for this state.
            if node.provision_state not in (states.AVAILABLE, None) or node.instance_uuid
        ]
        left += [f"the records have server {one.name}" for one in self._db.instances.list()]
        if (free := free_places(self._db)) < len(nodes):
            left.append(f"the compute service has {free} of {len(nodes)} nodes free")
        return left


def free_places(database: Database) -> int:
    """How many servers the records have a place for: free nodes, or places in pools."""
    pools = database.pools.list()
    if pools:
        return sum(pool.free for pool in pools)
    return sum(node.available and not node.instance_uuid for node in database.compute_nodes.list())
