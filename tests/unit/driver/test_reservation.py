# SPDX-License-Identifier: Apache-2.0

"""Ironic picks the node: stories of reservations that go well, and of those that don't."""

import contextlib
import dataclasses
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.baremetal import states
from ironic_virt.driver.pools import allocation_extra, reservation
from ironic_virt.driver.pools.names import pool_name
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver.conftest import DURATIONS
from tests.unit.driver.stage import BUSY, IMAGE, INSTANCE, STRANGER, SetStage, Stage, find_locked

POOL = "gold~compute1"
SMALL = {"cpus": 8, "memory_mb": 16384, "local_gb": 100}
LARGE = {"cpus": 16, "memory_mb": 32768, "local_gb": 200}
GOLD = {
    "resources:CUSTOM_GOLD": "1",
    "resources:VCPU": "0",
    "resources:MEMORY_MB": "0",
    "resources:DISK_GB": "0",
}


@pytest.fixture
def stage(fake: FakeIronic, set_stage: SetStage) -> Stage:
    return set_stage(fake, node_selection="ironic")


def instance(stage: Stage, extra_specs: dict[str, str] | None = None) -> virt.Instance:
    """Our instance, for which the scheduler has chosen a pool."""
    flavor = virt.Flavor("bm", 8, 16384, 100, extra_specs=extra_specs or GOLD)
    return stage.instance(POOL, flavor=flavor)


def gold(fake: FakeIronic, *traits: str, **fields: Any) -> str:
    uuid: str = fake.add_node(ports=1, resource_class="gold", traits=list(traits), **fields)
    return uuid


def carrier(fake: FakeIronic) -> str | None:
    """The node that carries our instance."""
    fake.settle()
    found = [one["uuid"] for one in fake.nodes() if one["instance_uuid"] == INSTANCE]
    assert len(found) <= 1
    return found[0] if found else None


def posts(fake: FakeIronic) -> list[dict[str, Any]]:
    """What allocations were asked for."""
    return [entry.body for entry in fake.requests.matching("POST", "/allocations$")]


# -- the good way -------------------------------------------------------------


def test_an_instance_gets_one_of_the_nodes_and_goes_again(fake: FakeIronic, stage: Stage) -> None:
    nodes = {gold(fake) for _ in range(3)}
    other = fake.add_node(resource_class="silver")
    untouched = {node: stage.trace(node) for node in nodes}
    stage.spawn(instance(stage))
    node = carrier(fake)
    assert node in nodes
    assert fake.node(node)["provision_state"] == "active"
    assert fake.node(node)["allocation_uuid"] == INSTANCE
    [asked] = posts(fake)
    assert (asked["uuid"], asked["resource_class"]) == (INSTANCE, "gold")
    assert set(asked["candidate_nodes"]) == nodes
    assert other not in asked["candidate_nodes"]
    for _ in range(3):
        stage.destroy(instance(stage))
        assert {one: stage.trace(one) for one in nodes} == untouched
        assert fake.allocations() == []


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        ("me:secret@images.test/a.raw?signature=secret", "images.test/a.raw"),
        ("me:1/secret@images.test/a.raw", "images.test/a.raw"),
        ("me:secret?a@images.test/a.raw", ""),
        ("images.test/a.raw#secret@", ""),
    ],
)
def test_the_allocation_says_who_asked_for_what(fake, stage, image, shown) -> None:
    gold(fake)
    stage.service.image = dataclasses.replace(
        IMAGE,
        id=f"https://{image}",
        properties={"os": "http://[debian", "traits_required": []},
    )
    wanted = dataclasses.replace(instance(stage), display_name="web", project_id="p", user_id="u")
    stage.reserve(wanted)
    [allocation] = fake.allocations()
    assert allocation["extra"] == {
        "ironic_virt": {
            "host": "compute1",
            "instance_name": "web",
            "project_id": "p",
            "user_id": "u",
            "flavor": "bm",
            "memory_mb": 16384,
            "vcpus": 8,
            "root_gb": 100,
            "ephemeral_gb": 0,
            "swap": 0,
            "extra_specs": GOLD,
            "image": {
                "id": f"https://{shown}",
                "properties": {"os": "http://[debian", "traits_required": []},
            },
        }
    }
    assert allocation_extra.host_of(allocation["extra"]) == "compute1"


