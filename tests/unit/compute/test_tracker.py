# SPDX-License-Identifier: Apache-2.0

"""Stories of a service's records of its nodes."""

import dataclasses
import logging
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.compute import tracker
from ironic_virt.compute.db import records
from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.conftest import SetStage
from tests.unit.compute.service_stage import FLAVOR, GOLD, IMAGE, ServiceStage, new_uuid

WANTED = records.NewInstance(uuid="", flavor=FLAVOR, image=IMAGE, display_name="web")


def test_a_record_says_what_the_node_is(set_stage: SetStage, fake: FakeIronic) -> None:
    node = fake.add_node(
        resource_class="gold",
        traits=["CUSTOM_FAST"],
        properties={
            "cpus": 8,
            "memory_mb": 16384,
            "local_gb": 100,
            "cpu_arch": "x86_64",
            "capabilities": "boot_mode:uefi",
        },
    )
    stage = set_stage().begin()
    record = stage.db.compute_nodes.get(node)
    assert record.host == "compute1"
    assert (record.vcpus, record.memory_mb, record.local_gb) == (8, 16384, 100)
    assert (record.cpu_arch, record.resource_class) == ("x86_64", "gold")
    assert record.traits == {"CUSTOM_FAST"}
    assert dict(record.stats) == {"boot_mode": "uefi", "cpu_arch": "x86_64"}
    assert record.available
    assert not record.in_use


def test_a_node_that_takes_no_instance_is_not_available(stage, nodes) -> None:
    unclassed = stage.fake.add_node(resource_class=None)
    for node, fields in zip(
        nodes,
        ({"maintenance": True}, {"provision_state": "manageable"}, {"power_state": None}),
        strict=True,
    ):
        stage.fake.set_node(node, **fields)
    stage.service.refresh()
    assert [one.uuid for one in stage.db.compute_nodes.list() if one.available] == [unclassed]


def test_an_older_list_overwrites_nothing(stage, nodes) -> None:
    stage.fake.advance(60)
    stage.db.compute_nodes.withdraw("compute1", nodes[:1])
    stage.fake.faults.status(503, count=None)
    stage.service.refresh()
    assert not stage.db.compute_nodes.get(nodes[0]).available, "an older list says nothing of it"
    stage.fake.faults.clear()
    stage.fake.set_node(nodes[1], maintenance=True)
    stage.service.refresh()
    assert [stage.db.compute_nodes.get(node).available for node in nodes] == [True, False, True]


def test_a_failed_write_is_repeated_at_the_next_refresh(stage, nodes, monkeypatch) -> None:
    real = stage.db.compute_nodes.save

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise exceptions.IronicVirtError("the disk is full")

    stage.fake.set_node(nodes[0], maintenance=True)
    monkeypatch.setattr(stage.db.compute_nodes, "save", broken)
    with pytest.raises(exceptions.IronicVirtError, match="disk is full"):
        stage.service.refresh()
    monkeypatch.setattr(stage.db.compute_nodes, "save", real)
    stage.service.refresh()
    assert not stage.db.compute_nodes.get(nodes[0]).available


# -- nodes that go ----------------------------------------------------------------


@pytest.mark.parametrize("unanswered", ["/nodes$", "/nodes/NODE$"], ids=["list", "node"])
def test_a_record_stays_until_ironic_says_that_the_node_is_gone(stage, nodes, unanswered) -> None:
    stage.fake.remove_node(nodes[0])
    stage.fake.faults.status(500, "GET", unanswered.replace("NODE", nodes[0]), count=None)
    stage.service.refresh()
    assert set(stage.db.compute_nodes.uuids("compute1")) == set(nodes)
    stage.fake.faults.clear()
    stage.service.refresh()
    assert set(stage.db.compute_nodes.uuids("compute1")) == set(nodes[1:])


