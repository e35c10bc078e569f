# SPDX-License-Identifier: Apache-2.0

"""Nodes out of nothing: ready to be deployed to, repeatable by seed."""

from typing import Any

from ironic_virt.testing.fake_ironic import states
from ironic_virt.testing.fake_ironic.api.node_schema import default_interfaces
from ironic_virt.testing.fake_ironic.baremetal import Baremetal
from ironic_virt.testing.fake_ironic.records import EMPTY, Json, Node, Port

#: A node's default properties; all nodes share the object.
PROPERTIES: Json = {
    "cpus": 8,
    "memory_mb": 16384,
    "local_gb": 100,
    "cpu_arch": "x86_64",
    "capabilities": "boot_mode:uefi,boot_option:local",
}


def make_node(bm: Baremetal, *, ports: int = 1, **fields: Any) -> Node:
    """Add a node that is available and powered off.

    :param ports: how many ports it gets.
    :param fields: fields of the node; by default ``name`` is ``node-<id>``,
        ``resource_class`` is ``baremetal``, and ``properties`` are
        :data:`PROPERTIES`.
    """
    row_id = bm.store.nodes.next_id()
    values: dict[str, Any] = {
        "uuid": bm.new_uuid(),
        "name": f"node-{row_id}",
        "resource_class": "baremetal",
        "properties": PROPERTIES,
        "power_state": states.POWER_OFF,
        "provision_state": states.AVAILABLE,
        **default_interfaces(bm.settings),
    }
    values.update(fields)
    values["traits"] = tuple(sorted(values.get("traits", ())))
    node = Node(id=row_id, created_at=bm.store.timestamp(), **values)
    bm.store.add_node(node)
    for number in range(ports):
        make_port(bm, node, f"52:54:00:{_mac_tail(row_id * 16 + number)}")
    return node


def make_port(bm: Baremetal, node: Node, address: str, **fields: Any) -> Port:
    """Add a port to a node."""
    port = Port(
        id=bm.store.ports.next_id(),
        uuid=bm.new_uuid(),
        created_at=bm.store.timestamp(),
        node=node,
        address=address,
        **{"extra": EMPTY, **fields},
    )
    bm.store.add_port(port)
    return port


def _mac_tail(number: int) -> str:
    return ":".join(f"{number >> shift & 0xFF:02x}" for shift in (16, 8, 0))
