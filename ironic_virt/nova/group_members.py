# SPDX-License-Identifier: Apache-2.0

"""In which failure domains the members of a request's server group are, for the scheduler.

Read once for each request: the members' records in their cells, the records of their compute
nodes, and, of members that have no node yet, their allocations in Placement.  Members that
were deleted stay in Nova's groups for long; nothing is asked for them.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.compute import vm_states
from nova.scheduler.client import report

from ironic_virt import virt
from ironic_virt.driver.pools import names
from ironic_virt.nova import sizes

_ATTRIBUTE = "_ironic_virt_members"


def domain_of(host: Any) -> str:
    """The failure domain of a host state or a compute node; ``""``: it has none.

    Where the driver says nothing of it, each node is one.
    """
    name = getattr(host, "nodename", None) or host.hypervisor_hostname
    return str((host.stats or {}).get(sizes.FAILURE_DOMAIN, name))


def free_in(host: Any) -> Mapping[str, int] | None:
    """The free nodes of a pool by failure domain, of a node itself; ``None``: not known."""
    text = (host.stats or {}).get(sizes.FREE_BY_DOMAIN)
    if text is not None:
        return dict(json.loads(text))
    if names.class_of(host.nodename, host.host) is not None:
        return None
    return {domain_of(host): 1}


@dataclasses.dataclass
class Members:
    """The other members of a request's group; of a multi-create those before, too.

    :ivar domains: failure domains of members by their uuid; a pool's are not known.
    :ivar silent: cells that did not answer.
    :ivar first_boot: no server of the request has been built before.
    :ivar claimed: how many servers of the request have got their place.
    :ivar taken: ids of the host states of the nodes that they have got.
    """

    domains: dict[str, str]
    silent: list[str]
    first_boot: bool
    claimed: int = 0
    taken: set[int] = dataclasses.field(default_factory=set)
    _counts: dict[int, tuple[Any, int]] = dataclasses.field(default_factory=dict)
    _last: str = ""

    def see(self, hosts: Iterable[Any], spec: Any) -> Counter[str]:
        """The number of members by failure domain, without the server that is scheduled."""
        for state, number in list(self._counts.values()):
            if state.num_instances > number:
                # Nova has put the server before this one there.
                self._counts[id(state)] = (state, state.num_instances)
                self.claimed += 1
                if not is_pool(state):
                    self.domains[self._last] = domain_of(state)
                    self.taken.add(id(state))
        for state in hosts:
            self._counts.setdefault(id(state), (state, state.num_instances))
        self._last = spec.instance_uuid
        others = [domain for uuid, domain in self.domains.items() if uuid != spec.instance_uuid]
        return Counter(domain for domain in others if domain)

    def group(self, spec: Any) -> virt.ServerGroup:
        """The group as the driver knows it; ``building`` are those to come in this request."""
        group = spec.instance_group
        most = int((group.rules or {}).get("max_server_per_host", 1))
        return virt.ServerGroup(
            group.uuid, group.name, group.policy, most, building=self.wanted(spec) - 1
        )

    def wanted(self, spec: Any) -> int:
        """How many servers of the request have no place yet."""
        # What the request says is of the first boot.
        return max(1, spec.num_instances - self.claimed) if self.first_boot else 1


def is_pool(host: Any) -> bool:
    """Whether the driver picks a node of the host state."""
    return names.class_of(host.nodename, host.host) is not None


def group_of(spec: Any) -> Any:
    """The server group of a request, if it has one."""
    return spec.instance_group if spec.obj_attr_is_set("instance_group") else None


def members_of(spec: Any) -> Members:
    """The members of the group of a request, read when first asked for."""
    members: Members | None = getattr(spec, _ATTRIBUTE, None)
    if members is None:
        members = _read(spec.instance_group.members, spec.instance_uuid)
        # It lives as long as the scheduler has the request.
        setattr(spec, _ATTRIBUTE, members)
    return members


def _read(uuids: Sequence[str], own: str) -> Members:
    context = nova_context.get_admin_context()
    # First: from there a server goes into a cell.
    requested = {one.instance_uuid for one in objects.BuildRequestList.get_all(context)}
    building = requested.intersection(uuids)
    members = Members({}, [], first_boot=True)
    for cell, answer in _in_cells(context, lambda cell: _in_cell(cell, uuids)):
        if answer is None:
            members.silent.append(cell)
            continue
        domains, without, known = answer
        members.domains |= domains
        building = (building - domains.keys()) | without
        members.first_boot = members.first_boot and own not in known
    building -= members.domains.keys() | {own}
    client = report.report_client_singleton()
    nodes = {
        uuid: provider
        for uuid in sorted(building)
        for provider in client.get_allocations_for_consumer(context, uuid) or ()
    }
    if nodes:
        for cell, found in _in_cells(context, lambda cell: _domains(cell, nodes.values())):
            if found is None:
                members.silent.append(cell)
                continue
            members.domains |= {uuid: found[node] for uuid, node in nodes.items() if node in found}
    return members


def _in_cells(context: Any, ask: Callable[[Any], Any]) -> list[tuple[str, Any]]:
    answers = nova_context.scatter_gather_skip_cell0(context, ask)
    return [
        (cell, None if nova_context.is_cell_failure_sentinel(answer) else answer)
        for cell, answer in answers.items()
    ]


def _in_cell(cell: Any, uuids: Sequence[str]) -> tuple[dict[str, str], set[str], frozenset[str]]:
    """The domains of members, those that have no node yet, and all that the cell knows."""
    rows = _instances(cell, uuids, [])
    placed = [row for row in rows if row.node]
    pooled = [row.uuid for row in placed if names.class_of(row.node, row.host or "") is not None]
    domains = {}
    if pooled:
        for row in _instances(cell, pooled, ["system_metadata"]):
            if domain := row.system_metadata.get(sizes.FAILURE_DOMAIN):
                domains[row.uuid] = domain
    on_nodes = {row.uuid: row.node for row in placed if row.uuid not in set(pooled)}
    found = _domains(cell, on_nodes.values()) if on_nodes else {}
    domains |= {uuid: found[node] for uuid, node in on_nodes.items() if node in found}
    without = {row.uuid for row in rows if not row.node and row.vm_state == vm_states.BUILDING}
    return domains, without, frozenset(row.uuid for row in rows)


def _instances(cell: Any, uuids: Sequence[str], attributes: list[str]) -> list[Any]:
    filters = {"uuid": sorted(uuids), "deleted": False, "soft_deleted": True}
    return list(objects.InstanceList.get_by_filters(cell, filters, expected_attrs=attributes))


def _domains(cell: Any, nodes: Collection[str]) -> dict[str, str]:
    """The failure domains of bare metal nodes; pools have none."""
    records = objects.ComputeNodeList.get_all_by_uuids(cell, sorted(set(nodes)))
    return {
        record.uuid: domain_of(record)
        for record in records
        if sizes.is_bare_metal(record) and record.hypervisor_hostname == record.uuid
    }
