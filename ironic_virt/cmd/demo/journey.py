# SPDX-License-Identifier: Apache-2.0

"""The journey: the commands that the demo types, and what it sees to in between.

What commands print is the records' word.  The journey looks at the nodes in Ironic by itself:
that everything is as it was is Ironic's word.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from ironic_virt.baremetal import states
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.cmd.demo.commands import DemoFailed, Display
from ironic_virt.compute.db import Database

FLAVOR, RESOURCE_CLASS = "gold", "baremetal"
# Nobody fetches it: the hardware is fake on either Ironic.
IMAGE = "file:///images/demo.img"
# What fits into a terminal of 80 columns.
_NODE_COLUMNS = ("-c", "UUID", "-c", "State", "-c", "Host")
_SERVER_COLUMNS = ("-c", "Name", "-c", "Status", "-c", "Node")
_CLEANED_SECONDS = 300.0
_LOOK_SECONDS = 0.25
_STUCK = (states.CLEAN_FAILED, states.ERROR)


@dataclasses.dataclass(slots=True)
class Journey:
    """One journey, to be gone once.

    :param command: runs an ``ironic-virt`` command with these arguments to its end.
    :param records: they are looked at only.
    :param ironic: where it looks at the nodes by itself.
    :param pooled: Ironic picks the nodes, so the commands list pools.
    """

    command: Callable[..., None]
    records: Database
    ironic: IronicClient
    display: Display
    pooled: bool = False
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def go(self, count: int) -> None:
        """Build ``count`` servers, try them, and delete them.

        :raises IronicVirtError: something failed.
        """
        list_nodes = ("node", "list", *(["--pools"] if self.pooled else _NODE_COLUMNS))
        names = ["demo"] if count == 1 else [f"demo-{number}" for number in range(1, count + 1)]
        several = () if count == 1 else ("--count", str(count), *_SERVER_COLUMNS)
        create = ("server", "create", "--flavor", FLAVOR, "--image", IMAGE, *several)
        self.command("flavor", "create", FLAVOR, "--resource-class", RESOURCE_CLASS)
        self.command(*list_nodes)
        self.command(*create, "--wait", "demo")
        self._look_at_servers(names)
        self.command(*list_nodes)
        for action, name in (("reboot", names[0]), ("stop", names[-1]), ("start", names[-1])):
            self.command("server", action, name, "--wait")
        self.command("server", "delete", *names, "--wait")
        self._wait_until_available()
        self.command(*list_nodes)

    def _look_at_servers(self, names: list[str]) -> None:
        """See that Ironic has each server on the node that the records say."""
        carried = {node.instance_uuid: node for node in self.ironic.list_nodes()}
        for name in names:
            record = self.records.instances.get(name)
            node = carried.get(record.uuid)
            if node is None or node.uuid != record.node or node.provision_state != states.ACTIVE:
                place = f"{node.provision_state} on {node.uuid}" if node else "on no node"
                raise DemoFailed(
                    f"{name} is {record.vm_state} on node {record.node}, but in Ironic {place}"
                )

    def _wait_until_available(self) -> None:
        """Wait until Ironic has cleaned all nodes, and the compute service has seen it."""
        deadline = self.clock() + _CLEANED_SECONDS
        self.display.note("\nIronic cleans the nodes ...")
        while differences := self._differences():
            if self.clock() > deadline:
                raise DemoFailed(
                    f"Not as before after {_CLEANED_SECONDS:.0f} s: {', '.join(differences)}"
                )
            self.sleep(_LOOK_SECONDS)

    def _differences(self) -> list[str]:
        """What is not as it was before the journey.

        :raises DemoFailed: it never will be.
        """
        nodes = self.ironic.list_nodes()
        differences = []
        for node in nodes:
            name, state, server = node.name or node.uuid, node.provision_state, node.instance_uuid
            if state in _STUCK:
                reason = node.last_error or "Ironic gives no reason"
                raise DemoFailed(f"Node {name} was not cleaned: {reason}")
            # Before API version 1.2 there was no name for this state.
            if state not in (states.AVAILABLE, None) or server:
                carries = f" with server {server}" if server else ""
                differences.append(f"node {name} is {state}{carries}")
        servers = self.records.instances.list()
        differences += [f"the records have server {server.name}" for server in servers]
        if (free := free_places(self.records)) < len(nodes):
            differences.append(f"the compute service has {free} of {len(nodes)} nodes free")
        return differences


def free_places(database: Database) -> int:
    """How many servers the records have a place for: free nodes, or places in pools."""
    if pools := database.pools.list():
        return sum(pool.free for pool in pools)
    return sum(node.available and not node.instance_uuid for node in database.compute_nodes.list())
