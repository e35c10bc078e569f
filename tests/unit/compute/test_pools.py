# SPDX-License-Identifier: Apache-2.0

"""Stories of a service with pools: Ironic picks the node of each instance."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest

from ironic_virt import virt
from ironic_virt.compute.db import records
from ironic_virt.compute.moving import Move, MoveOutcome, Mover
from ironic_virt.compute.states import TaskState
from ironic_virt.driver.pools import names
from ironic_virt.exceptions import NoValidHost
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.conftest import SetStage
from tests.unit.compute.service_stage import FLAVOR, GOLD, IMAGE, ServiceStage, new_uuid

POOL = "gold~compute1"
IRONIC: dict[str, Any] = {"node_selection": "ironic"}
GPU = names.pool_name("compute1", ("gold", frozenset({"CUSTOM_GPU"})))


@pytest.fixture
def stage(set_stage: SetStage, nodes: list[str]) -> ServiceStage:
    return set_stage(ironic=IRONIC).begin()


def counts(stage: ServiceStage, name: str = POOL) -> tuple[int, int, int]:
    pool = stage.pool(name)
    return pool.total, pool.used, pool.reserved


def carriers(fake: FakeIronic) -> dict[str, str]:
    """The node of each instance, as Ironic has it."""
    return {one["instance_uuid"]: one["uuid"] for one in fake.nodes() if one["instance_uuid"]}


def settle(stages: Iterable[ServiceStage], rounds: int = 6) -> None:
    """Have services carry out what is wanted."""
    stages = list(stages)
    for _ in range(rounds):
        for stage in stages:
            stage.service.look()
        stages[0].fake.advance(60)
        for stage in stages:
            stage.service.report()


def new(flavor: virt.Flavor = FLAVOR) -> records.NewInstance:
    return records.NewInstance(uuid=new_uuid(), flavor=flavor, image=IMAGE)


# -- the records --------------------------------------------------------------


def test_the_service_has_pools_and_no_nodes(set_stage, fake, nodes) -> None:
    properties = {"cpus": 8, "memory_mb": 16384, "local_gb": 100, "capabilities": "boot_mode:uefi"}
    fake.add_node(resource_class="gold", traits=["CUSTOM_GPU"], properties=properties)
    stage = set_stage(ironic=IRONIC).begin()
    assert stage.db.compute_nodes.list() == []
    plain, gpu = sorted(stage.db.pools.list(), key=lambda pool: len(pool.traits))
    assert (plain.name, plain.host) == (POOL, "compute1")
    assert (plain.total, plain.used, plain.reserved, plain.free) == (3, 0, 0, 3)
    assert (gpu.name, gpu.resource_class, gpu.traits) == (GPU, "gold", {"CUSTOM_GPU"})
    assert (gpu.vcpus, gpu.memory_mb, gpu.local_gb) == (8, 16384, 100)
    assert gpu.stats == {"boot_mode": "uefi"}


def test_pools_stay_without_news_without_an_answer_or_a_restart(stage, set_stage) -> None:
    before = stage.db.pools.list(), stage.db.services.list()
    stage.fake.advance(60)
    stage.service.refresh()
    assert (stage.db.pools.list(), stage.db.services.list()) == before, "nothing was written"
    stage.fake.faults.status(500, "GET", "/nodes", count=None)
    stage.fake.advance(60)
    stage.service.refresh()
    assert stage.db.pools.list() == before[0]
    stage.fake.faults.clear()
    uuid = stage.build(pool=POOL)
    stage.service.refresh()
    used = stage.db.pools.list()
    again = set_stage(ironic=IRONIC).begin()
    assert again.db.pools.list() == used
    assert again.state(uuid) == ("active", None)


def test_an_emptied_pool_goes_when_no_instance_has_a_place_in_it(stage, nodes) -> None:
    uuid = stage.build(pool=POOL)
    for node in nodes:
        stage.fake.set_node(node, resource_class="silver")
    stage.fake.advance(60)
    stage.service.refresh()
    assert [pool.name for pool in stage.db.pools.list()] == [POOL, "silver~compute1"]
    assert counts(stage) == (1, 1, 0)
    assert stage.pool("silver~compute1").free == 2
    stage.db.instances.request(uuid, TaskState.DELETING)
    settle([stage])
    stage.service.refresh()
    assert [pool.name for pool in stage.db.pools.list()] == ["silver~compute1"]
    assert stage.pool("silver~compute1").free == 3


# -- an instance's life -------------------------------------------------------


def test_numbers_and_the_node_follow_an_instances_life(stage: ServiceStage) -> None:
    stage.do(stage.create(pool=POOL), TaskState.DELETING)
    assert stage.fake.allocations() == [], "no node was reserved"
    uuid = stage.create(pool=POOL)
    assert counts(stage) == (3, 1, 0)
    assert (stage.instance(uuid).node, stage.instance(uuid).pool) == (None, POOL)
    stage.look()
    built = stage.instance(uuid)
    assert (built.vm_state, built.pool) == ("active", POOL)
    assert {uuid: built.node} == carriers(stage.fake)
    (allocation,) = stage.fake.allocations()
    assert allocation["uuid"] == uuid
    assert allocation["extra"]["ironic_virt"]["image"]["id"] == IMAGE.id
    for _ in range(2):
        stage.service.refresh()
        assert counts(stage) == (3, 1, 0)
    stage.do(uuid, TaskState.DELETING)
    assert stage.instance(uuid).is_deleted
    assert counts(stage) == (3, 0, 1), "its node is not to be had before the next refresh says so"
    stage.service.refresh()
    assert counts(stage) == (3, 0, 1), "it is being cleaned"
    assert stage.service._until_refresh() == 0.5
    stage.fake.advance(60)
    stage.service.refresh()
    assert counts(stage) == (3, 0, 0)
    assert stage.service._until_refresh() == 60, "nothing is waited for any more"
    assert stage.fake.allocations() == []
    for node in stage.fake.nodes():
        assert (node["instance_uuid"], node["instance_info"]) == (None, {})


def test_a_node_that_fails_is_not_tried_again(stage: ServiceStage, nodes: list[str]) -> None:
    # Whichever Ironic picks.
    stage.fake.fail_next("deploy", "disk broken", count=2)
    uuid = stage.create(pool=POOL)
    settle([stage])
    built = stage.instance(uuid)
    assert (built.vm_state, built.node, built.pool) == ("active", carriers(stage.fake)[uuid], POOL)
    assert {built.node, *built.tried_nodes} == set(nodes), "each once"
    assert built.attempts == 3
    assert len(stage.fake.allocations()) == 1
    stage.service.refresh()
    assert counts(stage)[1] == 1


def test_an_instance_without_a_node_says_why(set_stage, fake) -> None:
    node = fake.add_node(**GOLD)
    stages = [set_stage(host, ironic=IRONIC).begin() for host in ("compute1", "compute2")]
    uuid = stages[0].create(pool=POOL)
    # Somebody else is quicker, and no service has seen it yet.
    fake.set_node(node, maintenance=True)
    settle(stages)
    assert stages[0].state(uuid) == ("error", None)
    fault = stages[0].fault(uuid)
    assert "there is no node that would do" in fault
    assert "No valid host" in fault
    assert "The attempt before failed: " in fault
    assert stages[0].instance(uuid).tried_nodes == (POOL,)
    assert fake.allocations() == []
    for stage in stages:
        stage.service.refresh()
        assert counts(stage, f"gold~{stage.conf.host}")[1] == 0


def test_a_request_that_needs_no_gpu_leaves_it_alone(set_stage, fake) -> None:
    plain = fake.add_node(**GOLD)
    gpu = fake.add_node(traits=["CUSTOM_GPU"], **GOLD)
    stage = set_stage(ironic=IRONIC).begin()
    (request,) = stage.requests.create(new())
    stage.look()
    assert carriers(fake) == {request.uuid: plain}
    wants = dataclasses.replace(
        FLAVOR, extra_specs={**FLAVOR.extra_specs, "trait:CUSTOM_GPU": "required"}
    )
    (other,) = stage.requests.create(new(wants))
    assert other.pool == GPU
    stage.look()
    assert carriers(fake)[other.uuid] == gpu


def test_sizes_are_matched_exactly_by_the_filters_of_bare_metal(set_stage, fake) -> None:
    for memory_mb in (8192, 16384):
        properties = {"cpus": 8, "memory_mb": memory_mb, "local_gb": 100}
        fake.add_node(resource_class=f"of-{memory_mb}", ports=1, properties=properties)
    stage = set_stage(
        ironic={**IRONIC, "match": "exact"}, scheduler={"use_baremetal_filters": True}
    ).begin()
    exact = virt.Flavor("exact", vcpus=8, memory_mb=16384, root_gb=100)
    (request,) = stage.requests.create(new(exact))
    assert request.pool == "of-16384~compute1"
    smaller = dataclasses.replace(exact, memory_mb=8191)
    with pytest.raises(NoValidHost, match=r"ExactRamFilter \(exactly 8191 MiB of memory\) left 0"):
        stage.requests.create(new(smaller))


def test_a_node_recorded_for_another_is_not_used_twice(stage, set_stage, nodes) -> None:
    first = stage.build(pool=POOL)
    had = stage.instance(first).node
    # Somebody takes it off behind our back, and the node is free again.
    stage.fake.set_node(str(had), protected=False)
    stage.ironic.driver._site.client.set_provision_state(
        str(had), "deleted", applied=lambda node: node.instance_uuid is None
    )
    stage.fake.settle()
    stage.service.refresh()
    assert stage.pool(POOL).free == 2, "the records may still want a node for the first"
    second = stage.create(pool=POOL)
    for node in nodes:
        if node != had:
            stage.fake.set_node(node, maintenance=True)
    settle([stage])
    assert stage.instance(second).node is None
    assert "the records have another server on it" in stage.fault(second)
    assert second not in carriers(stage.fake)
    with pytest.raises(NoValidHost):
        set_stage().begin().requests.create(new())


# -- switching ----------------------------------------------------------------


def test_instances_stay_manageable_when_pools_come_or_go(set_stage, fake, nodes) -> None:
    before = set_stage().begin()
    old = before.build(nodes[0])
    before.service.refresh()

    # Pools come: the record of the node that has an instance stays, for it alone.
    pooled = set_stage(ironic=IRONIC).begin()
    kept = {record.uuid for record in pooled.db.compute_nodes.list()}
    assert kept == {nodes[0]}
    assert not pooled.db.compute_nodes.get(nodes[0]).available
    assert pooled.pool(POOL).free == 2
    pooled.db.instances.request(old, TaskState.REBOOTING)
    settle([pooled])
    assert pooled.state(old) == ("active", None)
    young = pooled.create(pool=POOL)
    settle([pooled])
    assert pooled.state(young) == ("active", None)
    pooled.service.refresh()
    assert pooled.pool(POOL).free == 1

    # And go: the pool stays for its instance, and takes no new one.
    after = set_stage().begin()
    records_of_nodes = {record.uuid: record.available for record in after.db.compute_nodes.list()}
    (free,) = set(nodes) - set(carriers(fake).values())
    assert records_of_nodes == {node: node == free for node in nodes}
    assert counts(after) == (1, 1, 0)
    for uuid in (old, young):
        after.db.instances.request(uuid, TaskState.REBOOTING)
        settle([after])
        assert after.state(uuid) == ("active", None)
        after.db.instances.request(uuid, TaskState.DELETING)
    settle([after])
    after.service.refresh()
    after.service.refresh()
    assert after.db.instances.list() == []
    assert after.db.pools.list() == []
    assert {record.uuid for record in after.db.compute_nodes.list()} == set(nodes)
    assert all(record.available for record in after.db.compute_nodes.list())
    assert fake.allocations() == []


@pytest.mark.parametrize("first", ["scheduler", "ironic"])
def test_what_was_being_built_when_the_option_changed_ends_well(set_stage, fake, nodes, first):
    second = {"scheduler": "ironic", "ironic": "scheduler"}[first]
    before = set_stage(ironic={**IRONIC, "node_selection": first}).begin()
    uuid = before.create(pool=POOL) if first == "ironic" else before.create(nodes[0])
    after = set_stage(ironic={**IRONIC, "node_selection": second}).begin()
    settle([after])
    assert after.state(uuid) == ("active", None)
    assert carriers(fake) == {uuid: after.instance(uuid).node}
    after.service.refresh()
    after.db.instances.request(uuid, TaskState.DELETING)
    settle([after])
    after.service.refresh()
    free = (
        after.pool(POOL).free
        if second == "ironic"
        else sum(record.available for record in after.db.compute_nodes.list())
    )
    assert free == 3
    assert after.db.pools.list(None) == [] or second == "ironic"


# -- other services -----------------------------------------------------------


def test_an_instance_of_a_service_that_is_down_moves_to_another(set_stage, fake, nodes) -> None:
    source = set_stage("a", ironic=IRONIC).begin()
    destination = set_stage("b", ironic=IRONIC).begin()
    uuid = source.build(pool="gold~a")
    node = str(source.instance(uuid).node)

    def move(to: str, **options: bool) -> Move:
        return next(Mover(source.db, None, to, **options).move([node]))

    assert "compute service 'a' is up" in str(move("b").reason)
    source.db.services.update("a", forced_down=True)
    assert move("b", force=True, dry_run=True).instance == uuid
    assert move("b", force=True).instance == uuid
    assert move("b").outcome is MoveOutcome.ALREADY_THERE
    moved = destination.instance(uuid)
    assert (moved.host, moved.node, moved.pool) == ("b", node, None)
    assert counts(source, "gold~a") == (3, 0, 0)
    destination.service.refresh()
    assert destination.pool("gold~b").free == 2
    assert destination.db.compute_nodes.get(node).host == "b", "for its instance alone"
    destination.db.instances.request(uuid, TaskState.DELETING)
    settle([destination])
    destination.service.refresh()
    assert destination.instance(uuid).is_deleted
    assert fake.allocations() == []
    assert destination.pool("gold~b").free == 3
    assert move("a").outcome is MoveOutcome.NO_RECORD


@pytest.mark.parametrize("reserved", [False, True])
def test_an_instance_without_a_node_leaves_a_dead_service(set_stage, fake, reserved) -> None:
    node = fake.add_node(resource_class="gold")
    source = set_stage("a", ironic=IRONIC).begin()
    destination = set_stage("b", ironic=IRONIC).begin()
    uuid = source.create(pool="gold~a")
    source.db.services.update("a", forced_down=True)
    if reserved:
        # The service died before it wrote down which node Ironic had reserved.
        source.service.driver.prepare_for_spawn(source.instance(uuid))
    set_stage("c").begin()
    client = source.service.driver._site.client
    (refused,) = Mover(source.db, client, "c", force=True).move([uuid])
    assert (refused.guard, source.instance(uuid).host) == ("destination", "a")
    mover = Mover(source.db, client, "b", force=True)
    (move,) = mover.move(mover.nodes_of_service("a"))
    assert (move.node, move.outcome, move.instance) == (uuid, MoveOutcome.MOVED, uuid)
    source.db.services.delete("a")
    settle([destination])
    instance = destination.instance(uuid)
    assert (instance.host, instance.node, instance.vm_state) == ("b", node, "active")