def test_the_time_of_a_reservation_is_measured(fake: FakeIronic, stage: Stage) -> None:
    steps: list[str] = []

    class Metrics(virt.Metrics):
        def step(self, name: str) -> contextlib.AbstractContextManager[None]:
            steps.append(name)
            return contextlib.nullcontext()

    gold(fake)
    stage.service.metrics = Metrics()
    for _ in range(2):
        stage.reserve(instance(stage))
        assert steps == ["reserving"], "and not again: it is there already"


@pytest.mark.parametrize("prepares", [True, False])
def test_the_images_requirements_count_but_not_what_nova_adds(fake, stage, prepares) -> None:
    gold(fake, "CUSTOM_X")
    special = gold(fake, "CUSTOM_X", "COMPUTE_NODE")
    image = dataclasses.replace(IMAGE, properties={"traits_required": ["CUSTOM_X", "COMPUTE_X"]})
    ours = instance(stage, GOLD | {"resources:CUSTOM_L": "1", "trait:COMPUTE_NODE": "required"})
    stage.service.image = image if prepares else None
    if prepares:
        stage.reserve(ours)
    else:
        stage.driver.spawn(virt.DeployRequest(ours, image, []))
    assert carrier(fake) == special
    assert posts(fake)[0]["traits"] == ["COMPUTE_NODE", "CUSTOM_X"]


def test_only_nodes_of_the_shard_are_asked_for(fake: FakeIronic, set_stage: SetStage) -> None:
    mine, other = gold(fake, shard="mine"), gold(fake, shard="other")
    stage = set_stage(fake, node_selection="ironic", shard_key="mine")
    stage.reserve(instance(stage))
    assert carrier(fake) == mine
    assert posts(fake)[0]["candidate_nodes"] == [mine]
    assert other not in str([entry.path for entry in fake.requests])


def test_a_foreign_or_undeployable_node_is_not_asked_for(fake: FakeIronic, stage: Stage) -> None:
    bad, good, theirs = gold(fake), gold(fake), gold(fake)
    stage.service.owners = {theirs: "compute2"}
    stage.service.tried = {INSTANCE: [bad]}
    stage.reserve(instance(stage))
    assert posts(fake)[0]["candidate_nodes"] == [good]
    assert stage.service.steps == ["reserving"]


@pytest.mark.parametrize("wanted", ["CUSTOM_A", "CUSTOM_B"])
def test_the_pool_that_was_chosen_is_asked_first_among_equals(fake, stage, wanted) -> None:
    nodes = {trait: gold(fake, trait) for trait in ("CUSTOM_A", "CUSTOM_B")}
    ours = dataclasses.replace(
        instance(stage), node=pool_name("compute1", ("gold", frozenset({wanted})))
    )
    stage.reserve(ours)
    assert posts(fake)[0]["candidate_nodes"][0] == nodes[wanted]


def test_sizes_are_exact_where_the_option_says_so(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake, node_selection="ironic", match="exact")
    _, small = (gold(fake, properties=size) for size in (LARGE, SMALL))
    stage.reserve(instance(stage, {"resources:CUSTOM_GOLD": "1"}))
    assert posts(fake)[0]["candidate_nodes"] == [carrier(fake)] == [small]


# -- rounds -------------------------------------------------------------------


def test_what_was_taken_meanwhile_costs_a_round(fake: FakeIronic, stage: Stage) -> None:
    plain = gold(fake)
    gpu = gold(fake, "CUSTOM_GPU")
    stage.refresh()
    fake.set_node(plain, instance_uuid=STRANGER)
    stage.spawn(instance(stage))
    assert carrier(fake) == gpu
    assert [asked["candidate_nodes"] for asked in posts(fake)] == [[plain], [gpu]]
    assert [one["state"] for one in fake.allocations()] == ["active"]
    assert fake.node(plain)["instance_uuid"] == STRANGER


