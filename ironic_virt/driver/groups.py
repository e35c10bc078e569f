# SPDX-License-Identifier: Apache-2.0

"""Which failure domains the members of a server group may use.

Each member first writes down the domain of its node and then looks at those of the others, so
two can't both overlook the other: not in one process, where one chooses after the other, nor
in several, where both may give up.  Thread-safe.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from ironic_virt import virt
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.site import Site

SPREAD, PACK = "anti-affinity", "affinity"


def refusal(group: virt.ServerGroup, domain: str, members: Mapping[str, int]) -> str | None:
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


def levels(
    group: virt.ServerGroup, members: Mapping[str, int], free: Mapping[str, int]
) -> list[frozenset[str]]:
    """The failure domains that a group may use, those that suit it best first.

    :param free: the number of free nodes by failure domain.
    """
    ranks: dict[tuple[int, ...], set[str]] = defaultdict(set)
    for domain, count in free.items():
        if refusal(group, domain, members) is not None:
            continue
        has = members.get(domain, 0)
        if group.policy.endswith(SPREAD):
            rank: tuple[int, ...] = (has,)
        else:
            # The smallest that holds those who have no node yet, else the largest.
            missing = 1 + group.building - count
            rank = (-has, max(missing, 0), max(-missing, 0))
        # A soft group takes nodes without a domain when there are no others.
        ranks[(0 if domain else 1, *rank)].add(domain)
    return [frozenset(ranks[rank]) for rank in sorted(ranks)]


class Groups:
    """Chooses for members of groups."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._locks: weakref.WeakValueDictionary[str, threading.Lock] = (
            weakref.WeakValueDictionary()
        )

    @contextlib.contextmanager
    def turn(self, instance: virt.InstanceLike) -> Iterator[bool]:
        """Let the members of a group get their nodes one after the other.

        :returns: whether the instance is in a group.
        """
        group = self._site.service.group_of(instance)
        if group is None:
            yield False
            return
        with self._lock:
            lock = self._locks.setdefault(group.uuid, threading.Lock())
        with lock:
            yield True

    def why_not(self, instance: virt.InstanceLike, node: Node) -> str | None:
        """Write down the failure domain of a member, unless its group refuses that.

        :returns: why it does; nothing is written down then.
        """
        self._site.service.note_domain(instance, node.domain)
        group = self._site.service.group_of(instance)
        if group is None or not (reason := refusal(group, node.domain, self._members(group))):
            return None
        self._site.service.note_domain(instance, None)
        return f"{group}: {reason}"

    def preferences(
        self,
        instance: virt.InstanceLike,
        snapshot: Snapshot,
        allowed: Collection[str] | None,
        *,
        in_group: bool,
    ) -> tuple[list[Collection[str] | None], str | None]:
        """Which nodes Ironic may choose from, and what decides that, in words.

        :param allowed: uuids of this service's nodes; ``None``: all.
        :returns: uuids, those that suit best first; the words are ``None`` if nothing does.
        """
        wanted = self._site.service.domains_of(instance)
        group = self._site.service.group_of(instance) if in_group else None
        if group is None and wanted is None:
            return [allowed], None
        uuids: dict[str, set[str]] = defaultdict(set)
        for nodes in snapshot.free.values():
            for node in nodes:
                if allowed is None or node.uuid in allowed:
                    uuids[node.domain].add(node.uuid)
        free = {
            domain: len(nodes)
            for domain, nodes in uuids.items()
            if wanted is None or domain in wanted
        }
        about = [] if wanted is None else [f"failure domain {' or '.join(sorted(wanted))}"]
        domains: list[frozenset[str]] = [frozenset(free)]
        if group is not None:
            members = self._members(group)
            domains = levels(group, members, free)
            about.append(f"{group} with members in {dict(sorted(members.items())) or 'none'}")
        best: list[Collection[str] | None] = [
            {uuid for domain in level for uuid in uuids[domain]} for level in domains
        ]
        return best, ", ".join(about)

    def _members(self, group: virt.ServerGroup) -> Counter[str]:
        """The number of other members by failure domain; those without one don't count."""
        members: Counter[str] = Counter()
        snapshot = self._site.nodes.snapshot()
        for uuid, domain in group.domains.items():
            if domain is None:
                # From before groups were minded.
                node = snapshot.by_instance(uuid) or self._site.client.node_of_instance(uuid)
                domain = node.domain if node else ""
            members[domain] += 1
        members.pop("", None)
        return members
