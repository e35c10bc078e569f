# SPDX-License-Identifier: Apache-2.0

"""Stories of rebuilds in the reference service."""

import dataclasses

import pytest

from ironic_virt import virt
from ironic_virt.compute.states import TaskState
from tests.unit.compute.service_stage import ServiceStage
from tests.unit.driver.stage import IMAGE

OTHER = virt.ImageMeta("https://images.example.test/b.raw", checksum="cd" * 16)


def rebuild(stage: ServiceStage, uuid: str, image: virt.ImageMeta | None = OTHER) -> None:
    arguments = None if image is None else {"image": dataclasses.asdict(image)}
    stage.do(uuid, TaskState.REBUILDING, arguments)


def test_it_has_another_image_then(stage: ServiceStage, node: str, uuid: str) -> None:
    rebuild(stage, uuid)
    rebuilt = stage.instance(uuid)
    assert (rebuilt.vm_state, rebuilt.task_state, rebuilt.image) == ("active", None, OTHER)
    assert (rebuilt.node, rebuilt.power_state) == (node, virt.PowerState.RUNNING)
    assert stage.fake.node(node)["instance_info"]["image_source"] == OTHER.id
    assert rebuilt.fault is None


def test_one_that_was_stopped_is_stopped_again(stage: ServiceStage, node: str, uuid: str) -> None:
    stage.do(uuid, TaskState.POWERING_OFF)
    rebuild(stage, uuid)
    assert stage.state(uuid) == ("stopped", None)
    assert stage.fake.node(node)["power_state"] == "power off"
    asked = [one.body for one in stage.fake.requests.matching("PUT", "/states/power$")]
    assert asked == 2 * [{"target": "soft power off", "timeout": 60}]


def test_the_same_image_again_is_a_rebuild_each_time(stage: ServiceStage, uuid: str) -> None:
    rebuild(stage, uuid, None)
    rebuild(stage, uuid, None)
    assert stage.ironic.provision_requests("rebuild") == 2
    assert stage.instance(uuid).image == IMAGE


def test_what_ironic_refuses_leaves_it_as_it_was(stage, node, uuid) -> None:
    stage.fake.set_node(node, maintenance=True, maintenance_reason="fan")
    rebuild(stage, uuid)
    left = stage.instance(uuid)
    assert (left.vm_state, left.task_state, left.image) == ("active", None, IMAGE)
    assert left.arguments == {}
    assert "the disk is as it was: the node is in maintenance (fan)" in stage.fault(uuid)


@pytest.mark.parametrize("why", ["Deploy step deploy.a failed: x", "Failed to prepare to deploy"])
def test_a_failed_rebuild_is_in_error_and_can_be_repeated(stage, node, uuid, why) -> None:
    stage.fake.fail_next("deploy", why, node)
    rebuild(stage, uuid)
    left = stage.instance(uuid)
    assert (left.vm_state, left.task_state, left.node, left.image) == ("error", None, node, OTHER)
    assert f"the disk {'may be' if 'step' in why else 'is as'}" in stage.fault(uuid)
    rebuild(stage, uuid, None)
    assert stage.state(uuid) == ("active", None)


@pytest.mark.parametrize("task", [TaskState.UNRESCUING, TaskState.REBOOTING_HARD])
def test_one_that_perhaps_never_began_stays_in_error(stage, node, uuid, task) -> None:
    faults = stage.fake.faults
    refused = faults.status(500, "PUT", "/states/provision$", count=None)
    faults.status(400, "GET", "/nodes/", nth=2, when=lambda *_: refused.hits)
    rebuild(stage, uuid)
    faults.clear()
    assert stage.instance(uuid).image == OTHER
    assert stage.fake.node(node)["provision_state"] == "active", "with the former image"
    stage.do(uuid, task)
    assert stage.state(uuid) == ("error", None)
    rebuild(stage, uuid, None)
    assert stage.state(uuid) == ("active", None)


def test_a_dead_processs_rebuild_goes_on_once_its_node_is_found(stage, uuid) -> None:
    faults = stage.fake.faults
    faults.lose_reply("PUT", "/states/provision$", count=None)
    faults.reset("GET", "/nodes/", count=None)
    rebuild(stage, uuid)
    faults.clear()
    # The next process knows of nothing but the record.
    faults.status(400, "GET", "/nodes$")
    stage.look(2)
    assert stage.state(uuid) == ("active", "rebuilding"), "an answer that says nothing of it"
    stage.look(4)
    rebuilt = stage.instance(uuid)
    assert (rebuilt.vm_state, rebuilt.task_state, rebuilt.image) == ("active", None, OTHER)
    assert stage.ironic.provision_requests("rebuild") == 1
