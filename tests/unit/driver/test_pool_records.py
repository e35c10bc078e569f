# SPDX-License-Identifier: Apache-2.0

"""Which records a service keeps when Ironic picks the node, or did so before."""

import pytest

from ironic_virt import virt
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import INSTANCE, SetStage, Stage

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
    instance = stage.instance(place, flavor=FLAVOR)
    stage.spawn(instance)
    return instance


def test_the_way_to_pools_and_back_keeps_instances(fake, set_stage, stage) -> None:
    first, second = (fake.add_node(ports=1, resource_class="gold") for _ in range(2))
    before = set_stage(fake)
    old = build(before, first)
    # Switched on: the node's own record stays, for its instance alone.
    stage.service.owned, stage.service.places = {INSTANCE}, {INSTANCE: first}
    assert stage.restarted().driver.get_available_nodes() == stage.refresh() == [POOL, first]
    assert stage.driver.node_is_available(POOL)
    assert not stage.driver.node_is_available("silver~compute1")
    assert not stage.driver.is_node_deleted(POOL)
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
    assert stage.refresh() == [POOL]
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
