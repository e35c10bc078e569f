# SPDX-License-Identifier: Apache-2.0

"""An instance's records from its request to its history."""

from __future__ import annotations

import dataclasses

import pytest

from ironic_virt import virt
from ironic_virt.compute import errors
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.states import TaskState, VmState
from tests.functional.compute.stage import (
    FLAVOR,
    IMAGE,
    claim,
    free_node,
    new_instance,
    new_uuid,
    register,
)

FAULT = records.FaultReport("Ironic could not write the image", details="traceback")


@pytest.fixture
def node(db: Database) -> records.ComputeNode:
    register(db, "one")
    register(db, "two")
    return free_node(db, "one")


@pytest.fixture
def building(db: Database, node: records.ComputeNode) -> records.Instance:
    return db.instances.create_building(new_instance(), node)


def test_an_instance_comes_with_its_claim_once(db: Database, node: records.ComputeNode) -> None:
    new = new_instance()
    made = db.instances.create_building(new, node)
    assert (made.host, made.node, made.attempts) == ("one", node.uuid, 1)
    assert (made.vm_state, made.task_state) == (VmState.BUILDING, TaskState.SPAWNING)
    assert (made.flavor, made.image, made.ports) == (FLAVOR, IMAGE, new.ports)
    assert (made.user_data, made.public_key) == (new.user_data, new.public_key)
    assert dict(made.properties) == {"role": "web"}
    assert db.compute_nodes.get(node.uuid).instance_uuid == new.uuid
    assert db.instances.create_building(new, node) == made, "the answer was lost"
    assert made.request_id == "req-1"
    assert db.instances.get(new.uuid) == made


def test_of_a_second_instance_whose_node_or_uuid_is_taken_nothing_is_left(
    db: Database, node: records.ComputeNode, building: records.Instance
) -> None:
    second, other = new_instance(), free_node(db, "one")
    with pytest.raises(errors.ClaimLost):
        db.instances.create_building(second, node)
    with pytest.raises(errors.NoSuchInstance):
        db.instances.get(second.uuid)
    assert db.compute_nodes.get(node.uuid).instance_uuid == building.uuid
    with pytest.raises(errors.InstanceExists):
        db.instances.create_building(new_instance(uuid=building.uuid), other)
    assert db.compute_nodes.get(other.uuid).instance_uuid is None


def test_what_is_wanted_is_seen_by_the_service_that_has_the_instance(
    db: Database, building: records.Instance
) -> None:
    (wanted,) = db.instances.wanted("one")
    assert (wanted.uuid, wanted.task_state) == (building.uuid, "spawning")
    assert db.instances.wanted("two") == []
    assert db.instances.finish(
        building.uuid,
        TaskState.SPAWNING,
        vm_state=VmState.ACTIVE,
        power_state=virt.PowerState.RUNNING,
    )
    assert db.instances.wanted("one") == []
    done = db.instances.get(building.uuid)
    assert (done.vm_state, done.task_state) == (VmState.ACTIVE, None)
    assert done.power_state == virt.PowerState.RUNNING
    assert done.launched_at == db.now()
    assert done.fault is None


def test_a_delete_that_comes_in_during_a_build_is_never_overwritten(
    db: Database, building: records.Instance, node: records.ComputeNode
) -> None:
    uuid = building.uuid
    asked = db.instances.request(uuid, TaskState.DELETING)
    assert db.instances.request(uuid, TaskState.DELETING) == asked, "two are one"
    assert not db.instances.finish(uuid, TaskState.SPAWNING, vm_state=VmState.ACTIVE)
    assert not db.instances.fail(uuid, TaskState.SPAWNING, FAULT, release=True)
    other = free_node(db, "one")
    assert not db.instances.reschedule(uuid, TaskState.SPAWNING, other)
    assert db.instances.get(uuid).task_state == TaskState.DELETING
    assert db.compute_nodes.get(node.uuid).instance_uuid == uuid
    superseded = db.instances.get(uuid).fault
    assert superseded is not None
    assert (superseded.message, superseded.request_id) == ("superseded by a delete", "req-1")


