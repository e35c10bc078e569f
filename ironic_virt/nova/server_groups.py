# SPDX-License-Identifier: Apache-2.0

"""Server groups by failure domain, for Nova's scheduler.

Nova's own filters count hosts, and all nodes of a compute service are one host.  These have the
same names, so that Nova takes them instead, and leave hosts that report no failure domains to
Nova's.  ``doc/source/nova/server_groups.rst`` has the options.
"""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from nova import context as nova_context
from nova import exception, objects
from nova.compute import vm_states
from nova.db.api import api as api_db
from nova.db.api import models as api_models
from nova.db.main import api as main_db
from nova.db.main import models
from nova.scheduler import filters, utils, weights
from nova.scheduler.client import report
from nova.scheduler.filters import affinity_filter
from oslo_log import log as logging

from ironic_virt import virt
from ironic_virt.driver.groups import PACK, SPREAD, find_places, rank_domains
from ironic_virt.nova import sizes, values

LOG = logging.getLogger(__name__)

_ATTRIBUTE = "_ironic_virt_members"
_POLICIES = (SPREAD, PACK, f"soft-{SPREAD}", f"soft-{PACK}")
_SHOWN = 8
"""Failure domains in a reason."""


# A text for each rack, a thousand hosts, and several looks at each.
_parsed: Callable[[str], Mapping[str, int]] = functools.lru_cache(4096)(json.loads)


def _domains_of(host: Any) -> Mapping[str, int] | None:
    """The free nodes of a host state or a record by failure domain; ``None``: not reported."""
    text = (host.stats or {}).get(sizes.FAILURE_DOMAINS)
    return None if text is None else _parsed(text)


class Members:
    """The other members of a request's group, and the nodes that are free for the next one.

    :ivar counts: the members by failure domain; of a multi-create those before, too.
    :ivar silent: cells that did not answer.
    :ivar first_boot: no server of the request has been built before.
    :ivar claimed: how many servers of the request have got their place.
    :ivar group: its ``building`` are those of the request that come after this server.
    :ivar free: the free nodes of all hosts by failure domain.
    """

    group: virt.ServerGroup
    free: Counter[str]

    def __init__(self, domains: Iterable[str] = ()) -> None:
        self.counts = Counter(domains)
        self.silent: list[str] = []
        self.first_boot = True
        self.claimed = 0
        self._numbers: list[tuple[Any, int]] = []
        self._taken: set[int] = set()

    def see(self, hosts: Sequence[Any], spec: Any) -> None:
        """Look at hosts that report failure domains, for one server of the request."""
        for host, number in self._numbers:
            if host.num_instances > number:
                # Nova has put the server before this one there.
                self.claimed += 1
                if host.uuid == host.nodename:
                    self.counts.update(_domains_of(host))
                    self._taken.add(id(host))
        # Nodes without a domain have nothing in common.
        del self.counts[""]
        # What a request says of several servers is of their first boot.
        later = spec.num_instances - self.claimed - 1 if self.first_boot else 0
        self.group = values.server_group(spec.instance_group, building=max(0, later))
        self._numbers, self.free = [(host, host.num_instances) for host in hosts], Counter()
        for host in hosts:
            self.free.update(self.free_on(host))

    def free_on(self, host: Any) -> Mapping[str, int]:
        """The free nodes of a host by failure domain; a node that was just given away is not."""
        return {} if id(host) in self._taken else _domains_of(host) or {}


def look_at_members(hosts: Iterable[Any], spec: Any, policies: Collection[str]) -> Members | None:
    """The members of a request's group; ``None``: no host has domains, or another policy.

    They are read once, and live as long as the scheduler has the request.
    """
    group = spec.instance_group if spec.obj_attr_is_set("instance_group") else None
    if group is None or group.policy not in policies:
        return None
    nodes = [host for host in hosts if _domains_of(host) is not None]
    if not nodes:
        return None
    members: Members | None = getattr(spec, _ATTRIBUTE, None)
    if members is None:
        members = _read_members(group.members, spec.instance_uuid)
        setattr(spec, _ATTRIBUTE, members)
    members.see(nodes, spec)
    return members


def _read_members(uuids: Sequence[str], own: str) -> Members:
    """Ask the members' cells, and Placement for those that are being built.

    Members that were deleted stay in Nova's groups for long; nothing is asked for them.
    """
    context, members = nova_context.get_admin_context(), Members()
    # First: from there a server goes into a cell.
    nodes: dict[str, str | None] = dict.fromkeys(_read_requested(context) & {*uuids})
    for uuid, node, vm_state, domain in _in_cells(
        lambda cell: _read_servers(cell, uuids), members.silent
    ):
        nodes.pop(uuid, None)
        if uuid == own:
            members.first_boot = False
        elif node and domain is not None:
            members.counts[domain] += 1
        elif node or vm_state == vm_states.BUILDING:
            nodes[uuid] = node
    client = report.report_client_singleton()
    for uuid in [uuid for uuid, node in nodes.items() if node is None and uuid != own]:
        places = client.get_allocations_for_consumer(context, uuid) or ()
        nodes[uuid] = next(iter(places), None)
    if names := [node for node in nodes.values() if node]:
        for record in _in_cells(
            lambda cell: objects.ComputeNodeList.get_all_by_uuids(cell, names), members.silent
        ):
            if record.uuid == record.hypervisor_hostname:
                members.counts.update(_domains_of(record) or ())
    return members


def _read_requested(context: Any) -> set[str]:
    """The uuids of all servers that are in no cell yet; these are few."""
    with api_db.context_manager.reader.using(context) as session:
        return set(session.scalars(sa.select(api_models.BuildRequest.instance_uuid)))


