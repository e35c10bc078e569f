# SPDX-License-Identifier: Apache-2.0

"""Races of members of a server group: no order of calls, and no death, gets around the group.

The decisions are the driver's; the records, Placement and the clock are here.  A builder is its
calls, one after the other, and others go on in between.
"""

import heapq
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from ironic_virt import virt
from ironic_virt.driver.groups import find_places, rank_domains, why_refused
from ironic_virt.driver.pools.reservation import MOST_ROUNDS

RACKS, EACH, BUILDERS = 4, 3, 8
RACES = 1000
ATTEMPTS = 3
"""Nova's ``[scheduler] max_attempts``."""
MOST_CALLS = 60
"""More than a builder makes before its service may die."""


def group(policy: str, most: int = 1) -> virt.ServerGroup:
    return virt.ServerGroup("99999999-0000-4000-8000-000000000001", "web", policy, most)


class World:
    """Nodes in racks, and what is written down of the members.

    :ivar claims: in Placement, by node.
    :ivar notes: the failure domains that members have written down, in their cells.
    :ivar reserved: the failure domains of the nodes that Ironic has reserved.
    :ivar cell: that of the service which has a member.
    :ivar carried: the members whose nodes carry them, and in which rack that is.
    :ivar locks: the member that has its turn in a service.
    """

    def __init__(self, seed: int, group: virt.ServerGroup, services: int, cells: int) -> None:
        self.rng = random.Random(seed)
        self.group, self.services, self.cells = group, services, cells
        self.nodes = {f"r{r}n{n}": f"r{r}" for r in range(RACKS) for n in range(EACH)}
        self.claims: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.reserved: dict[str, str] = {}
        self.cell: dict[str, int] = {}
        self.carried: dict[str, str] = {}
        self.locks: dict[int, str] = {}
        self.calls = 0

    def run(self, builds: list[Iterator[int]], dies: int | None = None) -> None:
        """Let the builds go on, each call when its time has come.

        :param dies: the number of the call at which the service of a builder dies with all that
            it builds: the call before was made, this one is not.
        """
        queue = [(self.rng.random(), number) for number in range(len(builds))]
        at: dict[int, int] = {}
        while queue:
            now, number = heapq.heappop(queue)
            service = next(builds[number], None)
            if service is None:
                continue
            at[number] = service
            heapq.heappush(queue, (now + self.rng.uniform(0.005, 0.05), number))
            self.calls += 1
            if self.calls == dies:
                # With it goes its lock; what it has written down stays.
                self.locks.pop(service, None)
                queue = [one for one in queue if at.get(one[1]) != service]
                heapq.heapify(queue)

    def others(self, member: str, service: int) -> Counter[str]:
        """What a service sees of the other members: notes in its own cell, nodes elsewhere."""
        cell = service % self.cells
        seen = {one: rack for one, rack in self.notes.items() if self.cell[one] == cell}
        seen |= {one: rack for one, rack in self.reserved.items() if self.cell[one] != cell}
        return Counter(rack for one, rack in seen.items() if one != member)

    def free(self) -> Counter[str]:
        return Counter(self.nodes[node] for node in self.nodes.keys() - self.claims.keys())

    # -- what a driver does, in both modes; every yield is a call to come, by its service -------

    def turn(self, member: str, service: int) -> Iterator[int]:
        while self.locks.get(service, member) != member:
            yield service
        self.locks[service] = member

    def reserve(self, member: str, service: int, rack: str) -> Iterator[int]:
        """Reserve a node; the member is in ``reserved`` if nothing refuses it."""
        yield service
        self.cell[member] = service % self.cells
        self.reserved[member] = rack
        yield from self.look(member, service, rack)

    def look(self, member: str, service: int, rack: str) -> Iterator[int]:
        """Note, look, and take the note back and give the node up."""
        yield service
        self.notes[member] = rack
        yield service
        if why_refused(self.group, rack, self.others(member, service)) is not None:
            yield service
            del self.notes[member]
            yield service
            del self.reserved[member]

    # -- the two modes ------------------------------------------------------------------------

    def scheduled(self, member: str, service: int) -> Iterator[int]:
        """Nova's scheduler picks a node and alternates; the driver looks again."""
        yield -1
        claimed = {self.claims[node]: self.nodes[node] for node in self.claims}
        racks = Counter((claimed | self.notes).values())
        free = self.free()
        allowed = find_places(self.group, racks, free)
        order = [rack for level in rank_domains(self.group, racks, free) for rack in sorted(level)]
        order = [rack for rack in order if rack in allowed]
        hosts = [
            node
            for number in range(EACH)
            for rack in order
            for node in sorted(one for one in self.nodes if self.nodes[one] == rack)[number:][:1]
        ]
        attempts = 0
        for node in hosts:
            yield -1
            if node in self.claims:
                continue
            attempts += 1
            self.claims[node] = member
            at = (service + attempts) % self.services
            yield from self.turn(member, at)
            yield from self.reserve(member, at, self.nodes[node])
            if member in self.reserved:
                yield at
                self.carried[member] = self.nodes[node]
            self.locks.pop(at)
            if member in self.carried or attempts == ATTEMPTS:
                return
            yield at
            del self.claims[node]

    def in_pools(self, member: str, service: int) -> Iterator[int]:
        """The driver picks a rack, and Ironic a node in it."""
        for attempt in range(ATTEMPTS):
            at = (service + attempt) % self.services
            yield from self.turn(member, at)
            for _ in range(MOST_ROUNDS):
                yield at
                best = rank_domains(self.group, self.others(member, at), self.free())
                if not best:
                    break
                rack = self.rng.choice(sorted(best[0]))
                yield at
                nodes = self.nodes.keys() - self.claims.keys()
                free = sorted(node for node in nodes if self.nodes[node] == rack)
                if not free:
                    continue
                self.claims[free[0]] = member
                yield from self.reserve(member, at, rack)
                if member in self.reserved:
                    yield at
                    self.carried[member] = rack
                    break
                del self.claims[free[0]]
                for _ in range(self.rng.randrange(18)):
                    # Up to half a second.
                    yield at
            self.locks.pop(at)
            if member in self.carried:
                return


