# SPDX-License-Identifier: Apache-2.0

"""Stories of rescues in the reference service."""

import pytest
import sqlalchemy as sa

from ironic_virt import exceptions, virt
from ironic_virt.compute.db import tables
from ironic_virt.compute.errors import InvalidRequest
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.conftest import DURATIONS
from tests.unit.compute.service_stage import ServiceStage

PASSWORD = "correct horse"
EITHER_POWER = pytest.mark.parametrize(
    ("fake", "power_state", "left"),
    [(True, "power on", "active"), (False, "power off", "stopped")],
    indirect=["fake"],
)


@pytest.fixture
def fake(request: pytest.FixtureRequest) -> FakeIronic:
    """Hardware that an unrescue powers on, unless the parameter is false."""
    return FakeIronic(durations=DURATIONS, power_follows_deploy=getattr(request, "param", True))


def rescue(stage: ServiceStage, uuid: str, password: str = PASSWORD) -> None:
    stage.ask("rescue", uuid, password=password)


def unrescue(stage: ServiceStage, uuid: str) -> None:
    stage.ask("unrescue", uuid)


def provision_state(stage: ServiceStage, node: str) -> str:
    return str(stage.fake.node(node)["provision_state"])


def kept(stage: ServiceStage) -> list[str | None]:
    """All passwords that are in the records."""
    with stage.db.engine.connect() as connection:
        rows = connection.scalars(sa.select(tables.instances.c.arguments))
        return [row.get("password") for row in rows]


def test_there_and_back_and_gone(stage: ServiceStage, node: str, uuid: str) -> None:
    rescue(stage, uuid)
    there = stage.instance(uuid)
    assert (there.vm_state, there.task_state) == ("rescued", None)
    assert (there.node, there.power_state) == (node, virt.PowerState.RUNNING)
    assert provision_state(stage, node) == "rescue"
    stage.fake.set_node(node, power_state="power off")
    stage.service.refresh()
    stage.service.sync_power()
    seen = stage.instance(uuid)
    assert (seen.vm_state, seen.power_state) == ("rescued", virt.PowerState.SHUTDOWN)
    stage.fake.set_node(node, power_state="power on")
    unrescue(stage, uuid)
    assert stage.state(uuid) == ("active", None)
    assert provision_state(stage, node) == "active"
    rescue(stage, uuid)
    stage.ask("delete", uuid)
    assert stage.state(uuid) == ("deleted", None)
    assert stage.fake.node(node)["instance_uuid"] is None


def test_the_password_gets_to_ironic_and_nowhere_else(stage, uuid, caplog) -> None:
    caplog.set_level("DEBUG")
    stage.requests.ask("rescue", uuid, password=PASSWORD)
    assert kept(stage) == [PASSWORD]
    assert PASSWORD not in repr(stage.instance(uuid))
    stage.look()
    (asked,) = stage.fake.requests.matching("PUT", "/states/provision$")[-1:]
    assert asked.body == {"target": "rescue", "rescue_password": PASSWORD}
    assert kept(stage) == [None], "as soon as it is done"
    assert "rescue" in caplog.text
    assert PASSWORD not in caplog.text


@EITHER_POWER
def test_afterwards_one_that_was_stopped_is_what_its_power_says(
    stage: ServiceStage, node: str, uuid: str, power_state: str, left: str
) -> None:
    stage.ask("stop", uuid)
    rescue(stage, uuid)
    assert stage.state(uuid) == ("rescued", None)
    # Hardware is powered on on the way; the fake interface leaves it.
    stage.fake.set_node(node, power_state=power_state)
    unrescue(stage, uuid)
    assert stage.state(uuid) == (left, None)


def test_what_ironic_refuses_leaves_it_as_it_was(stage, node, uuid) -> None:
    stage.fake.set_node(node, maintenance=True, maintenance_reason="fan")
    rescue(stage, uuid)
    assert stage.state(uuid) == ("active", None)
    assert "the node is in maintenance (fan)" in stage.fault(uuid)
    assert kept(stage) == [None]
    stage.fake.set_node(node, maintenance=False)
    rescue(stage, uuid)
    stage.fake.set_node(node, maintenance=True)
    unrescue(stage, uuid)
    assert stage.state(uuid) == ("rescued", None)
    stage.fake.set_node(node, provision_state="unrescue failed")
    unrescue(stage, uuid)
    assert stage.state(uuid) == ("error", None), "no rescue system runs there any more"


def test_a_dead_processs_rescue_is_not_shown_as_its_own_system(stage, node, uuid) -> None:
    stage.requests.ask("rescue", uuid, password=PASSWORD)
    stage.fake.set_node(node, provision_state="rescue", maintenance=True)
    stage.look()
    assert stage.state(uuid) == ("error", None)
    stage.fake.set_node(node, maintenance=False)
    unrescue(stage, uuid)
    assert stage.state(uuid) == ("active", None)


def test_a_failed_rescue_leaves_a_stopped_instance_stopped(stage, node, uuid) -> None:
    stage.ask("stop", uuid)
    stage.fake.set_node(node, rescue_interface="no-rescue")
    rescue(stage, uuid)
    assert stage.state(uuid) == ("stopped", None)
    assert "does not support rescue" in stage.fault(uuid)


@EITHER_POWER
def test_a_failed_rescue_brought_back_is_what_its_power_says(stage, node, uuid, power_state, left):
    stage.ask("stop", uuid)
    stage.fake.fail_next("rescue", "the ramdisk is broken", node)
    stage.fake.set_node(node, power_state=power_state)
    rescue(stage, uuid)
    assert stage.state(uuid) == (left, None)
    assert "the server runs its own system; the rescue failed: the ramdisk" in stage.fault(uuid)


def test_an_instance_in_an_unknown_system_can_be_unrescued(stage, node, uuid) -> None:
    stage.fake.fail_next("rescue", "the ramdisk is broken", node)
    stage.fake.fail_next("unrescue", "the BMC is on fire", node)
    rescue(stage, uuid)
    assert stage.state(uuid) == ("error", None)
    assert "Repair the node in Ironic, then unrescue the server" in stage.fault(uuid)
    unrescue(stage, uuid)
    assert stage.state(uuid) == ("active", None)


def test_an_unrescue_that_fails_is_in_error(stage: ServiceStage, node: str, uuid: str) -> None:
    rescue(stage, uuid)
    stage.fake.fail_next("unrescue", "the BMC is on fire", node, count=2)
    unrescue(stage, uuid)
    assert stage.state(uuid) == ("error", None)
    assert "the node stays in 'unrescue failed'" in stage.fault(uuid)
    rescue(stage, uuid)
    assert stage.state(uuid) == ("rescued", None)


def test_an_unrescue_that_takes_too_long_is_in_error(stage: ServiceStage, uuid: str) -> None:
    rescue(stage, uuid)

    def never(*_args: object) -> None:
        raise exceptions.WaitTimeout("n", uuid, "be unrescued", 60, "unrescuing")

    stage.ironic.driver.unrescue = never  # type: ignore[method-assign]
    unrescue(stage, uuid)
    assert stage.state(uuid) == ("error", None)


@pytest.mark.parametrize(
    ("password", "says"),
    [("", "is empty"), ("  ", "is empty"), ("a\nb", "printed"), ("s" * 129, "more than 128")],
)
def test_a_password_that_nobody_can_type_is_refused(stage, uuid, password, says) -> None:
    with pytest.raises(InvalidRequest, match=says):
        stage.requests.ask("rescue", uuid, password=password)
    assert stage.state(uuid) == ("active", None)
