# SPDX-License-Identifier: Apache-2.0

"""Server groups by failure domain: what they allow, and that no race gets around it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.groups import levels, refusal
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import INSTANCE, SetStage, Stage
from tests.unit.driver.test_reservation import POOL, instance

GROUP = "99999999-0000-4000-8000-000000000001"
OTHER = "99999999-0000-4000-8000-000000000002"
ANTI = virt.ServerGroup(GROUP, "web", "anti-affinity")
PACK = virt.ServerGroup(GROUP, "web", "affinity")


def of(policy: str, **fields: Any) -> virt.ServerGroup:
    return virt.ServerGroup(GROUP, "web", policy, **fields)


@pytest.mark.parametrize(
    ("group", "domain", "members", "reason"),
    [
        (ANTI, "r1", {}, None),
        (ANTI, "r1", {"r2": 3}, None),
        (ANTI, "r1", {"r1": 1}, "failure domain r1 has 1 of its members already"),
        (of("anti-affinity", most=2), "r1", {"r1": 1}, None),
        (of("anti-affinity", most=2), "r1", {"r1": 2}, "failure domain r1 has 2"),
        (ANTI, "", {}, "the node has no failure domain"),
        (PACK, "r1", {"r1": 5}, None),
        (PACK, "r1", {"r2": 1}, "its members are in failure domain r2, the node is in r1"),
        (PACK, "", {}, "the node has no failure domain"),
        (of("soft-anti-affinity"), "r1", {"r1": 9}, None),
        (of("soft-affinity"), "", {"r1": 9}, None),
    ],
)
def test_what_a_group_refuses(
    group: virt.ServerGroup, domain: str, members: dict[str, int], reason: str | None
) -> None:
    refused = refusal(group, domain, members)
    assert (refused is None) == (reason is None)
    assert (refused or "").startswith(reason or "")


@pytest.mark.parametrize(
    ("group", "members", "free", "order"),
    [
        (ANTI, {"a": 1}, {"a": 2, "b": 1, "c": 1}, ["bc"]),
        (of("soft-anti-affinity"), {"a": 1}, {"a": 2, "b": 1, "": 1}, ["b", "a", ""]),
        (PACK, {}, {"a": 2, "b": 1}, ["b", "a"]),
        (of("affinity", building=1), {}, {"a": 3, "b": 2, "c": 1}, ["b", "a", "c"]),
        (PACK, {"a": 1}, {"a": 2, "b": 1}, ["a"]),
        (of("soft-affinity"), {"a": 1}, {"a": 2, "b": 1}, ["a", "b"]),
        (ANTI, {"a": 1}, {"a": 2}, []),
    ],
)
def test_which_domains_suit_best(
    group: virt.ServerGroup, members: dict[str, int], free: dict[str, int], order: list[str]
) -> None:
    assert levels(group, members, free) == [frozenset(level or [""]) for level in order]


# -- races --------------------------------------------------------------------


class Builder:
    """A build as its steps: each is one call to the records, after which others may go on."""

    def __init__(self, world: World, service: int, number: int) -> None:
        self.uuid, self.service, self.domain = f"b{number}", service, ""
        self.passed = False
        self._world = world

    def run(self) -> Iterator[None]:
        world = self._world
        while world.locks.get(self.service) not in (None, self.uuid):
            yield
        world.locks[self.service] = self.uuid
        others = Counter(world.marks.values())
        options = [name for name in world.domains if refusal(world.group, name, others) is None]
        self.domain = world.rng.choice(options or world.domains)
        yield
        world.marks[self.uuid] = self.domain
        yield
        others = Counter(mark for uuid, mark in world.marks.items() if uuid != self.uuid)
        reason = refusal(world.group, self.domain, others)
        yield
        if reason is None:
            self.passed = True
        else:
            del world.marks[self.uuid]
        world.locks.pop(self.service)


class World:
    """The records, several services and their builds, in an order that chance decides."""

    def __init__(self, seed: int, group: virt.ServerGroup, services: int) -> None:
        self.rng = random.Random(seed)
        self.group = group
        self.domains = ["r0", "r1", "r2", "r3"]
        self.marks: dict[str, str] = {}
        self.locks: dict[int, str] = {}
        self.builders = [Builder(self, number % services, number) for number in range(8)]

    def run(self) -> None:
        running = {builder: builder.run() for builder in self.builders}
        dying = self.rng.choice(self.builders)
        dies_after = self.rng.randrange(12)
        while running:
            builder = self.rng.choice(list(running))
            if builder is dying and not (dies_after := dies_after - 1):
                # With it goes its lock; what it has written stays.
                if self.locks.get(builder.service) == builder.uuid:
                    self.locks.pop(builder.service)
                del running[builder]
            elif next(running[builder], self) is self:
                del running[builder]


@pytest.mark.parametrize("services", [1, 3])
@pytest.mark.parametrize("group", [ANTI, of("anti-affinity", most=2), PACK], ids=str)
def test_no_race_gets_around_a_group(group: virt.ServerGroup, services: int) -> None:
    for seed in range(1000):
        world = World(seed, group, services)
        world.run()
        used = Counter(builder.domain for builder in world.builders if builder.passed)
        if group.policy == "affinity":
            assert len(used) <= 1, (seed, used)
        else:
            assert max(used.values(), default=0) <= group.most, (seed, used)


# -- the driver ---------------------------------------------------------------


class Records:
    """What a service says of our instance's group."""

    def __init__(self, stage: Stage, policy: str, **domains: str | None) -> None:
        self.stage, self.policy, self.domains = stage, policy, domains
        self.noted: list[str | None] = []
        self.wanted: set[str] | None = None
        stage.service.group_of = lambda instance: of(self.policy, domains=self.domains)  # type: ignore[method-assign]
        stage.service.domains_of = lambda instance: self.wanted  # type: ignore[method-assign]
        stage.service.note_domain = lambda instance, domain: self.noted.append(domain)  # type: ignore[method-assign]