def test_a_failed_build_keeps_its_reason_and_gives_the_node_back(
    db: Database, building: records.Instance, node: records.ComputeNode
) -> None:
    assert db.instances.fail(building.uuid, TaskState.SPAWNING, FAULT, release=True)
    failed = db.instances.get(building.uuid)
    assert (failed.vm_state, failed.task_state) == (VmState.ERROR, None)
    assert (failed.host, failed.node) == (None, None)
    fault = db.instances.get(building.uuid).fault
    assert fault is not None
    assert (fault.message, fault.details, fault.host) == (FAULT.message, "traceback", "one")
    assert fault.request_id == "req-1"
    freed = db.compute_nodes.get(node.uuid)
    assert (freed.instance_uuid, freed.available) == (None, False)


def test_another_attempt_takes_another_node_if_it_is_there_and_remembers_the_first(
    db: Database, building: records.Instance, node: records.ComputeNode
) -> None:
    other, gone = free_node(db, "two"), free_node(db, "two")
    db.instances.create_building(new_instance(), gone)
    with pytest.raises(errors.ClaimLost):
        db.instances.reschedule(building.uuid, TaskState.SPAWNING, gone)
    assert db.instances.get(building.uuid) == building
    assert db.compute_nodes.get(node.uuid).instance_uuid == building.uuid
    assert db.instances.reschedule(building.uuid, TaskState.SPAWNING, other, FAULT)
    now = db.instances.get(building.uuid)
    assert (now.host, now.node, now.attempts) == ("two", other.uuid, 2)
    assert (now.vm_state, now.task_state) == (VmState.BUILDING, TaskState.SPAWNING)
    assert now.tried_nodes == (node.uuid,)
    assert db.compute_nodes.get(node.uuid).instance_uuid is None
    assert db.compute_nodes.get(other.uuid).instance_uuid == building.uuid
    assert now.fault is not None
    assert (now.fault.host, now.fault.request_id) == ("one", None), "the request goes on"


def test_a_delete_that_failed_at_first_removes_the_record_in_the_end(
    db: Database, building: records.Instance, node: records.ComputeNode
) -> None:
    uuid = building.uuid
    db.instances.fail(uuid, TaskState.SPAWNING, FAULT)
    db.instances.request(uuid, TaskState.DELETING)
    assert db.instances.fail(uuid, TaskState.DELETING, records.FaultReport("not yet"))
    assert db.instances.get(uuid).host == "one"
    assert db.compute_nodes.get(node.uuid).instance_uuid == uuid
    assert db.instances.request(uuid, TaskState.DELETING).task_state == TaskState.DELETING
    assert db.instances.deleted(uuid)
    assert not db.instances.deleted(uuid)
    with pytest.raises(errors.NoSuchInstance):
        db.instances.get(uuid)
    assert db.instances.list() == []
    assert not claim(db, node.uuid, "one", new_uuid()), "free after its next refresh"
    db.compute_nodes.save("one", [records.NodeReport(node.uuid)])
    assert db.instances.create_building(new_instance(), node).node == node.uuid


def test_a_request_that_does_not_fit_is_refused_and_changes_nothing(
    db: Database, building: records.Instance
) -> None:
    with pytest.raises(errors.ConflictingRequest, match="it is building"):
        db.instances.request(building.uuid, TaskState.REBOOTING)
    db.instances.finish(building.uuid, TaskState.SPAWNING, vm_state=VmState.ACTIVE)
    db.instances.request(building.uuid, TaskState.POWERING_OFF)
    with pytest.raises(errors.ConflictingRequest, match="busy \\(powering-off\\)"):
        db.instances.request(building.uuid, TaskState.REBOOTING)
    assert db.instances.get(building.uuid).task_state == TaskState.POWERING_OFF


def test_progress_is_shown_while_something_is_wanted_and_cut_to_what_fits(
    db: Database, building: records.Instance
) -> None:
    db.instances.progress_of_all({building.uuid: ("deploying", "x" * 1000)})
    shown = db.instances.get(building.uuid)
    assert (shown.progress_step, shown.progress_detail) == ("deploying", "x" * 255)
    assert shown.progress_at == db.now()
    db.instances.finish(building.uuid, TaskState.SPAWNING, vm_state=VmState.ACTIVE)
    db.instances.progress_of_all({building.uuid: ("late", "")})
    assert db.instances.get(building.uuid).progress_step is None


def test_a_power_state_is_written_only_while_nothing_is_wanted(
    db: Database, building: records.Instance
) -> None:
    off = virt.PowerState.SHUTDOWN
    assert not db.instances.power_seen(building, off, vm_state=VmState.STOPPED)
    db.instances.finish(building.uuid, TaskState.SPAWNING, vm_state=VmState.ACTIVE)
    assert not db.instances.power_seen(building, off, vm_state=VmState.STOPPED), "it was busy"
    seen = db.instances.get(building.uuid)
    assert db.instances.power_seen(seen, off, vm_state=VmState.STOPPED)
    found = db.instances.get(building.uuid)
    assert (found.power_state, found.vm_state) == (off, VmState.STOPPED)


