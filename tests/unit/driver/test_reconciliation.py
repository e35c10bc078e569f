# SPDX-License-Identifier: Apache-2.0

"""Allocations that nobody wants any more, and those that somebody does."""

import logging
import threading

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.pools import allocation_extra
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver.stage import (
    INSTANCE,
    STRANGER,
    VIF,
    SetStage,
    Stage,
    just_before,
    meanwhile,
)

PERIOD = 600


@pytest.fixture
def stage(fake: FakeIronic, set_stage: SetStage) -> Stage:
    stage = set_stage(fake, node_selection="ironic", inventory_full_resync_period=PERIOD)
    stage.service.owned = set()
    return stage


def leave(stage: Stage, node: str, uuid: str = INSTANCE, host: str = "compute1") -> None:
    """An allocation that a process has left."""
    extra = allocation_extra.make_notes(stage.instance(None), None, host)
    stage.driver._site.client.allocations.create(
        uuid, resource_class="gold", candidate_nodes=[node], extra=extra
    )


def pooled(stage: Stage) -> virt.Instance:
    """Our instance, for which a pool was chosen and no node."""
    flavor = virt.Flavor("bm", extra_specs={"resources:CUSTOM_GOLD": "1"})
    return stage.instance("gold~compute1", flavor=flavor)


def look(stage: Stage, times: int = 1) -> None:
    """Let so many periods go by, with a refresh at the end of each."""
    for _ in range(times):
        stage.refresh()
        stage.fake.advance(PERIOD)


def left(fake: FakeIronic) -> list[str]:
    return [one["uuid"] for one in fake.allocations()]


@pytest.mark.parametrize("stuck", [False, True], ids=["with a node", "in error"])
def test_one_that_nobody_wants_goes_when_it_is_found_so_twice(fake, stage, node, stuck) -> None:
    fake.set_node(node, maintenance=stuck)
    leave(stage, node)
    for _ in range(5):
        stage.refresh()
    assert asked(fake) == 1, "refreshes in between are no second time"
    look(stage)
    stage.service.owned = {INSTANCE}
    look(stage)
    stage.service.owned = set()
    look(stage)
    assert left(fake) == [INSTANCE], "it was wanted in between, and begins anew"
    look(stage)
    assert left(fake) == []
    assert fake.node(node)["instance_uuid"] is None


def test_an_instance_that_gets_its_node_meanwhile_leaves_nothing(set_stage: SetStage) -> None:
    fake = FakeIronic(durations=Durations(allocate=PERIOD + 1))
    stage = set_stage(fake, node_selection="ironic", inventory_full_resync_period=PERIOD)
    stage.service.owned = set()
    node = fake.add_node(ports=1, resource_class="gold")
    untouched = stage.trace(node)
    leave(stage, node)
    look(stage)

    def gets_it() -> None:
        assert fake.allocations()[0]["state"] == "allocating"
        fake.advance(1)

    stage.service.on_existing = gets_it
    stage.refresh()
    assert left(fake) == []
    assert stage.trace(node) == untouched


@pytest.mark.parametrize("whose", ["owned", "hosts"])
def test_one_of_an_instance_that_exists_stays_whoever_has_it(fake, stage, node, whose) -> None:
    leave(stage, node)
    if whose == "owned":
        stage.service.owned = {INSTANCE}
    else:
        stage.service.hosts = {INSTANCE: "compute2"}
    look(stage, 4)
    assert left(fake) == [INSTANCE]


def test_what_others_have_made_stays(fake: FakeIronic, stage: Stage, node: str) -> None:
    leave(stage, node, host="compute2")
    stage.driver._site.client.allocations.create(
        STRANGER, resource_class="gold", candidate_nodes=[fake.add_node(resource_class="gold")]
    )
    look(stage, 4)
    assert sorted(left(fake)) == sorted([INSTANCE, STRANGER])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"provision_state": "active"}, "openstack baremetal node undeploy {}"),
        ({"shard": "t"}, "its node {} is not among this service's any more"),
    ],
    ids=["in use", "in another shard"],
)
def test_what_can_not_go_stays_and_is_told_once(fake, set_stage, caplog, change, says) -> None:
    stage = set_stage(fake, node_selection="ironic", shard_key="s")
    stage.service.owned = set()
    node = fake.add_node(resource_class="gold", shard="s")
    leave(stage, node)
    fake.settle()
    fake.set_node(node, **change)
    with caplog.at_level(logging.WARNING):
        look(stage, 5)
    assert left(fake) == [INSTANCE]
    assert fake.node(node)["instance_uuid"] == INSTANCE
    assert says.format(node) in stays(caplog)


