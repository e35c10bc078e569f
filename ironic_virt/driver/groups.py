# SPDX-License-Identifier: Apache-2.0

"""Which failure domains the members of a server group may use.

Each member first reserves a node, writes down the domain of that, and then looks at those of the
others, so two can't both overlook the other: not in one process, where one chooses after the
other, nor in several, where both may give up.  Members whose domain the records don't have, as
those in other cells, are known by their nodes.  Thread-safe.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from ironic_virt import virt
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.site import Site

SPREAD, PACK = "anti-affinity", "affinity"
_LOCKS = 64
"""Groups that share one wait for each other now and then."""


def why_refused(group: virt.ServerGroup, domain: str, members: Mapping[str, int]) -> str | None:
    """Why a strict group takes no node of a failure domain; ``None``: it does.

    :param members: the number of other members by failure domain.
    """
    if group.policy not in (SPREAD, PACK):
        return None
    if not domain:
        return "the node has no failure domain"
    if group.policy == SPREAD and (count := members.get(domain, 0)) >= group.most:
        return f"failure domain {domain} has {count} of its members already"
    if group.policy == PACK and (others := sorted(members.keys() - {domain})):
        return f"its members are in failure domain {', '.join(others)}, the node is in {domain}"
    return None


def find_places(
    group: virt.ServerGroup, members: Mapping[str, int], free: Mapping[str, int]
) -> frozenset[str]:
    """The failure domains that a strict group may use; none unless all that come have a place.

    :param free: the number of free nodes by failure domain.
    """
    number_needed = group.building + 1
    allowed = {domain for domain in free if why_refused(group, domain, members) is None}
    if group.policy == PACK:
        return frozenset(domain for domain in allowed if free[domain] >= number_needed)
    number = sum(min(group.most - members.get(domain, 0), free[domain]) for domain in allowed)
    return frozenset(allowed if number >= number_needed else ())


def rank_domains(
    group: virt.ServerGroup, members: Mapping[str, int], free: Mapping[str, int]
) -> list[frozenset[str]]:
    """The failure domains that a group may use, those that suit it best first."""
    ranks: dict[tuple[int, ...], set[str]] = defaultdict(set)
    for domain, count in free.items():
        if why_refused(group, domain, members) is None:
            # To pack: the smallest that holds those who have no node yet, else the largest.
            missing = 1 + group.building - count
            has, packed = members.get(domain, 0), (max(missing, 0), max(-missing, 0))
            rank = (has,) if group.policy.endswith(SPREAD) else (-has, *packed)
            # A soft group takes nodes without a domain when there are no others.
            ranks[(not domain, *rank)].add(domain)
    return [frozenset(ranks[rank]) for rank in sorted(ranks)]


class Groups:
    """Chooses for members of groups."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def turn(self, instance: virt.InstanceLike) -> contextlib.AbstractContextManager[object]:
        """A block in which the members of a group get their nodes one after the other."""
        group = self._site.service.group_of(instance)
        return self._locks[hash(group.uuid) % _LOCKS] if group else contextlib.nullcontext()

    def why_not(self, instance: virt.InstanceLike, node: Node) -> str | None:
        """Write down the failure domain of an instance's node, unless its group refuses it.

        :returns: why it does; nothing is written down then.
        """
        if node.failure_domain is None:
            return None
        self._site.service.note_domain(instance, node.domain)
        group = self._site.service.group_of(instance)
        reason = group and why_refused(group, node.domain, self._members(group))
        if not reason:
            return None
        self._site.service.note_domain(instance, None)
        return f"{group}: {reason}"

    def preferences(
        self,
        instance: virt.InstanceLike,
        snapshot: Snapshot,
        allowed: Collection[str] | None,
    ) -> tuple[list[Collection[str] | None], str | None]:
        """Which nodes Ironic may choose from, and what decides that, in words.

        :param allowed: uuids of this service's nodes; ``None``: all.
        :returns: uuids, those that suit best first; the words are ``None`` if nothing does.
        """
        wishes = self._site.service.domains_of(instance)
        group = self._site.service.group_of(instance)
        if group is None and wishes is None:
            return [allowed], None
        uuids: dict[str, list[str]] = defaultdict(list)
        for node in (node for nodes in snapshot.free.values() for node in nodes):
            is_allowed = allowed is None or node.uuid in allowed
            if is_allowed and (wishes is None or node.domain in wishes):
                uuids[node.domain].append(node.uuid)
        words = [] if wishes is None else [f"failure domain {' or '.join(sorted(wishes))}"]
        domains = [frozenset(uuids)]
        if group is not None:
            members = self._members(group)
            free = {domain: len(nodes) for domain, nodes in uuids.items()}
            domains = rank_domains(group, members, free)
            words.append(f"{group} with members in {dict(sorted(members.items())) or 'none'}")
        return [
            frozenset(uuid for domain in level for uuid in uuids[domain]) for level in domains
        ], ", ".join(words)

    def _members(self, group: virt.ServerGroup) -> Counter[str]:
        """The number of other members by failure domain; those without one don't count."""
        members: Counter[str] = Counter()
        for uuid, domain in group.domains.items():
            if domain is None:
                node = self._site.nodes.snapshot().by_instance(uuid)
                node = node or self._site.client.node_of_instance(uuid)
                domain = node.domain if node else ""
            members.update([domain] if domain else ())
        return members
