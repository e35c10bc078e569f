# SPDX-License-Identifier: Apache-2.0

"""Server groups by failure domain, for Nova's scheduler.

Nova's own filters count hosts, and all nodes of a compute service are one host.  These have the
same names, so that Nova takes them instead, and leave hosts that are no bare metal to Nova's.

In ``nova.conf`` of the scheduler::

    [filter_scheduler]
    available_filters = nova.scheduler.filters.all_filters
    available_filters = ironic_virt.nova.server_groups.all_filters
    weight_classes = nova.scheduler.weights.all_weighers,
        ironic_virt.nova.server_groups.FailureDomainWeigher
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from nova import exception
from nova.scheduler import filters, utils, weights
from nova.scheduler.filters import affinity_filter
from oslo_log import log as logging

from ironic_virt import virt
from ironic_virt.driver.groups import PACK, SPREAD, levels, refusal
from ironic_virt.nova import group_members, sizes
from ironic_virt.nova.group_members import Members, free_in

LOG = logging.getLogger(__name__)

_SHOWN = 8


class _Room:
    """The free nodes of the hosts that a filter or a weigher is given, by failure domain."""

    def __init__(self, hosts: Iterable[Any], members: Members) -> None:
        free = [host for host in hosts if id(host) not in members.taken]
        self.domains = [(host, free_in(host)) for host in free]
        self.free: Counter[str] = Counter()
        for _, domains in self.domains:
            self.free.update(domains or {})
        self.is_known = all(domains is not None for _, domains in self.domains)

    def hosts_in(self, allowed: frozenset[str]) -> list[Any]:
        """The hosts with a free node in one of these domains, and pools that don't say."""
        return [
            host
            for host, domains in self.domains
            if domains is None
            or any(domain in allowed for domain, free in domains.items() if free)
        ]

    def shown(self, members: Mapping[str, int]) -> str:
        """The domains with the numbers of members and of free nodes."""
        names = [
            f"{domain or '(none)'} {members.get(domain, 0)}/{free}"
            for domain, free in sorted(self.free.items())
        ]
        return ", ".join([*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])])


class _ByDomain:
    """What both filters do; those that a filter returns are those that pass."""

    policy_name: str

    def filter_all(self, hosts: Iterable[Any], spec: Any) -> list[Any]:
        """See Nova's filters.

        :raises NoValidHost: no host passes; the user reads why.
        """
        hosts = list(hosts)
        nodes = [host for host in hosts if sizes.is_bare_metal(host)]
        group = group_members.group_of(spec)
        is_other = group is None or group.policy != self.policy_name
        if not nodes or is_other or utils.request_is_rebuild(spec):
            return [host for host in hosts if self._filter_one(host, spec)]  # type: ignore[attr-defined]
        members = group_members.members_of(spec)
        counts = members.see(nodes, spec)
        passing, reason = self._passing(_Room(nodes, members), members, counts, spec)
        passing += [
            host
            for host in hosts
            if not sizes.is_bare_metal(host) and self._filter_one(host, spec)  # type: ignore[attr-defined]
        ]
        if reason:
            LOG.info("Request of server %s: %s", spec.instance_uuid, reason)
        if not passing and not members.claimed and members.first_boot:
            # Later, Nova would leave the claims of the servers before.
            raise exception.NoValidHost(reason=reason)
        passed = {id(host) for host in passing}
        return [host for host in hosts if id(host) in passed]

    def _passing(
        self, room: _Room, members: Members, counts: Counter[str], spec: Any
    ) -> tuple[list[Any], str]:
        """The hosts that pass, and why there are none."""
        group, wanted = members.group(spec), members.wanted(spec)
        if members.silent:
            return [], f"{group}: cell {', '.join(members.silent)} does not answer"
        allowed = self._allowed(group, counts, room, wanted)
        passing = room.hosts_in(allowed)
        if passing:
            return passing, ""
        return [], (
            f"{group}: {wanted} to place, {self._limit(group)}; members/free nodes by failure "
            f"domain: {room.shown(counts)}"
        )

    def _allowed(
        self, group: virt.ServerGroup, counts: Counter[str], room: _Room, wanted: int
    ) -> frozenset[str]:
        """The failure domains of which each may get a member; none if not all have a place."""
        raise NotImplementedError

    def _limit(self, group: virt.ServerGroup) -> str:
        raise NotImplementedError