def stays(caplog: pytest.LogCaptureFixture) -> str:
    """The only line that says that something stays; it names the instance."""
    (told,) = [one for one in caplog.messages if "stays" in one]
    assert INSTANCE in told
    return told


def test_a_list_that_fails_is_asked_for_again(fake: FakeIronic, stage: Stage, node: str) -> None:
    leave(stage, node)
    look(stage)
    fake.faults.status(400, "GET", "/allocations$")
    look(stage)
    assert left(fake) == [INSTANCE]
    stage.refresh()
    assert left(fake) == []


@pytest.mark.parametrize("node_selection", ["ironic", "scheduler"])
def test_a_user_who_may_not_list_is_told_once(fake, set_stage, node_selection, caplog) -> None:
    stage = set_stage(fake, node_selection=node_selection, inventory_full_resync_period=PERIOD)
    fake.add_node(resource_class="gold")
    stage.refresh()
    look(stage)
    before = asked(fake)
    fake.faults.status(403, "GET", "/allocations$", count=None)
    for _ in range(3):
        look(stage)
        stage.refresh()
        stage.refresh()
    assert asked(fake) - before == 4
    told = [one for one in caplog.records if "allocations-not-compared" in one.getMessage()]
    assert [one.levelname for one in told] == ["WARNING"]


def test_who_refreshes_meanwhile_does_not_wait(fake: FakeIronic, stage: Stage, node: str) -> None:
    leave(stage, node)
    refreshed: list[bool] = []

    def slow() -> None:
        stage.service.on_existing = lambda: None
        other = threading.Thread(target=look, args=(stage,), daemon=True)
        other.start()
        other.join(60)
        refreshed.append(not other.is_alive())

    stage.service.on_existing = slow
    look(stage)
    assert refreshed == [True]
    assert asked(fake) == 1


@pytest.mark.parametrize("error", [exceptions.IronicVirtError("away"), RuntimeError("lost")])
def test_records_that_can_not_be_asked_cost_no_refresh(fake, stage, node, error) -> None:
    leave(stage, node)
    look(stage)

    def fails() -> None:
        raise error

    stage.service.on_existing = fails
    assert stage.refresh() == ["gold~compute1"]
    assert left(fake) == [INSTANCE]
    stage.service.on_existing = lambda: None
    stage.refresh()
    assert left(fake) == []


def test_what_was_written_to_the_node_goes_with_it(fake, stage, node) -> None:
    untouched = stage.trace(node)
    leave(stage, node)
    fake.settle()
    fake.faults.status(503, "PUT", "/provision$", count=None)
    fake.faults.status(503, "DELETE", count=None)
    stage.service.owned = {INSTANCE}
    with pytest.raises(exceptions.IronicError):
        stage.spawn(pooled(stage))
    fake.faults.clear()
    stage.service.owned = set()
    assert fake.vifs(node) == [VIF]
    look(stage, 2)
    assert stage.trace(node) == untouched
    assert left(fake) == []


def test_one_that_fails_keeps_no_other_from_going(fake, stage, node, caplog) -> None:
    leave(stage, node)
    other = fake.add_node(resource_class="gold")
    leave(stage, other, uuid=STRANGER)
    fake.settle()
    fake.faults.status(400, "PATCH", f"/nodes/{node}$", count=1)
    look(stage, 2)
    assert left(fake) == [INSTANCE]
    assert "HTTP 400" in stays(caplog)
    look(stage)
    assert left(fake) == []


def test_a_look_has_one_deadline_and_resumes_where_it_stopped(fake, stage) -> None:
    uuids = [f"{INSTANCE[:-2]}{number:02}" for number in range(8)]
    for uuid in uuids:
        leave(stage, fake.add_node(resource_class="gold"), uuid=uuid)
    fake.settle()
    look(stage)
    is_slow = meanwhile(lambda: fake.advance(4), hits=True)
    fake.faults.status(503, "PATCH", count=None, when=is_slow)
    for _ in range(3):
        began = fake.clock.now()
        stage.refresh()
        assert fake.clock.now() - began < 15
        fake.advance(PERIOD)
    asked = [entry.path for entry in fake.requests.matching("PATCH", "/nodes/")]
    assert (len(asked), len(set(asked))) == (9, 8)
    fake.faults.clear()
    look(stage)
    assert left(fake) == []


