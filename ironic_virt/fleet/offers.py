# SPDX-License-Identifier: Apache-2.0

"""What a node, and what a pool of nodes, should offer in Placement: the driver's own answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.pools import counts, names
from ironic_virt.virt import NodeInventory

CAPABILITY_TRAITS = "COMPUTE_"
"""Nova adds traits that begin so for what the driver can do."""


def of_node(node: Node) -> NodeInventory:
    """What a node offers; reserved unless it is free."""
    return resources.node_inventory(node)


def why_unavailable(node: Node) -> str | None:
    """Why a node can't take a server; ``None``: it can."""
    return resources.why_not_free(node)


def pool_name(host: str, node: Node) -> str:
    """The name of the pool of a host that a node is in."""
    return names.pool_name(host, (node.resource_class or "", node.traits))


def pool_uuid(name: str) -> str:
    """The uuid of a pool's record and provider."""
    return names.pool_uuid(name)


def pools(host: str, nodes: Iterable[Node], places: Mapping[str, str]) -> dict[str, counts.Pool]:
    """The pools of a host by name, with their numbers.

    :param nodes: those that are the host's.
    :param places: the host's servers, and the names of the records that they are on.
    """
    listed = list(nodes)
    carried = [node.instance_uuid for node in listed if node.instance_uuid]
    recorded = counts.Recorded(host, places)
    return counts.pools_of(listed, recorded, counts.Capacity.TOTAL, carried)
