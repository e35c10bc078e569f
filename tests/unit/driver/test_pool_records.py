# SPDX-License-Identifier: Apache-2.0

"""The compute nodes that the driver reports when Ironic picks the node."""

import dataclasses

import pytest

from ironic_virt import virt
from ironic_virt.driver.pools import names
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import INSTANCE, STRANGER, SetStage, Stage

POOL = "gold~compute1"
FLAVOR = virt.Flavor("bm", extra_specs={"resources:CUSTOM_GOLD": "1"})


@pytest.fixture
def stage(fake: FakeIronic, set_stage: SetStage) -> Stage:
    stage = set_stage(fake, node_selection="ironic")
    stage.service.owned = set()
    return stage


def offered(stage: Stage, name: str = POOL) -> tuple[int, int]:
    """``(total, reserved)`` after a refresh."""
    stage.refresh()
    inventory = stage.driver.get_inventory(name)
    return inventory.total, inventory.reserved


def build(stage: Stage, place: str) -> virt.Instance:
    """Have our instance built where the records put it."""
    stage.service.owned = {INSTANCE}
    stage.service.places = {INSTANCE: place}
    instance = dataclasses.replace(stage.instance(place), flavor=FLAVOR)
    stage.spawn(instance)
    return instance


def test_one_compute_node_for_each_kind(fake: FakeIronic, stage: Stage) -> None:
    for _ in range(3):
        fake.add_node(resource_class="gold")
    fake.add_node(resource_class="gold", traits=["CUSTOM_GPU"])
    gpu = names.pool_name("compute1", ("gold", frozenset({"CUSTOM_GPU"})))
    assert sorted(stage.refresh()) == sorted([POOL, gpu])
    assert offered(stage) == (3, 0)
    inventory = stage.driver.get_inventory(gpu)
    assert (inventory.placement_class, inventory.traits) == ("CUSTOM_GOLD", {"CUSTOM_GPU"})
    resource = stage.driver.get_available_resource(gpu)
    assert resource.hypervisor_hostname == gpu
    assert resource.uuid == names.pool_uuid(gpu)
    assert stage.driver.node_is_available(gpu)
    assert not stage.driver.node_is_available("silver~compute1")
    assert set(stage.driver.node_versions()) == {POOL, gpu}


def test_names_are_the_same_after_a_restart(fake: FakeIronic, stage: Stage) -> None:
    fake.add_node(resource_class="gold")
    names = stage.driver.get_available_nodes()
    again = stage.restarted().driver
    assert again.get_available_nodes() == names == [POOL]
    assert again.get_available_resource(POOL) == stage.driver.get_available_resource(POOL)


def test_numbers_follow_an_instances_life(fake: FakeIronic, stage: Stage) -> None:
    for _ in range(3):
        fake.add_node(ports=1, resource_class="gold")
    instance = build(stage, POOL)
    # Used is the service's own business: it is neither free nor reserved here.
    assert offered(stage) == (3, 0)
    stage.destroy(instance)
    stage.service.owned, stage.service.places = set(), {}
    assert offered(stage) == (3, 1), "it is being cleaned"
    fake.settle()
    assert offered(stage) == (3, 0)


def test_numbers_stay_until_the_next_refresh(fake: FakeIronic, stage: Stage) -> None:
    fake.add_node(resource_class="gold", instance_uuid=STRANGER, provision_state="active")
    fake.add_node(resource_class="gold")
    assert offered(stage) == (2, 1), "what another service uses is reserved"
    fake.add_node(resource_class="gold")
    assert stage.driver.get_available_nodes() == [POOL]
    assert stage.driver.get_inventory(POOL).total == 2
    assert offered(stage) == (3, 1)
    fake.faults.status(500, "GET", "/nodes", count=None)
    assert stage.refresh() == [POOL]
    assert not stage.driver.is_node_deleted(POOL)


def test_a_pool_that_lost_its_nodes_stays_with_its_instance(fake, stage) -> None:
    node = fake.add_node(ports=1, resource_class="gold")
    instance = build(stage, POOL)
    fake.set_node(node, resource_class="silver")
    silver = "silver~compute1"
    assert sorted(stage.refresh()) == [POOL, silver]
    assert offered(stage) == (1, 0)
    assert offered(stage, silver) == (1, 1), "its node has an instance that is counted elsewhere"
    assert not stage.driver.is_node_deleted(POOL)
    stage.destroy(instance)
    stage.service.owned, stage.service.places = set(), {}
    fake.settle()
    assert stage.refresh() == [silver]
    assert stage.driver.is_node_deleted(POOL)
    assert not stage.driver.is_node_deleted(silver)
    assert offered(stage, silver) == (1, 0)


def test_the_way_to_pools_and_back_keeps_instances(fake, set_stage, stage) -> None:
    first, second = (fake.add_node(ports=1, resource_class="gold") for _ in range(2))
    before = set_stage(fake)
    old = build(before, first)
    # Switched on: the node's own record stays, for its instance alone.
    stage.service.owned, stage.service.places = {INSTANCE}, {INSTANCE: first}
    assert stage.refresh() == [POOL, first]
    assert offered(stage) == (2, 1)
    assert stage.driver.get_inventory(first).reserved == 1
    assert not stage.driver.is_node_deleted(first)
    assert stage.driver.is_node_deleted(second), "its record is not needed any more"
    assert stage.driver.node_of(old) == first
    stage.driver.reboot(old, "HARD")
    stage.destroy(old)
    stage.service.owned, stage.service.places = set(), {}
    fake.settle()
    assert stage.refresh() == [POOL]
    assert stage.driver.is_node_deleted(first)
    assert stage.driver.get_inventory(first).reserved == 1, "the pool offers it"
    # And off again: the pool's record stays.
    new = build(stage, POOL)
    after = set_stage(fake)
    after.service.owned, after.service.places = {INSTANCE}, {INSTANCE: POOL}
    node = after.driver.node_of(new)
    assert node in (first, second)
    assert set(after.refresh()) == {first, second, POOL}
    assert not after.driver.is_node_deleted(POOL)
    assert after.driver.node_is_available(POOL)
    assert not after.driver.node_is_available("silver~compute1")
    inventory = after.driver.get_inventory(POOL)
    assert (inventory.total, inventory.reserved) == (1, 0)
    assert inventory.placement_class == "CUSTOM_GOLD"
    after.driver.reboot(new, "HARD")
    after.destroy(new)
    assert fake.allocations() == []
    after.service.owned, after.service.places = set(), {}
    assert set(after.refresh()) == {first, second}
    assert after.driver.is_node_deleted(POOL)
    assert not after.driver.node_is_available(POOL)