def test_the_settled_instances_of_a_service_are_read_page_by_page(db: Database) -> None:
    register(db, "one")
    wanted = []
    for _ in range(5):
        new = new_instance()
        db.instances.create_building(new, free_node(db, "one"))
        db.instances.finish(new.uuid, TaskState.SPAWNING, vm_state=VmState.ACTIVE)
        wanted.append(new.uuid)
    busy = wanted.pop(2)
    db.instances.request(busy, TaskState.REBOOTING)
    found = db.instances.settled("one", [VmState.ACTIVE, VmState.STOPPED], page=2)
    assert [one.uuid for one in found] == wanted


def test_a_name_finds_its_instance_to_the_letter_unless_several_have_it(
    db: Database, building: records.Instance
) -> None:
    assert db.instances.get("web").uuid == building.uuid
    other = db.instances.create_building(new_instance(), free_node(db, "one"))
    with pytest.raises(errors.AmbiguousName) as raised:
        db.instances.get("web")
    assert set(raised.value.uuids) == {building.uuid, other.uuid}
    db.instances.request(other.uuid, TaskState.DELETING)
    db.instances.deleted(other.uuid)
    assert db.instances.get("web").uuid == building.uuid
    named = new_instance(display_name="Übung 🚀 1")
    db.instances.create_building(named, free_node(db, "one"))
    assert db.instances.get("Übung 🚀 1").display_name == "Übung 🚀 1"
    with pytest.raises(errors.NoSuchInstance):
        db.instances.get("übung 🚀 1")


def test_a_port_is_found_with_the_instance_that_has_it(
    db: Database, node: records.ComputeNode
) -> None:
    has = virt.Vif('50%_"odd"')
    made = db.instances.create_building(new_instance(ports=(has,)), node)
    assert db.instances.instance_of_port(has.id) == made.uuid
    # It is searched for to the letter, and whole.
    for other in ("50", '50__"odd"', '50%_"odd"x', "id"):
        assert db.instances.instance_of_port(other) is None


def test_a_port_of_one_instance_is_not_attached_to_another(db: Database) -> None:
    register(db, "one")
    first, second = (
        db.instances.create_building(new_instance(ports=(virt.Vif(port),)), free_node(db, "one"))
        for port in ("a", "b")
    )
    for made in (first, second):
        db.instances.finish(made.uuid, TaskState.SPAWNING, vm_state=VmState.ACTIVE)
    attaching = TaskState.ATTACHING_INTERFACE
    with pytest.raises(errors.ConflictingRequest, match=f"{first.uuid} has the interface a"):
        db.instances.request(second.uuid, attaching, {"vif": "a"})
    db.instances.request(second.uuid, attaching, {"vif": "c"})
    # What is on its way counts, too.
    with pytest.raises(errors.ConflictingRequest, match=f"{second.uuid} has the interface c"):
        db.instances.request(first.uuid, attaching, {"vif": "c"})


@pytest.mark.parametrize("other", ["host", "incarnation", "attempts", "node"])
def test_an_outcome_is_written_only_while_the_fence_holds(
    db: Database, building: records.Instance, other: str
) -> None:
    incarnation = db.services.get("one").incarnation
    fence = records.Fence("one", incarnation, 1, building.node)
    fallen = {"host": "two", "incarnation": new_uuid(), "attempts": 2, "node": new_uuid()}
    broken = dataclasses.replace(fence, **{other: fallen[other]})  # type: ignore[arg-type]
    task, uuid = TaskState.SPAWNING, building.uuid
    free = free_node(db, "two")
    assert not db.instances.finish(uuid, task, vm_state=VmState.ACTIVE, fence=broken)
    assert not db.instances.fail(uuid, task, FAULT, release=True, fence=broken)
    assert not db.instances.placed(uuid, free.uuid, broken)
    assert not db.instances.reschedule(uuid, task, free, FAULT, fence=broken)
    assert db.instances.get(uuid) == building
    assert db.compute_nodes.get(free.uuid).instance_uuid is None
    db.instances.request(uuid, TaskState.DELETING)
    assert not db.instances.deleted(uuid, broken)
    assert db.instances.deleted(uuid, fence)