# -- nodes that were deployed without an instance -----------------------------


@pytest.fixture
def stray(fake: FakeIronic, stage: Stage, node: str) -> str:
    """A node that went on to ``active`` when a late request had deleted its allocation."""
    stage.service.owned = {INSTANCE}
    just_before(fake, lambda: stage.driver._site.client.allocations.delete(INSTANCE))
    with pytest.raises(exceptions.DeployFailed):
        stage.spawn(pooled(stage))
    fake.settle()
    seen = fake.node(node)
    assert (seen["provision_state"], seen["instance_uuid"]) == ("active", None)
    fake.requests.clear()
    return node


def undeployed(fake: FakeIronic) -> int:
    """How often a node was to be torn down."""
    return len(fake.requests.matching("PUT", "/states/provision$"))


def test_a_node_deployed_without_its_instance_is_torn_down_later(fake, stage, stray, caplog):
    look(stage, 3)
    assert undeployed(fake) == 0, "the instance exists, and may have to be explained"
    stage.service.owned = set()
    look(stage)
    assert undeployed(fake) == 0, "it was seen once"
    look(stage)
    assert undeployed(fake) == 1
    seen = stage.trace(stray)
    assert seen["provision_state"] == "available"
    assert (seen["instance_info"], seen["vifs"]) == ({}, [])
    (line,) = [one for one in caplog.messages if "node-without-instance" in one]
    assert stray in line
    assert INSTANCE in line
    look(stage, 3)
    assert undeployed(fake) == 1


def test_one_that_cannot_be_read_keeps_no_other_deployed(fake, stage, stray) -> None:
    first = fake.add_node(uuid=f"0{INSTANCE[1:]}", provision_state="active")
    fake.faults.status(500, "GET", f"/nodes/{first}$", count=None)
    stage.service.owned = set()
    look(stage, 2)
    assert undeployed(fake) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"maintenance": True},
        {"protected": True},
        {"instance_uuid": STRANGER},
        {"instance_info": {"image_source": "a"}},
        {"provision_state": "error"},
        {},
    ],
    ids=lambda change: next(iter(change), "of an unknown instance"),
)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_one_that_somebody_may_need_is_left_alone(fake, stage, stray, change, when) -> None:
    stage.service.owned = set()
    if not change:
        # Another cell may have it.
        stage.service.deleted_instances = lambda uuids: ()
    elif when == "before":
        fake.set_node(stray, **change)
    else:
        look(stage)
        stage.service.on_existing = lambda: fake.set_node(stray, **change)
    look(stage, 4)
    assert undeployed(fake) == 0


def test_a_node_that_others_deployed_is_read_once(fake, stage, node) -> None:
    fake.set_node(node, provision_state="active", instance_info={"image_source": "a"})
    look(stage, 4)
    assert len(fake.requests.matching("GET", f"/nodes/{node}$")) == 1
    assert undeployed(fake) == 0


# -- while the scheduler picks the node ---------------------------------------


def asked(fake: FakeIronic) -> int:
    """How often allocations were listed."""
    return len(fake.requests.matching("GET", "/allocations$"))


@pytest.mark.parametrize("stuck", [False, True], ids=["with a node", "in error"])
def test_leftovers_go_when_the_scheduler_picks_again(fake, set_stage, stage, node, stuck) -> None:
    fake.set_node(node, maintenance=stuck)
    leave(stage, node)
    back = set_stage(fake, inventory_full_resync_period=PERIOD)
    back.service.owned = set()
    fake.settle()
    look(back)
    assert asked(fake) == 0, "nothing that a start costs"
    look(back)
    assert left(fake) == [INSTANCE]
    look(back)
    assert left(fake) == []
    assert fake.node(node)["instance_uuid"] is None


def test_where_nothing_is_left_it_is_looked_for_once(fake, set_stage) -> None:
    stage = set_stage(fake, inventory_full_resync_period=PERIOD)
    fake.add_node(resource_class="gold")
    look(stage, 10)
    assert asked(fake) == 1
