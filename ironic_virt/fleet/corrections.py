# SPDX-License-Identifier: Apache-2.0

"""What the doctor can mend by itself: only what changes nothing that anybody uses.

Each correction looks again right before it acts, and does nothing if what was found is no
longer so.
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

Correction = Callable[[Finding, PlacementClient, IronicClient], str]
"""Does what is to be done, and says in words what that was."""


class NoLongerSo(exceptions.IronicVirtError):
    """What was found is not the case any more; nothing was changed."""


def _delete_allocation(finding: Finding, placement: PlacementClient, ironic: IronicClient) -> str:
    consumer = finding.facts["consumer"]
    known = cells.cells()
    alive = any(not server.deleted for cell in known for server in cells.servers(cell, [consumer]))
    migrating = any(True for cell in known for _ in cells.migrations(cell, [consumer]))
    if alive or migrating or cells.being_built([consumer]):
        raise NoLongerSo(f"{consumer} is known to Nova by now")
    if (kind := placement.consumer_type(consumer)) not in OF_NOVA:
        raise NoLongerSo(f"{consumer} is not Nova's: its type is {kind}")
    placement.delete_allocations(consumer)
    return f"deleted the allocations of {consumer}"


def _reserve(finding: Finding, placement: PlacementClient, ironic: IronicClient) -> str:
    why = resources.why_not_free(ironic.get_node(finding.about))
    if why is None:
        raise NoLongerSo(f"node {finding.about} is free by now")
    name = finding.facts["resource_class"]
    placement.reserve(finding.facts["provider"], name)
    return f"reserved {name}"


def _allocate(finding: Finding, placement: PlacementClient, ironic: IronicClient) -> str:
    server = finding.facts["server"]
    found = [one for cell in cells.cells() for one in cells.servers(cell, [server])]
    if not any(one.is_on_a_node for one in found):
        raise NoLongerSo(f"server {server} is gone, or something is being done to it")
    (alive, *_) = [one for one in found if one.is_on_a_node]
    node, place = ironic.node_of_instance(server), alive.node or ""
    if node is None:
        raise NoLongerSo(f"no node carries server {server}")
    if place not in (node.uuid, pool_name(alive.host or "", node)):
        raise NoLongerSo(f"node {node.uuid} carries server {server}, its record names {place}")
    provider = finding.facts["provider"]
    owner = alive.project_id or "", alive.user_id or ""
    # Of an allocation that is elsewhere, the finding is about that provider.
    name = placement.allocate(server, provider, *owner, instead_of=finding.about)
    return f"allocated {name} of {provider}"


CORRECTIONS: Mapping[str, Correction] = {
    "allocation-elsewhere": _allocate,
    "allocation-missing": _allocate,
    "allocation-of-nobody": _delete_allocation,
    "offered-unavailable": _reserve,
}
"""By the code of the finding."""