def test_no_node_says_how_many_there_were_and_why_not(fake: FakeIronic, stage: Stage) -> None:
    fake.add_node(resource_class="silver")
    plain = gold(fake)
    stage.refresh()
    fake.set_node(plain, instance_uuid=STRANGER)
    with pytest.raises(exceptions.ReservationFailed) as caught:
        stage.reserve(instance(stage))
    assert caught.value.retriable
    assert caught.value.candidates == 0
    text = str(caught.value)
    assert f"No node, server {INSTANCE}: there is no node that would do (free: 1;" in text
    assert "of resource class 1 CUSTOM_GOLD: 0" in text
    assert "round 1: 1 of 1 candidates, Ironic: Failed to process allocation" in text
    assert "none of the requested nodes are available" in text
    assert fake.allocations() == []


def test_rounds_are_few(fake: FakeIronic, stage: Stage) -> None:
    for _ in range(300):
        gold(fake)
    fake.fail_next("allocate", "no", count=1000)
    with pytest.raises(exceptions.ReservationFailed, match="in 5 rounds") as caught:
        stage.reserve(instance(stage))
    assert caught.value.candidates == 200
    asked = posts(fake)
    assert len(asked) == len(caught.value.rounds) == reservation.MOST_ROUNDS
    tried = [node for one in asked for node in one["candidate_nodes"]]
    assert len(tried) == len(set(tried)) == 5 * reservation.MOST_CANDIDATES
    assert fake.allocations() == []
    assert carrier(fake) is None


def test_a_node_that_came_after_the_last_list_is_found(fake: FakeIronic, stage: Stage) -> None:
    stage.refresh()
    node = gold(fake)
    stage.reserve(instance(stage))
    assert carrier(fake) == node


def test_a_candidate_that_was_deleted_costs_a_round(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake, node_selection="ironic", inventory_full_resync_period=0)
    gone, stays = gold(fake), gold(fake)
    stage.refresh()
    assert stage.channel.send("DELETE", f"/nodes/{gone}", version="1.52").status == 204
    stage.reserve(instance(stage))
    assert carrier(fake) == stays
    assert [set(asked["candidate_nodes"]) for asked in posts(fake)] == [{gone, stays}, {stays}]


@pytest.mark.parametrize("change", [{"maintenance": True}, {"shard": "t"}])
def test_a_node_that_went_bad_once_reserved_is_given_back(fake, set_stage, change) -> None:
    first, second = gold(fake, shard="s"), gold(fake, "CUSTOM_B", shard="s")
    stage = set_stage(fake, node_selection="ironic", shard_key="s")

    def goes_bad(method: str, path: str, body: Any) -> bool:
        if fake.node(first)["instance_uuid"] == INSTANCE:
            fake.set_node(first, **change)
        return False

    fake.faults.status(500, "GET", f"/nodes/{first}", count=None, when=goes_bad)
    stage.spawn(instance(stage))
    assert carrier(fake) == second
    assert fake.node(first)["instance_uuid"] is None
    assert fake.node(first)["instance_info"] == {} or "shard" in change, "that is another's"
    assert len(fake.allocations()) == 1


def test_an_old_reservation_outside_the_shard_is_left_alone(fake, set_stage) -> None:
    node = gold(fake, shard="other")
    fake.set_node(node, instance_uuid=INSTANCE)
    gold(fake, shard="s")
    stage = set_stage(fake, node_selection="ironic", shard_key="s")
    with pytest.raises(exceptions.NodeNotOurs):
        stage.reserve(instance(stage))
    assert carrier(fake) == node
    assert posts(fake) == []


# -- time ---------------------------------------------------------------------