def rack(fake: FakeIronic, name: str, **fields: Any) -> str:
    uuid: str = fake.add_node(
        ports=1, resource_class="gold", properties={"capabilities": f"rack:{name}"}, **fields
    )
    return uuid


def carrier(fake: FakeIronic) -> str | None:
    return next((one["uuid"] for one in fake.nodes() if one["instance_uuid"] == INSTANCE), None)


def test_a_node_in_a_domain_that_is_full_is_refused(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake, failure_domain="capabilities/rack")
    node = rack(fake, "r1")
    records = Records(stage, "anti-affinity", other="r1")
    with pytest.raises(exceptions.NodeNotAvailable, match=r"server group web \(anti-affinity\)"):
        stage.reserve(stage.instance(node))
    assert carrier(fake) is None
    assert records.noted == ["r1", None]
    records.domains = {"other": "r2"}
    stage.reserve(stage.instance(node))
    assert carrier(fake) == node
    assert records.noted == ["r1", None, "r1"]


def test_a_member_from_before_counts_where_its_node_is(
    fake: FakeIronic, set_stage: SetStage
) -> None:
    stage = set_stage(fake, failure_domain="capabilities/rack")
    rack(fake, "r1", instance_uuid=OTHER, provision_state="active")
    node = rack(fake, "r1")
    Records(stage, "anti-affinity", **{OTHER: None})
    with pytest.raises(exceptions.NodeNotAvailable, match="r1 has 1 of its members"):
        stage.reserve(stage.instance(node))


def test_without_the_option_each_node_is_a_domain(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake)
    other, node = rack(fake, "r1"), rack(fake, "r1")
    records = Records(stage, "anti-affinity", other=other)
    stage.reserve(stage.instance(node))
    assert records.noted == [node]


def test_in_pools_the_driver_picks_the_domain(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake, node_selection="ironic", failure_domain="capabilities/rack")
    for name in ("r1", "r1", "r1", "r2"):
        rack(fake, name)
    records = Records(stage, "anti-affinity", other="r1")
    stage.reserve(instance(stage))
    assert fake.node(carrier(fake))["properties"]["capabilities"] == "rack:r2"
    assert records.noted == ["r2"]


def test_in_pools_another_service_may_be_as_quick(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake, node_selection="ironic", failure_domain="capabilities/rack")
    rack(fake, "r1")
    rack(fake, "r2")
    records = Records(stage, "anti-affinity")

    def note(instance: virt.InstanceLike, domain: str | None) -> None:
        if not records.noted and domain:
            records.domains = {"other": domain}
        records.noted.append(domain)

    stage.service.note_domain = note  # type: ignore[method-assign]
    stage.reserve(instance(stage))
    first, none, second = records.noted
    assert (none, {first, second}) == (None, {"r1", "r2"})
    assert fake.node(carrier(fake))["properties"]["capabilities"] == f"rack:{second}"


@pytest.mark.parametrize("wanted", [None, {"r3"}])
def test_in_pools_the_error_names_the_group_first(
    fake: FakeIronic, set_stage: SetStage, wanted: set[str] | None
) -> None:
    stage = set_stage(fake, node_selection="ironic", failure_domain="capabilities/rack")
    rack(fake, "r1")
    Records(stage, "anti-affinity", other="r1").wanted = wanted
    with pytest.raises(exceptions.ReservationFailed) as caught:
        stage.reserve(instance(stage))
    begins = "failure domain r3, server group" if wanted else "server group"
    assert caught.value.reason.startswith(f"{begins} web (anti-affinity) with members in")
    assert fake.requests.matching("POST", "/allocations$") == []


def test_a_pool_says_what_is_free_in_each_domain(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake, node_selection="ironic", failure_domain="capabilities/rack")
    for name in ("r1", "r1", "r2"):
        rack(fake, name)
    fake.add_node(ports=1, resource_class="gold")
    stage.refresh()
    assert stage.driver.get_available_resource(POOL).free_by_domain == {"r1": 2, "r2": 1}


def test_a_node_says_its_domain(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake, failure_domain="capabilities/rack")
    nodes = [rack(fake, "r1"), fake.add_node(ports=1, resource_class="gold")]
    stage.refresh()
    domains = [stage.driver.get_available_resource(node).failure_domain for node in nodes]
    assert domains == ["r1", ""]
