# SPDX-License-Identifier: Apache-2.0

"""Stories of interfaces that come and go, in the reference service."""

import pytest

from ironic_virt import virt
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.service_stage import ServiceStage

FIRST, SECOND, THIRD = (f"9d1c54a0-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))


@pytest.fixture
def nodes(fake: FakeIronic) -> list[str]:
    return fake.add_nodes(1, resource_class="gold", ports=2)


@pytest.fixture
def uuid(stage: ServiceStage) -> str:
    """An instance that is active, with an interface."""
    uuid = stage.build(ports=(virt.Vif(FIRST),))
    stage.fake.advance(60)
    return uuid


def attach(stage: ServiceStage, uuid: str, vif: str = SECOND) -> None:
    stage.ask("attach_interface", uuid, vif=vif)


def detach(stage: ServiceStage, uuid: str, vif: str = SECOND) -> None:
    stage.ask("detach_interface", uuid, vif=vif)


def ports(stage: ServiceStage, uuid: str) -> list[str]:
    return [port.id for port in stage.instance(uuid).ports]


def attached(stage: ServiceStage, node: str) -> list[str]:
    return sorted(stage.ironic.trace(node)["vifs"])


def test_one_comes_stays_over_a_rebuild_and_goes(stage, node, uuid) -> None:
    stage.requests.ask("attach_interface", uuid, vif=SECOND)
    wanted = stage.instance(uuid)
    assert (wanted.task_state, wanted.arguments) == ("attaching-interface", {"vif": SECOND})
    assert ports(stage, uuid) == [FIRST], "until it is there the instance does not have it"
    stage.look()
    assert (stage.state(uuid), ports(stage, uuid)) == (("active", None), [FIRST, SECOND])
    assert attached(stage, node) == [FIRST, SECOND]
    stage.ask("rebuild", uuid)
    assert (stage.state(uuid), attached(stage, node)) == (("active", None), [FIRST, SECOND])
    detach(stage, uuid, FIRST.upper())
    assert (ports(stage, uuid), attached(stage, node)) == ([SECOND], [SECOND])
    found = stage.instance(uuid)
    assert (found.arguments, found.power_state) == ({}, virt.PowerState.RUNNING)
    assert found.fault is None


def test_a_node_without_a_free_port_leaves_it_as_it_was(stage, node, uuid) -> None:
    attach(stage, uuid)
    attach(stage, uuid, THIRD)
    assert (stage.state(uuid), ports(stage, uuid)) == (("active", None), [FIRST, SECOND])
    assert f"VIF {THIRD} could not be attached" in stage.fault(uuid)


def test_one_that_stays_on_its_node_goes_to_nobody_else(stage, node, uuid):
    stage.fake.refuse_vif(SECOND, "no such segment")
    stage.fake.faults.status(400, "DELETE", "/vifs/", "not now", count=None)
    attach(stage, uuid)
    assert (ports(stage, uuid), attached(stage, node)) == ([FIRST, SECOND], [FIRST, SECOND])
    assert stage.db.instances.instance_of_port(SECOND) == uuid
