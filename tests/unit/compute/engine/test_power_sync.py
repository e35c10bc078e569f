# SPDX-License-Identifier: Apache-2.0

"""What somebody did to a node is taken over into the instance's record."""

from typing import Any

import pytest

from ironic_virt import virt
from ironic_virt.compute.engine.power_sync import PowerSync
from ironic_virt.compute.states import TaskState
from tests.unit.compute.service_stage import ServiceStage

OFF = virt.PowerState.SHUTDOWN


def synced(stage: ServiceStage, **changed: Any) -> None:
    """Have somebody change the first node, and the service see it, twice."""
    stage.fake.set_node(stage.nodes[0], **changed)
    stage.service.refresh()
    for _ in range(2):
        stage.service.sync_power()


def test_the_power_of_a_node_is_written_down_once(stage, uuid, caplog) -> None:
    before = stage.instance(uuid)
    stage.fake.advance(600)
    synced(stage)
    assert stage.instance(uuid) == before, "nothing is written again"
    synced(stage, power_state="power off")
    now = stage.instance(uuid)
    assert (now.vm_state, now.power_state) == ("stopped", OFF)
    said = "its power state is SHUTDOWN, the record said RUNNING"
    assert len([line for line in caplog.messages if said in line]) == 1
    synced(stage, power_state="power on")
    assert stage.instance(uuid).vm_state == "active"


def test_an_instance_that_somebody_took_off_its_node_is_in_error(stage, node, uuid) -> None:
    synced(stage, instance_uuid=None, provision_state="available")
    assert stage.state(uuid) == ("error", None)
    assert node in stage.fault(uuid)
    stage.do(uuid, TaskState.DELETING)
    assert stage.state(uuid) == ("deleted", None)


@pytest.mark.parametrize("status", [503, 404])
def test_an_instance_stays_if_ironic_shows_nothing(stage, node, uuid, status):
    """What a project's role does not show is not listed, and said to be not found."""
    stage.fake.faults.status(200, "GET", "/nodes$", b'{"nodes": []}', count=None)
    stage.fake.advance(60)
    stage.service.refresh()
    if status == 503:
        stage.fake.faults.clear()
    stage.fake.faults.status(status, "GET", "", f"Node {node} could not be found.", count=None)
    stage.service.sync_power()
    assert stage.state(uuid) == ("active", None)


def test_an_instance_with_a_request_is_left_to_it(stage: ServiceStage, uuid: str) -> None:
    stage.db.instances.request(uuid, TaskState.REBOOTING)
    synced(stage, power_state="power off")
    assert stage.state(uuid) == ("active", "rebooting")


def test_an_instance_without_a_record_is_logged_once(stage, uuid, nodes, caplog) -> None:
    stranger = "6d2b4f02-0000-4000-8000-00000000beef"
    stage.fake.set_node(nodes[1], instance_uuid=stranger)
    synced(stage)
    (said,) = [line for line in caplog.messages if stranger in line]
    assert uuid not in said
    assert stage.fake.node(nodes[1])["instance_uuid"] == stranger


def test_changes_while_the_power_is_read_are_not_overwritten(stage, uuid, monkeypatch) -> None:
    driver = stage.ironic.driver
    sync = PowerSync(stage.service.host, driver, stage.db)

    def rescued_meanwhile(_instance: object) -> virt.InstanceInfo:
        monkeypatch.undo()
        stage.fake.advance(1)
        stage.do(uuid, TaskState.RESCUING, {"password": "correct horse"})
        return virt.InstanceInfo(OFF)

    monkeypatch.setattr(driver, "get_info", rescued_meanwhile)
    sync.sync()
    assert stage.state(uuid) == ("rescued", None)