def race(
    seed: int,
    mode: str,
    services: tuple[int, int],
    group: virt.ServerGroup,
    builders: int,
    dies: int | None,
) -> World:
    world = World(seed, group, *services)
    build = world.scheduled if mode == "scheduler" else world.in_pools
    world.run([build(f"b{number}", number % services[0]) for number in range(builders)], dies)
    return world


modes = pytest.mark.parametrize("mode", ["scheduler", "ironic"])
several = pytest.mark.parametrize(
    "services", [(1, 1), (3, 1), (3, 3)], ids=["one", "three", "three-in-three-cells"]
)


@several
@modes
def test_no_race_gets_around_a_group(mode: str, services: tuple[int, int]) -> None:
    policies = [group("anti-affinity"), group("anti-affinity", most=2), group("affinity")]
    for seed in range(RACES):
        policy = policies[seed % 3]
        dies = seed % (BUILDERS * MOST_CALLS // 4)
        world = race(seed, mode, services, policy, BUILDERS, dies or None)
        racks = Counter(world.carried.values())
        if policy.policy == "affinity":
            assert len(racks) <= 1, (seed, racks)
        else:
            assert max(racks.values(), default=0) <= policy.most, (seed, racks)


@several
@modes
def test_as_many_builders_as_racks_all_get_one(mode: str, services: tuple[int, int]) -> None:
    spread = group("anti-affinity")
    worlds = (race(seed, mode, services, spread, RACKS, None) for seed in range(RACES))
    active = sum(len(world.carried) for world in worlds)
    assert active >= 0.99 * RACKS * RACES, active


@modes
def test_a_race_without_the_second_look_would_be_seen(mode, monkeypatch) -> None:
    def blind(world: World, member: str, service: int, rack: str) -> Iterator[int]:
        yield service
        world.notes[member] = rack

    monkeypatch.setattr(World, "look", blind)
    worlds = [
        race(seed, mode, (3, 1), group("anti-affinity"), BUILDERS, None) for seed in range(20)
    ]
    assert max(max(Counter(world.carried.values()).values()) for world in worlds) > 1