def test_a_record_with_an_instance_stays_with_one_warning(stage, nodes, caplog) -> None:
    uuid = stage.create()
    stage.fake.remove_node(nodes[0])
    for _ in range(3):
        stage.service.refresh()
    assert nodes[0] in stage.db.compute_nodes.uuids("compute1")
    warnings = [line for line in caplog.messages if "gone from Ironic" in line]
    assert len(warnings) == 1
    assert uuid in warnings[0]
    stage.do(uuid, TaskState.DELETING)
    stage.service.refresh()
    assert nodes[0] not in stage.db.compute_nodes.uuids("compute1")


def test_a_node_that_leaves_the_group_keeps_its_record(set_stage, fake, caplog) -> None:
    leaving, staying = (fake.add_node(shard="a", **GOLD) for _ in range(2))
    stage = set_stage(ironic={"shard_key": "a"}).begin()
    fake.set_node(leaving, shard="b")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            fake.advance(60)
            stage.service.refresh()
    record = stage.db.compute_nodes.get(leaving)
    assert (record.host, record.available) == ("compute1", False)
    assert stage.db.compute_nodes.get(staying).available
    assert len([line for line in caplog.messages if leaving in line]) == 1
    fake.set_node(leaving, shard="a")
    fake.advance(60)
    stage.service.refresh()
    assert stage.db.compute_nodes.get(leaving).available


def test_a_vanished_shard_is_withdrawn_and_looked_up_slowly(set_stage, fake, monkeypatch) -> None:
    monkeypatch.setattr(tracker, "MOST_LOOKED_UP", 2)
    nodes = [fake.add_node(shard="a", **GOLD) for _ in range(5)]
    stage = set_stage(ironic={"shard_key": "a"}).begin()
    for node in nodes:
        fake.set_node(node, shard="b")
    for _ in range(3):
        fake.advance(60)
        fake.requests.clear()
        stage.service.refresh()
        assert len(fake.requests.matching("GET", "/nodes/[0-9a-f-]+$")) <= 2
        assert not any(node.available for node in stage.db.compute_nodes.list())


# -- nodes of others --------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked_before", "warning", "count"),
    [
        (False, "records give to host compute1", 1),
        # It asked before there were records.
        (True, "belongs to host compute1", 3),
    ],
    ids=["recorded long ago", "just written"],
)
def test_a_node_of_another_host_is_left_alone_with_one_warning(
    set_stage, nodes, caplog, monkeypatch, asked_before, warning, count
) -> None:
    set_stage("compute1").begin()
    other = set_stage("compute2")
    if asked_before:
        monkeypatch.setattr(other.virtapi, "node_owners", lambda uuids: {})
    other.begin()
    for _ in range(3):
        other.service.refresh()
    assert set(other.db.compute_nodes.owners(nodes).values()) == {"compute1"}
    warnings = [line for line in caplog.messages if warning in line]
    assert len(warnings) == count
    assert all(node in " ".join(warnings) for node in nodes)


def test_only_with_a_ring_do_records_change_their_host(set_stage, fake) -> None:
    nodes = fake.add_nodes(20, **GOLD)
    ring = {"peer_list": "compute1,compute2"}
    first = set_stage("compute1", ironic=ring).begin()
    taken = first.build(nodes[0])
    assert set(first.db.compute_nodes.uuids("compute1")) == set(nodes)
    second = set_stage("compute2", ironic=ring).begin()
    for stage in (first, second, first):
        stage.service.refresh()
    split = first.db.compute_nodes.owners(nodes)
    assert set(split.values()) == {"compute1", "compute2"}
    assert split[nodes[0]] == "compute1", "a node with an instance stays"
    assert first.instance(taken).vm_state == "active"
    assert len(split) == len(nodes)


# -- when Ironic can't be asked -----------------------------------------------


def away(stage: ServiceStage, seconds: float) -> None:
    """Refresh for some time while Ironic answers nothing."""
    stage.fake.faults.status(503, count=None)
    end = stage.fake.clock.now() + seconds
    while stage.fake.clock.now() < end:
        stage.service.refresh()
        stage.fake.advance(60)
    stage.fake.faults.clear()


