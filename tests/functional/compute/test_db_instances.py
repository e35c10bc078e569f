# SPDX-License-Identifier: Apache-2.0

"""An instance's records from its request to its history."""

import dataclasses

import pytest

from ironic_virt import virt
from ironic_virt.compute import errors
from ironic_virt.compute.actions import Settled
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.states import TaskState, VmState
from tests.functional.compute.stage import (
    FLAVOR,
    IMAGE,
    claim,
    create_building,
    deleted,
    ended,
    failed,
    free_node,
    new_instance,
    new_uuid,
    register,
)

FAULT = records.Fault("Ironic could not write the image", details="traceback")


@pytest.fixture
def node(db: Database) -> records.ComputeNode:
    register(db, "one")
    register(db, "two")
    return free_node(db, "one")


@pytest.fixture
def building(db: Database, node: records.ComputeNode) -> records.Instance:
    return create_building(db, new_instance(), node)


def test_an_instance_comes_with_its_claim_once(db: Database, node: records.ComputeNode) -> None:
    new = new_instance()
    made = create_building(db, new, node)
    assert (made.host, made.node, made.attempts) == ("one", node.uuid, 1)
    assert (made.vm_state, made.task_state) == (VmState.BUILDING, TaskState.SPAWNING)
    assert (made.flavor, made.image, made.ports) == (FLAVOR, IMAGE, new.ports)
    assert (made.user_data, made.public_key) == (new.user_data, new.public_key)
    assert dict(made.properties) == {"role": "web"}
    assert db.compute_nodes.get(node.uuid).instance_uuid == new.uuid
    with pytest.raises(errors.InstanceExists):
        create_building(db, new, node)
    assert made.request_id == "req-1"
    assert db.instances.get(new.uuid) == made


def test_an_instance_whose_node_or_uuid_is_taken_leaves_nothing(db, node, building) -> None:
    second, other = new_instance(), free_node(db, "one")
    with pytest.raises(errors.ClaimLost):
        create_building(db, second, node)
    with pytest.raises(errors.NoSuchInstance):
        db.instances.get(second.uuid)
    assert db.compute_nodes.get(node.uuid).instance_uuid == building.uuid
    with pytest.raises(errors.InstanceExists):
        create_building(db, new_instance(uuid=building.uuid), other)
    assert db.compute_nodes.get(other.uuid).instance_uuid is None


def test_a_request_is_seen_by_the_service_of_the_instance(db, building) -> None:
    assert db.instances.pending_tasks("one") == {building.uuid: "spawning"}
    assert db.instances.pending_tasks("two") == {}
    assert ended(db, building.uuid, TaskState.SPAWNING, power_state=virt.PowerState.RUNNING)
    assert db.instances.pending_tasks("one") == {}
    done = db.instances.get(building.uuid)
    assert (done.vm_state, done.task_state) == (VmState.ACTIVE, None)
    assert done.power_state == virt.PowerState.RUNNING
    assert done.launched_at == db.now()
    assert done.fault is None


def test_a_delete_during_a_build_is_never_overwritten(db, building, node) -> None:
    uuid = building.uuid
    asked = db.instances.request(uuid, TaskState.DELETING)
    assert db.instances.request(uuid, TaskState.DELETING) == asked, "two are one"
    assert not ended(db, uuid, TaskState.SPAWNING, vm_state=VmState.ACTIVE)
    assert not failed(db, uuid, TaskState.SPAWNING, FAULT, released=True)
    other = free_node(db, "one")
    assert not db.instances.reschedule(building, other, FAULT)
    assert db.instances.get(uuid).task_state == TaskState.DELETING
    assert db.compute_nodes.get(node.uuid).instance_uuid == uuid
    superseded = db.instances.get(uuid).fault
    assert superseded is not None
    assert (superseded.message, superseded.request_id) == ("superseded by a delete", "req-1")


def test_a_failed_build_keeps_its_reason_and_gives_the_node_back(db, building, node) -> None:
    assert failed(db, building.uuid, TaskState.SPAWNING, FAULT, released=True)
    broken = db.instances.get(building.uuid)
    assert (broken.vm_state, broken.task_state) == (VmState.ERROR, None)
    assert (broken.host, broken.node) == (None, None)
    fault = db.instances.get(building.uuid).fault
    assert fault is not None
    assert (fault.message, fault.details) == (FAULT.message, "traceback")
    assert fault.request_id == "req-1"
    freed = db.compute_nodes.get(node.uuid)
    assert (freed.instance_uuid, freed.available) == (None, False)


def test_another_attempt_takes_another_node_if_there_is_one(db, building, node) -> None:
    other, gone = free_node(db, "two"), free_node(db, "two")
    create_building(db, new_instance(), gone)
    with pytest.raises(errors.ClaimLost):
        db.instances.reschedule(building, gone, FAULT)
    assert db.instances.get(building.uuid) == building
    assert db.compute_nodes.get(node.uuid).instance_uuid == building.uuid
    assert db.instances.reschedule(building, other, FAULT)
    moved = db.instances.get(building.uuid)
    assert (moved.host, moved.node, moved.attempts) == ("two", other.uuid, 2)
    assert (moved.vm_state, moved.task_state) == (VmState.BUILDING, TaskState.SPAWNING)
    assert moved.tried_nodes == (node.uuid,)
    assert db.compute_nodes.get(node.uuid).instance_uuid is None
    assert db.compute_nodes.get(other.uuid).instance_uuid == building.uuid
    assert moved.fault is not None
    assert moved.fault.request_id is None, "the request goes on"


