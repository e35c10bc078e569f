# SPDX-License-Identifier: Apache-2.0

"""What somebody did to a node is taken over into the instance's record."""

import pytest

from ironic_virt import virt
from ironic_virt.compute.engine.power_sync import PowerSync
from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.conftest import SetStage
from tests.unit.compute.service_stage import ServiceStage


@pytest.fixture
def stage(set_stage: SetStage, fake: FakeIronic) -> ServiceStage:
    fake.add_nodes(2, resource_class="gold", ports=1)
    return set_stage().begin()


@pytest.fixture
def instance(stage: ServiceStage) -> str:
    uuid = stage.build()
    assert stage.state(uuid) == ("active", None)
    return uuid


def node_of(stage: ServiceStage, uuid: str) -> str:
    return str(stage.instance(uuid).node)


def test_a_node_that_was_switched_off_makes_a_stopped_instance(
    stage: ServiceStage, instance: str, caplog: pytest.LogCaptureFixture
) -> None:
    stage.fake.set_node(node_of(stage, instance), power_state="power off")
    stage.service.refresh()
    for _ in range(2):
        stage.service.sync_power()
    now = stage.instance(instance)
    assert (now.vm_state, now.power_state) == ("stopped", virt.PowerState.SHUTDOWN)
    said = [
        line
        for line in caplog.messages
        if "its power state is SHUTDOWN, recorded was RUNNING" in line
    ]
    assert len(said) == 1
    stage.fake.set_node(node_of(stage, instance), power_state="power on")
    stage.service.refresh()
    stage.service.sync_power()
    assert stage.instance(instance).vm_state == "active"


def test_what_is_as_written_is_not_written_again(stage: ServiceStage, instance: str) -> None:
    before = stage.instance(instance)
    stage.fake.advance(600)
    stage.service.refresh()
    stage.service.sync_power()
    assert stage.instance(instance) == before


def test_an_instance_that_somebody_took_off_its_node_is_in_error(
    stage: ServiceStage, instance: str
) -> None:
    node = node_of(stage, instance)
    stage.fake.set_node(node, instance_uuid=None, provision_state="available")
    stage.service.refresh()
    stage.service.sync_power()
    assert stage.state(instance) == ("error", None)
    assert node in stage.fault(instance)
    stage.do(instance, TaskState.DELETING)
    assert stage.state(instance) == ("deleted", None)


def test_an_instance_does_not_vanish_because_ironic_is_away(
    stage: ServiceStage, instance: str
) -> None:
    stage.fake.set_node(node_of(stage, instance), instance_uuid=None)
    stage.service.refresh()
    stage.fake.faults.status(503, "GET", "instance_uuid", count=None)
    stage.fake.faults.status(503, "GET", count=None)
    stage.service.sync_power()
    assert stage.state(instance) == ("active", None)


def test_an_instance_of_which_something_is_wanted_is_left_to_that(
    stage: ServiceStage, instance: str
) -> None:
    stage.db.instances.request(instance, TaskState.REBOOTING)
    stage.fake.set_node(node_of(stage, instance), power_state="power off")
    stage.service.refresh()
    stage.service.sync_power()
    assert stage.state(instance) == ("active", "rebooting")


def test_an_instance_that_no_record_knows_is_told_of_once_and_left_alone(
    stage: ServiceStage, instance: str, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = "6d2b4f02-0000-4000-8000-00000000beef"
    free = next(node["uuid"] for node in stage.fake.nodes() if not node["instance_uuid"])
    stage.fake.set_node(free, instance_uuid=stranger)
    stage.service.refresh()
    for _ in range(2):
        stage.service.sync_power()
    said = [line for line in caplog.messages if stranger in line]
    assert len(said) == 1
    assert instance not in said[0]
    assert stage.fake.node(free)["instance_uuid"] == stranger


def test_what_was_done_while_the_power_state_was_read_is_not_overwritten(
    stage: ServiceStage, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = stage.ironic.driver
    sync = PowerSync(stage.service.host, driver, stage.db)

    def rescued_meanwhile(_instance: object) -> virt.InstanceInfo:
        monkeypatch.undo()
        stage.fake.advance(1)
        stage.do(instance, TaskState.RESCUING, {"password": "correct horse"})
        return virt.InstanceInfo(virt.PowerState.SHUTDOWN)

    monkeypatch.setattr(driver, "get_info", rescued_meanwhile)
    sync.sync()
    assert stage.state(instance) == ("rescued", None)