def test_ironic_may_take_its_time(set_stage: SetStage) -> None:
    fake = FakeIronic(durations=dataclasses.replace(DURATIONS, allocate=20))
    stage = set_stage(fake, node_selection="ironic")
    node = gold(fake)
    stage.reserve(instance(stage))
    assert carrier(fake) == node
    looks = len(fake.requests.matching("GET", f"/allocations/{INSTANCE}"))
    assert looks == len(stage.pauses)
    interval = float(stage.conf.ironic.api_retry_interval)
    for number, pause in enumerate(stage.pauses):
        longest = min(0.1 * 1.5**number, interval)
        assert 0.8 * longest <= pause <= longest + 1e-9, "growing, and not the same for all"


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_stuck_allocation_is_given_up_and_tried_again(set_stage, is_wanted) -> None:
    """Not for a build that is not wanted any more."""
    fake = FakeIronic(durations=Durations(allocate=10_000))
    stage = set_stage(fake, node_selection="ironic", allocation_timeout=30)
    gold(fake)
    if is_wanted:
        with pytest.raises(exceptions.ReservationFailed, match="not chosen after 30 s") as caught:
            stage.reserve(instance(stage))
        assert len(caught.value.rounds) == reservation.MOST_ROUNDS
        assert sum(stage.pauses) == pytest.approx(30 * reservation.MOST_ROUNDS)
    else:
        stage.service.unwanted = "it is being deleted"
        with pytest.raises(exceptions.BuildAborted, match="being deleted"):
            stage.reserve(instance(stage))
        assert len(posts(fake)) == 1
    assert fake.allocations() == []
    assert carrier(fake) is None


def test_a_service_that_stops_leaves_the_reservation_for_later(set_stage: SetStage) -> None:
    fake = FakeIronic(durations=Durations(allocate=20))
    stage = set_stage(fake, node_selection="ironic")
    node = gold(fake)
    stage.stopping = True
    with pytest.raises(exceptions.WaitCancelled):
        stage.reserve(instance(stage))
    stage.stopping = False
    stage.spawn(instance(stage))
    assert carrier(fake) == node
    assert len(fake.allocations()) == 1


@pytest.mark.parametrize("status", [400, 500])
def test_a_reservation_that_can_not_be_given_up_is_in_the_error(fake, stage, caplog, status):
    gold(fake)
    fake.faults.status(status, "POST", "/allocations$", count=None)
    fake.faults.status(503, "GET", "/allocations/", BUSY, count=None)
    with pytest.raises((exceptions.ReservationFailed, exceptions.IronicError)) as caught:
        stage.reserve(instance(stage))
    assert "instance-left-on-node" in caplog.text
    if status == 500:
        assert any("Giving the reservation up failed too" in one for one in caught.value.__notes__)
    fake.faults.clear()
    stage.destroy(instance(stage))
    assert fake.allocations() == []


# -- what was there before ----------------------------------------------------


def leave_allocation(fake: FakeIronic, stage: Stage, **fields: Any) -> None:
    """One of our allocations, which a process left behind when it died."""
    stage.driver._site.client.allocations.create(INSTANCE, **{"resource_class": "gold"} | fields)


def test_an_allocation_that_failed_before_is_made_anew(fake: FakeIronic, stage: Stage) -> None:
    bad = gold(fake, maintenance=True)
    leave_allocation(fake, stage, candidate_nodes=[bad])
    assert fake.allocations()[0]["state"] == "error"
    good = gold(fake)
    stage.reserve(instance(stage))
    assert carrier(fake) == good


def test_nothing_is_deployed_on_another_node_than_the_record_has(fake, stage) -> None:
    had, _ = gold(fake, maintenance=True), gold(fake)
    with pytest.raises(exceptions.NodeNotAvailable, match=f"reservation of node {had} was lost"):
        stage.spawn(dataclasses.replace(instance(stage), node=had))
    assert carrier(fake) is None


# -- destroy ------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        state
        for state in sorted(states.ALL)
        if states.tear_down_step(state) is not states.TearDownStep.WAIT
    ],
)
def test_destroy_gives_the_reservation_back_in_every_state(fake, stage, state) -> None:
    node = gold(fake)
    stage.reserve(instance(stage))
    fake.settle()
    fake.set_node(node, provision_state=state)
    stage.destroy(instance(stage))
    assert carrier(fake) is None
    assert fake.allocations() == []


def test_an_allocation_that_is_gone_is_not_deleted(fake: FakeIronic, stage: Stage) -> None:
    gold(fake)
    stage.destroy(instance(stage))
    assert fake.requests.matching("DELETE", "/allocations/") == []


def failed_with_allocation(fake: FakeIronic, stage: Stage) -> str:
    """A node with our reservation, in a state in which Ironic takes both off together only."""
    node = gold(fake)
    stage.reserve(instance(stage))
    fake.settle()
    fake.set_node(node, provision_state="clean failed")
    fake.requests.clear()
    stage.service.reports.clear()
    return node