def test_a_delete_that_failed_first_removes_the_record_later(db, building, node) -> None:
    uuid = building.uuid
    failed(db, uuid, TaskState.SPAWNING, FAULT)
    db.instances.request(uuid, TaskState.DELETING)
    assert failed(db, uuid, TaskState.DELETING, records.Fault("not yet"))
    assert db.instances.get(uuid).host == "one"
    assert db.compute_nodes.get(node.uuid).instance_uuid == uuid
    assert db.instances.request(uuid, TaskState.DELETING).task_state == TaskState.DELETING
    deleting = db.instances.get(uuid)
    assert deleted(db, uuid)
    assert not db.instances.settle(deleting, Settled(VmState.DELETED))
    with pytest.raises(errors.NoSuchInstance):
        db.instances.get(uuid)
    assert db.instances.list() == []
    assert not claim(db, node.uuid, "one", new_uuid()), "free after its next refresh"
    db.compute_nodes.save("one", [records.ComputeNode(node.uuid)])
    assert create_building(db, new_instance(), node).node == node.uuid


def test_a_request_that_does_not_fit_changes_nothing(db, building) -> None:
    with pytest.raises(errors.ConflictingRequest, match="it is building"):
        db.instances.request(building.uuid, TaskState.REBOOTING)
    ended(db, building.uuid, TaskState.SPAWNING, vm_state=VmState.ACTIVE)
    db.instances.request(building.uuid, TaskState.POWERING_OFF)
    with pytest.raises(errors.ConflictingRequest, match="busy \\(powering-off\\)"):
        db.instances.request(building.uuid, TaskState.REBOOTING)
    assert db.instances.get(building.uuid).task_state == TaskState.POWERING_OFF


def test_progress_is_shown_during_a_request_and_cut_to_fit(db, building) -> None:
    db.instances.progress_of_all({building.uuid: ("deploying", "x" * 1000)})
    shown = db.instances.get(building.uuid)
    assert (shown.progress_step, shown.progress_detail) == ("deploying", "x" * 255)
    ended(db, building.uuid, TaskState.SPAWNING, vm_state=VmState.ACTIVE)
    db.instances.progress_of_all({building.uuid: ("late", "")})
    assert db.instances.get(building.uuid).progress_step is None


def test_a_power_state_is_written_only_while_nothing_is_wanted(db, building) -> None:
    off = Settled(VmState.STOPPED, virt.PowerState.SHUTDOWN)
    idle = dataclasses.replace(building, task_state=None)
    assert not db.instances.settle(idle, off)
    ended(db, building.uuid, TaskState.SPAWNING)
    assert not db.instances.settle(idle, off), "it was busy"
    assert db.instances.settle(db.instances.get(building.uuid), off)
    found = db.instances.get(building.uuid)
    assert (found.power_state, found.vm_state) == (off.power_state, VmState.STOPPED)


def test_a_name_finds_its_instance_unless_several_have_it(db, building) -> None:
    assert db.instances.get("web").uuid == building.uuid
    assert db.instances.get(building.uuid.upper()).uuid == building.uuid
    other = create_building(db, new_instance(), free_node(db, "one"))
    with pytest.raises(errors.AmbiguousName) as raised:
        db.instances.get("web")
    assert set(raised.value.uuids.split(", ")) == {building.uuid, other.uuid}
    db.instances.request(other.uuid, TaskState.DELETING)
    deleted(db, other.uuid)
    assert db.instances.get("web").uuid == building.uuid
    named = new_instance(display_name="Übung 🚀 1")
    create_building(db, named, free_node(db, "one"))
    assert db.instances.get("Übung 🚀 1").display_name == "Übung 🚀 1"
    with pytest.raises(errors.NoSuchInstance):
        db.instances.get("übung 🚀 1")
    for odd in (" web", "web ", "0" * 32, f"{'0' * 31}-0", f"{{{other.uuid}}}"):
        create_building(db, new_instance(display_name=odd), free_node(db, "one"))
        assert db.instances.get(odd).display_name == odd
    for flavor in (FLAVOR, dataclasses.replace(FLAVOR, name=f"{FLAVOR.name} ")):
        db.flavors.create(flavor)
    create_building(db, new_instance(display_name=other.uuid), free_node(db, "one"))
    with pytest.raises(errors.NoSuchInstance):
        db.instances.get(other.uuid)


def test_a_port_is_found_with_the_instance_that_has_it(db, node) -> None:
    has = virt.Vif('50%_"odd"')
    made = create_building(db, new_instance(ports=(has,)), node)
    assert db.instances.instance_of_port(has.id) == made.uuid
    # It is searched for to the letter, and whole.
    for other in ("50", '50__"odd"', '50%_"odd"x', "id"):
        assert db.instances.instance_of_port(other) is None


@pytest.mark.parametrize("other", ["host", "attempts", "task_state", "incarnation"])
def test_an_outcome_is_written_only_for_who_has_the_task(db, building, other) -> None:
    incarnation = db.services.get("one").incarnation
    wrong = {"host": "two", "attempts": 2, "task_state": "rebuilding", "incarnation": new_uuid()}
    process = wrong.pop("incarnation") if other == "incarnation" else incarnation
    began = building
    if other in wrong:
        began = dataclasses.replace(building, **{other: wrong[other]})
    free = free_node(db, "two")
    assert not db.instances.settle(began, Settled(VmState.ACTIVE), process)
    fails = Settled(VmState.ERROR, applied=False, fault=FAULT, released=True)
    assert not db.instances.settle(began, fails, process)
    assert not db.instances.settle(began, Settled(VmState.DELETED), process)
    assert not db.instances.placed(began, free.uuid, process)
    assert not db.instances.reschedule(began, free, FAULT, process)
    assert db.instances.get(building.uuid) == building
    assert db.compute_nodes.get(free.uuid).instance_uuid is None
    assert db.instances.settle(building, Settled(VmState.ACTIVE), incarnation)
