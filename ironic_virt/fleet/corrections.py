# SPDX-License-Identifier: Apache-2.0

"""What the doctor can correct by itself: only what changes nothing that anybody uses.

Each correction looks again right before it acts, and leaves alone what has changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.driver import resources
from ironic_virt.fleet import cells
from ironic_virt.fleet.deployment import pool_name
from ironic_virt.fleet.findings import Finding
from ironic_virt.fleet.placement import OF_NOVA, PlacementClient


class NoLongerSo(exceptions.IronicVirtError):
    """The finding no longer holds; nothing was changed."""


def _delete_allocation(finding: Finding, placement: PlacementClient, ironic: IronicClient) -> str:
    consumer = finding.facts["consumer"]
    known = cells.cells()
    alive = any(not server.deleted for cell in known for server in cells.servers(cell, [consumer]))
    migrating = any(True for cell in known for _ in cells.migrations(cell, [consumer]))
    if alive or migrating or cells.being_built([consumer]):
        raise NoLongerSo(f"Nova knows {consumer} now")
    if (kind := placement.consumer_type(consumer)) not in OF_NOVA:
        raise NoLongerSo(f"{consumer} does not belong to Nova: its type is {kind}")
    placement.delete_allocations(consumer)
    return f"deleted the allocations of {consumer}"


def _reserve_inventory(finding: Finding, placement: PlacementClient, ironic: IronicClient) -> str:
    if resources.why_not_free(ironic.get_node(finding.about)) is None:
        raise NoLongerSo(f"node {finding.about} is free now")
    name = finding.facts["resource_class"]
    placement.reserve(finding.facts["provider"], name)
    return f"reserved {name}"


def _allocate_again(finding: Finding, placement: PlacementClient, ironic: IronicClient) -> str:
    uuid, provider = finding.facts["server"], finding.facts["provider"]
    known = cells.cells()
    servers = (server for cell in known for server in cells.servers(cell, [uuid]))
    server = next((server for server in servers if server.is_on_a_node), None)
    if server is None:
        raise NoLongerSo(f"server {uuid} is gone, or has an operation in progress")
    node, place = ironic.node_of_instance(uuid), server.node or ""
    if node is None:
        raise NoLongerSo(f"no node carries server {uuid}")
    if place not in (node.uuid, pool_name(server.host or "", node)):
        raise NoLongerSo(f"node {node.uuid} carries server {uuid}, but Nova has it on {place}")
    records = (record for cell in known for record in cells.records(cell, [provider]))
    if place not in {record.name for record in records}:
        raise NoLongerSo(f"provider {provider} is not that of {place}, where the server is now")
    name = resources.node_inventory(node).placement_class
    # The finding of an allocation that is elsewhere is about the provider that it is from.
    placement.allocate(server, provider, name, instead_of=finding.about)
    return f"allocated {name} of {provider}"


CORRECTIONS: Mapping[str, Callable[[Finding, PlacementClient, IronicClient], str]] = {
    "allocation-elsewhere": _allocate_again,
    "allocation-missing": _allocate_again,
    "allocation-of-nobody": _delete_allocation,
    "offered-unavailable": _reserve_inventory,
}
"""By the code of the finding; each returns in words what it did."""