def test_a_node_released_with_its_allocation_is_known_as_free(fake, stage) -> None:
    node = failed_with_allocation(fake, stage)
    stage.destroy(instance(stage))
    assert stage.service.reports == ["released: clean failed"]
    assert fake.requests.matching("GET", "/nodes")[-1].path.endswith(f"/nodes/{node}")


def test_an_allocation_stays_on_a_node_that_is_locked(fake: FakeIronic, stage: Stage) -> None:
    failed_with_allocation(fake, stage)
    find_locked(fake, "PATCH", count=None)
    with pytest.raises(exceptions.NodeLocked):
        stage.destroy(instance(stage))
    assert fake.requests.matching("DELETE", "/allocations/") == []


def test_a_node_that_changes_hands_is_not_written_to_again(fake: FakeIronic, stage: Stage) -> None:
    node = failed_with_allocation(fake, stage)

    def hits(method: str, path: str, body: Any) -> bool:
        # The first gives the node a key.  The second is refused by Ironic, and the third leaves
        # the instance to the allocation.
        if any(operation["path"] == "/instance_uuid" for operation in body):
            return False
        fake.set_node(node, instance_uuid=STRANGER)
        return True

    fake.faults.status(503, "PATCH", when=hits)
    stage.destroy(instance(stage))
    assert len(fake.requests.matching("PATCH", "/nodes/")) == 3


def test_an_allocation_that_ironic_keeps_is_an_error(fake: FakeIronic, stage: Stage) -> None:
    leave_allocation(fake, stage, candidate_nodes=[gold(fake, maintenance=True)])
    fake.faults.status(409, "DELETE", "/allocations/", body="It is in use.", count=None)
    with pytest.raises(exceptions.TearDownFailed, match="does not carry the server") as caught:
        stage.destroy(instance(stage))
    assert (caught.value.node, caught.value.instance) == (None, INSTANCE)


@pytest.mark.parametrize("allocate", [0, 100], ids=["in error", "allocating"])
@pytest.mark.parametrize("selection", ["ironic", "scheduler"])
def test_destroy_gives_up_an_allocation_that_has_no_node(set_stage, allocate, selection) -> None:
    fake = FakeIronic(durations=Durations(allocate=allocate))
    stage = set_stage(fake, node_selection=selection)
    node = gold(fake, maintenance=allocate == 0)
    leave_allocation(fake, stage, candidate_nodes=[node])
    stage.destroy(instance(stage))
    assert fake.allocations() == []
    assert carrier(fake) is None


def test_destroy_sees_a_node_that_ironic_chooses_just_then(set_stage: SetStage) -> None:
    fake = FakeIronic(durations=Durations(allocate=5))
    stage = set_stage(fake, node_selection="ironic")
    node = gold(fake)
    leave_allocation(fake, stage, candidate_nodes=[node])

    def chooses(method: str, path: str, body: Any) -> bool:
        fake.settle()
        if fake.node(node)["instance_uuid"] and fake.node(node)["provision_state"] != "deleting":
            fake.set_node(node, provision_state="active")
        return False

    fake.faults.status(500, "DELETE", "/allocations/", when=chooses)
    stage.destroy(instance(stage))
    assert carrier(fake) is None
    assert fake.allocations() == []


def test_a_foreign_allocation_is_never_touched(fake: FakeIronic, stage: Stage) -> None:
    node = gold(fake)
    client = stage.driver._site.client
    client.allocations.create(STRANGER, resource_class="gold", candidate_nodes=[node])
    with pytest.raises(exceptions.ReservationFailed):
        stage.spawn(instance(stage))
    stage.destroy(instance(stage))
    assert [one["uuid"] for one in fake.allocations()] == [STRANGER]
    assert fake.node(node)["instance_uuid"] == STRANGER


def test_without_pools_no_allocation_is_looked_for(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake)
    node = gold(fake)
    placed = stage.active(node)
    for _ in range(2):
        stage.destroy(placed)
    assert carrier(fake) is None
    assert fake.requests.matching(".*", "/allocations") == []