@pytest.mark.parametrize(("limit", "seconds"), [(900, 270), (0, 7200)], ids=["limit", "none"])
def test_nodes_stay_offered_for_a_while_when_ironic_is_away(set_stage, nodes, limit, seconds):
    stage = set_stage(ironic={"inventory_max_age": limit}).begin()
    away(stage, seconds)
    assert "Ironic could not be asked" in " ".join(stage.service.troubles())
    assert all(stage.db.compute_nodes.get(node).available for node in nodes)
    stage.service.refresh()
    assert "Ironic could not be asked" not in " ".join(stage.service.troubles())


def test_nodes_listed_too_long_ago_are_not_offered_but_recorded(set_stage, nodes, fake, caplog):
    caplog.set_level(logging.INFO)
    stage = set_stage(ironic={"inventory_max_age": 900}).begin()
    uuid = stage.create()
    away(stage, 1800)
    assert stage.db.compute_nodes.uuids("compute1") == sorted(nodes)
    assert not any(stage.db.compute_nodes.get(node).available for node in nodes)
    assert uuid in {one.uuid for one in stage.db.instances.list()}
    told = [line for line in caplog.messages if "No node of this host" in line]
    assert len(told) == 1
    assert "inventory_max_age = 900" in told[0]
    stage.service.refresh()
    assert all(stage.db.compute_nodes.get(node).available for node in nodes)
    assert "The nodes of this host are offered again" in caplog.messages


def test_pools_listed_too_long_ago_take_no_instance(set_stage: SetStage, nodes: list[str]) -> None:
    stage = set_stage(ironic={"inventory_max_age": 900, "node_selection": "ironic"}).begin()
    away(stage, 1800)
    assert [(pool.total, pool.free) for pool in stage.db.pools.list()] == [(3, 0)]
    stage.service.refresh()
    assert [(pool.total, pool.free) for pool in stage.db.pools.list()] == [(3, 3)]


def test_a_node_given_back_is_found_soon_after_it_is_clean(set_stage, fake) -> None:
    """The script that everybody writes first: delete and create, twenty times on one node."""
    fake.add_node(resource_class="gold")
    stage = set_stage().begin()
    for _ in range(20):
        uuid = stage.build()
        assert stage.state(uuid) == ("active", None)
        stage.do(uuid, TaskState.DELETING)
        began, pauses = fake.clock.now(), []
        stage.service.refresh()
        while not stage.db.compute_nodes.get(stage.nodes[0]).available:
            with pytest.raises(exceptions.NoValidHost) as caught:
                stage.requests.create(dataclasses.replace(WANTED, uuid=new_uuid()))
            assert caught.value.cleaning == 1
            assert str(caught.value).endswith("none of 1 node is free; 1 node is being cleaned")
            pauses.append(stage.service._until_refresh())
            fake.advance(pauses[-1])
            stage.service.report()
            stage.service.refresh()
        assert pauses == [0.5, 1, 2, 4, 8, 15]
        assert fake.clock.now() - began < 31
        assert stage.service._until_refresh() == stage.conf.compute.resource_refresh_interval


def test_an_older_list_does_not_end_the_looks_at_a_node(stage, monkeypatch) -> None:
    uuid = stage.build()
    real = stage.service.driver.get_available_nodes

    def get_available_nodes(refresh: bool) -> list[str]:
        names = real(refresh)
        monkeypatch.undo()
        stage.do(uuid, TaskState.DELETING)
        return names

    monkeypatch.setattr(stage.service.driver, "get_available_nodes", get_available_nodes)
    stage.service.refresh()
    assert stage.service._until_refresh() == 0.5


def test_refused_credentials_end_the_first_start_only(set_stage, fake) -> None:
    fake.add_node(resource_class="gold")
    stage = set_stage()
    fake.faults.status(401, "GET", "/nodes", count=None)
    with pytest.raises(exceptions.InvalidConfiguration, match=r"\[ironic\].*HTTP 401"):
        stage.service.prepare()
    assert stage.db.services.list() == []
    fake.faults.clear()
    stage.service.prepare()
    fake.faults.status(401, "GET", "/nodes", count=None)
    stage.service.prepare()