def _read_servers(cell: Any, uuids: Sequence[str]) -> Sequence[Any]:
    """The uuid, node, state and noted domain of each server that a cell has.

    Nova's own objects would take five times as long.
    """
    server, note = models.Instance, models.InstanceSystemMetadata
    is_note = sa.and_(
        note.instance_uuid == server.uuid, note.key == sizes.FAILURE_DOMAIN, note.deleted == 0
    )
    query = (
        sa.select(server.uuid, server.node, server.vm_state, note.value)
        .outerjoin(note, is_note)
        .where(server.uuid.in_(uuids), server.deleted == 0)
    )
    with main_db.get_context_manager(cell).reader.using(cell) as session:
        rows: Sequence[Any] = session.execute(query).all()
        return rows


def _in_cells(ask: Callable[[Any], Any], silent: list[str]) -> Iterator[Any]:
    """All that the cells answer; those that don't are added to ``silent``."""
    answers = nova_context.scatter_gather_skip_cell0(nova_context.get_admin_context(), ask)
    for cell, answer in answers.items():
        if nova_context.is_cell_failure_sentinel(answer):
            silent.append(cell)
        else:
            yield from answer


class _ByDomain:
    """What both filters do."""

    policy_name: str
    _filter_one: Callable[[Any, Any], bool]

    def filter_all(self, hosts: Iterable[Any], spec: Any) -> list[Any]:
        """The hosts that may get the server.

        :raises NoValidHost: no host passes; the user reads why.
        """
        hosts = list(hosts)
        is_rebuild = utils.request_is_rebuild(spec)
        members = None if is_rebuild else look_at_members(hosts, spec, [self.policy_name])
        if members is None:
            return [host for host in hosts if self._filter_one(host, spec)]
        places = frozenset[str]()
        if not members.silent:
            places = find_places(members.group, members.counts, members.free)
        passing = [
            host
            for host in hosts
            if not places.isdisjoint(members.free_on(host))
            or (_domains_of(host) is None and self._filter_one(host, spec))
        ]
        if not passing:
            reason = _reason(members)
            LOG.info("Request of server %s: %s", spec.instance_uuid, reason)
            if members.first_boot and not members.claimed:
                # Later, Nova would leave the claims of the servers before.
                raise exception.NoValidHost(reason=reason)
        return passing


def _reason(members: Members) -> str:
    group, counts, free = members.group, members.counts, members.free
    if members.silent:
        return f"{group}: cell {', '.join(members.silent)} does not answer"
    limit = "all in one" if group.policy == PACK else f"at most {group.most} to a"
    shown = [f"{name or '(none)'} {counts[name]}/{free[name]}" for name in sorted(free)]
    return (
        f"{group}: {group.building + 1} to place, {limit} failure domain; members/free nodes by "
        f"failure domain: {', '.join(shown[:_SHOWN] + ['...'] * (len(shown) > _SHOWN))}"
    )


class ServerGroupAntiAffinityFilter(_ByDomain, affinity_filter.ServerGroupAntiAffinityFilter):  # type: ignore[misc]
    """No more members in a failure domain than the group's rule says, of all of the request."""


class ServerGroupAffinityFilter(_ByDomain, affinity_filter.ServerGroupAffinityFilter):  # type: ignore[misc]
    """All members in one failure domain, of all of the request."""


class FailureDomainWeigher(weights.BaseHostWeigher):  # type: ignore[misc]
    """Spreads or packs the members of a group; a soft policy is nothing but this.

    It outweighs all others.  Neighbours in the order are of different failure domains if
    members are spread, because a build that fails goes to the next ones.
    """

    def weight_multiplier(self, host_state: Any) -> float:
        """Outweigh all other weighers by default."""
        return 1000.0

    def _weigh_object(self, host_state: Any, spec: Any) -> float:
        return 0.0  # Nova's base class wants it.

    def weigh_objects(self, weighed: Iterable[Any], spec: Any) -> list[float]:
        """A weight for each host; the best one has 0, the others less."""
        hosts = list(weighed)
        members = look_at_members([host.obj for host in hosts], spec, _POLICIES)
        if members is None:
            return [0.0] * len(hosts)
        group, free = members.group, members.free
        order = rank_domains(group, members.counts, free)
        rank = {domain: number for number, level in enumerate(order) for domain in level}
        keys: dict[int, tuple[float, ...]] = {}
        # What other weighers have said so far decides within a domain.
        for host in sorted(hosts, key=lambda host: -host.weight):
            domains = rank.keys() & members.free_on(host.obj).keys()
            best = min(domains, key=lambda name: (rank[name], -free[name], name), default=None)
            if best is None:
                keys[id(host)] = (math.inf,)
                continue
            # Hosts without a domain come last.
            keys[id(host)] = (rank[best] + len(hosts) * (not best), -free[best])
            rank[best] += group.policy.endswith(SPREAD)
        ranks = {key: number for number, key in enumerate(sorted(set(keys.values())))}
        return [-float(ranks[keys[id(host)]]) for host in hosts]


class FailureDomainFilter(filters.BaseHostFilter):  # type: ignore[misc]
    """Bare metal in the failure domains that a hint or the flavor names."""

    RUN_ON_REBUILD = False

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        """Whether the host has a node in a domain that the request names."""
        hint = spec_obj.get_scheduler_hint(sizes.HINT)
        named = sizes.named_domains(hint, spec_obj.flavor.extra_specs)
        return named is None or not named.isdisjoint(_domains_of(host_state) or ())


def all_filters() -> list[type]:
    """What ``available_filters`` may name to have them all."""
    return [ServerGroupAntiAffinityFilter, ServerGroupAffinityFilter, FailureDomainFilter]
