# SPDX-License-Identifier: Apache-2.0

"""Stories of the inventory, as a compute service sees it."""

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.inventory.resync import SWEEP_PERIOD
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import INSTANCE, SetStage


def test_a_list_that_fails_half_way_removes_nothing(set_stage: SetStage) -> None:
    fake = FakeIronic(max_limit=2)
    nodes = fake.add_nodes(5)
    stage = set_stage(fake, api_max_retries=0)
    assert stage.refresh() == nodes
    fake.add_node()
    fake.faults.status(500, "GET", "/nodes$", nth=2)
    assert stage.refresh() == nodes
    assert stage.driver._site.nodes.inventory.snapshot.stale
    assert len(stage.refresh()) == 6


def test_nodes_listed_too_long_ago_are_not_reported(set_stage, fake, node) -> None:
    stage = set_stage(fake, api_max_retries=0, inventory_max_age=600)
    fake.set_node(node, provision_state="active", instance_uuid=INSTANCE)
    assert stage.driver.refresh_error() is None
    assert stage.driver.node_counts().age is None
    assert stage.refresh() == [node]
    fake.faults.status(503, "GET", "/nodes$", count=None)
    fake.advance(600)
    assert stage.refresh() == [node]
    assert stage.driver.refresh_error() is not None
    fake.advance(60)
    for refresh in (True, False):
        with pytest.raises(exceptions.InventoryTooOld, match="inventory_max_age = 600"):
            stage.driver.get_available_nodes(refresh)
    asked = len(fake.requests)
    assert stage.driver.list_instance_uuids() == [INSTANCE]
    assert len(fake.requests) == asked, "it is known from the last list"
    fake.faults.clear()
    assert stage.refresh() == [node]
    assert stage.driver.refresh_error() is None


def test_without_any_list_there_is_no_answer(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake, api_max_retries=0)
    fake.faults.status(503, "GET", "/nodes$")
    with pytest.raises(exceptions.IronicUnavailable):
        stage.driver.get_available_nodes()


def test_a_node_that_has_come_since_is_available_at_once(stage, fake, node) -> None:
    stage.refresh()
    late = fake.add_node()
    assert stage.driver.node_is_available(node)
    assert stage.driver.node_is_available(late)
    assert not stage.driver.node_is_available(INSTANCE)


def test_a_node_is_deleted_only_when_ironic_itself_says_so(fake, set_stage) -> None:
    node = fake.add_node(shard="b")
    stage = set_stage(fake, shard_key="a")
    assert not stage.driver.is_node_deleted(node), "it is in another shard"
    gone = INSTANCE
    began = fake.clock.now()
    for status in (503, 500, 404):
        fake.faults.status(status, "GET", gone, body=b"<html>no such page</html>")
        assert not stage.driver.is_node_deleted(gone)
    for doubt in (fake.faults.reset, fake.faults.truncate):
        doubt("GET", gone)
        assert not stage.driver.is_node_deleted(gone)
    assert fake.clock.now() == began, "each record would be waited for, and the start with it"
    assert stage.driver.is_node_deleted(gone)
    fake.remove_node(node)
    fake.requests.clear()
    assert not any(stage.driver.is_node_deleted(gone) for _ in range(3))
    assert len(fake.requests) == 2, "without the role that shows nodes, each record costs two"
    fake.add_node(shard="a")
    stage.refresh()
    assert stage.driver.is_node_deleted(gone)


def test_a_taken_node_is_reserved_as_soon_as_we_took_it(stage, fake, node) -> None:
    stage.refresh()
    assert stage.driver.get_inventory(node).reserved == 0
    stage.reserve(stage.instance(node))
    assert stage.driver.get_inventory(node).reserved == 1
    assert stage.driver.get_available_resource(node).in_use
    assert stage.driver.list_instance_uuids() == [INSTANCE]
    stage.destroy(stage.instance(node))
    assert stage.driver.get_inventory(node).reserved == 0
    assert stage.driver.list_instance_uuids() == []
    with pytest.raises(exceptions.NodeNotAvailable, match="no such node"):
        stage.driver.get_available_resource(INSTANCE)


def test_a_node_s_version_is_equal_until_there_is_news_of_it(fake, stage) -> None:
    changing, staying = fake.add_nodes(2)
    stage.refresh()
    before = [stage.driver.node_version(node) for node in (changing, staying)]
    fake.set_node(changing, maintenance=True)
    stage.refresh()
    assert stage.driver.node_version(staying) is before[1] is not None
    assert stage.driver.node_version(changing) != before[0]
    assert stage.driver.node_version(INSTANCE) is None, "there is no such node"


def test_only_our_nodes_are_counted(fake, set_stage) -> None:
    _, theirs, deploying, idle, carrying = fake.add_nodes(5)
    fake.set_node(deploying, provision_state="deploying", maintenance=True)
    fake.set_node(idle, maintenance=True)
    fake.set_node(carrying, provision_state="active", instance_uuid=INSTANCE)
    stage = set_stage(fake)
    stage.service.owners = {theirs: "compute2"}
    stage.refresh()
    counts = stage.driver.node_counts()
    assert counts.nodes == {
        ("available", "baremetal", False): 1,
        ("deploying", "baremetal", True): 1,
        ("available", "baremetal", True): 1,
        ("active", "baremetal", False): 1,
    }
    (pool,) = counts.pools
    assert (pool.resource_class, pool.free, pool.used, pool.reserved) == ("baremetal", 1, 1, 2)


def test_nodes_change_hosts_only_while_the_ring_is_in_force(fake, set_stage) -> None:
    stage = set_stage(fake, peer_list="compute1,compute2")
    stage.refresh()
    assert not stage.driver.rebalances_nodes()
    stage.service.live = ["compute1", "compute2"]
    stage.refresh()
    assert stage.driver.rebalances_nodes()


@pytest.mark.parametrize("by_ring", [False, True])
def test_a_node_that_is_gone_is_missed_by_a_sweep(set_stage: SetStage, by_ring: bool) -> None:
    fake = FakeIronic(max_limit=100)
    fake.add_nodes(600)
    stage = set_stage(fake, **{"peer_list": "compute1,compute2"} if by_ring else {})
    stage.service.live = ["compute1", "compute2"]
    deleted = stage.refresh()[0]
    fake.remove_node(deleted)
    assert (deleted in stage.refresh()) is not by_ring
    fake.advance(SWEEP_PERIOD)
    assert deleted not in stage.refresh()