class ServerGroupAntiAffinityFilter(_ByDomain, affinity_filter.ServerGroupAntiAffinityFilter):  # type: ignore[misc]
    """No more members in a failure domain than the group's rule says, of all of the request."""

    def _allowed(
        self, group: virt.ServerGroup, counts: Counter[str], room: _Room, wanted: int
    ) -> frozenset[str]:
        free = {
            domain: number
            for domain, number in room.free.items()
            if refusal(group, domain, counts) is None
        }
        places = sum(min(group.most - counts[domain], free[domain]) for domain in free)
        return frozenset(free) if places >= wanted or not room.is_known else frozenset()

    def _limit(self, group: virt.ServerGroup) -> str:
        return f"at most {group.most} to a failure domain"


class ServerGroupAffinityFilter(_ByDomain, affinity_filter.ServerGroupAffinityFilter):  # type: ignore[misc]
    """All members in one failure domain, of all of the request."""

    def _allowed(
        self, group: virt.ServerGroup, counts: Counter[str], room: _Room, wanted: int
    ) -> frozenset[str]:
        return frozenset(
            domain
            for domain, number in room.free.items()
            if refusal(group, domain, counts) is None and (number >= wanted or not room.is_known)
        )

    def _limit(self, group: virt.ServerGroup) -> str:
        return "all in one failure domain"


class FailureDomainWeigher(weights.BaseHostWeigher):  # type: ignore[misc]
    """Spreads or packs the members of a group; a soft policy is nothing but this.

    It outweighs all others.  Neighbours in the order are of different failure domains if
    members are spread, because a build that fails goes to the next ones.
    """

    def weight_multiplier(self, host_state: Any) -> float:
        """See Nova's weighers."""
        return 1000.0

    def _weigh_object(self, host_state: Any, spec: Any) -> float:
        return 0.0  # Nova's base class wants it.

    def weigh_objects(self, weighed: Iterable[Any], spec: Any) -> list[float]:
        """See Nova's weighers."""
        objects = list(weighed)
        group = group_members.group_of(spec)
        nodes = [one.obj for one in objects if sizes.is_bare_metal(one.obj)]
        if not nodes or group is None or not (group.policy or "").endswith((SPREAD, PACK)):
            return [0.0] * len(objects)
        members = group_members.members_of(spec)
        counts = members.see(nodes, spec)
        room = _Room(nodes, members)
        order = levels(members.group(spec), counts, room.free)
        rank = {domain: number for number, level in enumerate(order) for domain in level}
        is_spread = group.policy.endswith(SPREAD)
        taken: Counter[str] = Counter()
        keys: dict[int, tuple[int, ...]] = {}
        # What other weighers have said so far decides within a domain.
        for one in sorted(objects, key=lambda one: -one.weight):
            domains = free_in(one.obj) if sizes.is_bare_metal(one.obj) else None
            known = [domain for domain in domains or () if domain in rank]
            if not known:
                keys[id(one)] = (2,)
                continue
            best = min(known, key=lambda domain: (rank[domain], -room.free[domain]))
            # Without a domain last, whatever is next to it.
            order_in = counts[best] + taken[best] if is_spread else rank[best]
            keys[id(one)] = (not best, order_in, -room.free[best] * is_spread)
            taken[best] += 1
        places = {key: place for place, key in enumerate(sorted(set(keys.values())))}
        return [-float(places[keys[id(one)]]) for one in objects]


class FailureDomainFilter(filters.BaseHostFilter):  # type: ignore[misc]
    """Bare metal in the failure domains that a hint or the flavor names.

    ``--hint failure_domain=r1,r2``, and the flavor's ``ironic_virt:failure_domain``.
    """

    RUN_ON_REBUILD = False

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        """See Nova's filters."""
        hint = spec_obj.get_scheduler_hint(sizes.HINT)
        wanted = sizes.wanted_domains(hint, spec_obj.flavor.extra_specs)
        if wanted is None:
            return True
        if not sizes.is_bare_metal(host_state):
            return False
        domains = free_in(host_state)
        return domains is None or any(domain in wanted for domain in domains)


def all_filters() -> list[type]:
    """What ``available_filters`` may name to have them all."""
    return [ServerGroupAntiAffinityFilter, ServerGroupAffinityFilter, FailureDomainFilter]
