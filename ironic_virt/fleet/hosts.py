# SPDX-License-Identifier: Apache-2.0

"""What Nova's API database knows: hosts' cells and aggregates, server groups and flavors.

Plain data, read by :mod:`ironic_virt.fleet.api_database` and made by hand in tests.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

from ironic_virt.baremetal.node import Node


@dataclasses.dataclass(frozen=True, slots=True)
class Aggregate:
    """A host aggregate, and the availability zone that it makes."""

    name: str
    uuid: str
    hosts: frozenset[str] = frozenset()
    zone: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A server group with a policy that Nova enforces; ``most`` on a host, ``None``: all."""

    uuid: str
    members: frozenset[str]
    most: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor that asks for bare metal: for resource classes in Placement's names."""

    name: str
    classes: frozenset[str]
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    def fits(self, placement_class: str, node: Node, added: Set[str] = frozenset()) -> bool:
        """Whether a node of a class has what is asked for, given classes that may be added."""
        return (
            placement_class in self.classes
            and self.classes - {placement_class} <= added
            and self.required <= node.traits
            and not self.forbidden & node.traits
        )


@dataclasses.dataclass(frozen=True)
class Hosts:
    """What was read.

    :ivar cells: the cell's uuid, by host; hosts that are not there are not mapped.
    :ivar groups: by member.
    :ivar default_zone: of hosts that no aggregate gives another one.
    """

    cells: Mapping[str, str] = dataclasses.field(default_factory=dict)
    aggregates: Sequence[Aggregate] = ()
    groups: Mapping[str, Group] = dataclasses.field(default_factory=dict)
    flavors: Sequence[Flavor] = ()
    default_zone: str = "nova"

    def is_asked_alone(self, name: str) -> bool:
        """Whether a flavor asks for a resource class, and for no other; if there are flavors."""
        return not self.flavors or any(flavor.classes == {name} for flavor in self.flavors)

    def zone(self, host: str) -> str:
        """A host's availability zone."""
        zones = (each.zone for each in self.aggregates if host in each.hosts and each.zone)
        return next(zones, self.default_zone)

    def only_of(self, host: str, other: str) -> list[Aggregate]:
        """The aggregates that a host is in, and another host is not."""
        return [each for each in self.aggregates if host in each.hosts and other not in each.hosts]

    def why_apart(self, host: str, other: str, accepted: Collection[str] = ()) -> str | None:
        """Why a node may not go from a host to another, but for names that are accepted."""
        zones = self.zone(host), self.zone(other)
        if zones[0] != zones[1] and zones[1] not in accepted:
            return f"{host} is in availability zone {zones[0]}, {other} in {zones[1]}"
        for aggregate in (*self.only_of(host, other), *self.only_of(other, host)):
            # An accepted zone is accepted whichever aggregates make it.
            if aggregate.name not in accepted and aggregate.zone is None:
                return f"only one of {host} and {other} is in aggregate {aggregate.name}"
        return None

    def why_crowded(self, server: str, host: str, places: Mapping[str, str]) -> str | None:
        """Why its server group keeps a server from a host, by the hosts of other servers."""
        group = self.groups.get(server)
        if group is None or group.most is None:
            return None
        others = sum(places.get(member) == host for member in group.members - {server})
        words = f"server group {group.uuid} keeps server {server} from {host}"
        return words if others >= group.most else None

    def torn(
        self, servers: Iterable[str], before: Mapping[str, str], after: Mapping[str, str]
    ) -> list[Group]:
        """The groups with affinity whose members were on one host, and would no longer be."""

        def count_hosts(group: Group, places: Mapping[str, str]) -> int:
            return len({places[member] for member in group.members if member in places})

        groups = {group.uuid: group for uuid in servers if (group := self.groups.get(uuid))}
        return [
            group
            for group in groups.values()
            if group.most is None and count_hosts(group, before) < 2 <= count_hosts(group, after)
        ]
