# SPDX-License-Identifier: Apache-2.0

"""Which requests an action costs: each one that is sent, and no more."""

import itertools

import pytest

from ironic_virt import virt
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import IMAGE, VIF, Stage


@pytest.fixture
def instance(stage: Stage, fake: FakeIronic, node: str) -> virt.Instance:
    """An instance for a node of a service that has listed its nodes."""
    assert stage.refresh() == [node]
    fake.requests.clear()
    return stage.instance(node)


def sent(fake: FakeIronic, node: str) -> list[str]:
    """The requests so far, looks at the node after the last change of a state as one."""
    steps = [
        f"{entry.method} {entry.path.removeprefix(f'/v1/nodes/{node}').removeprefix('/v1')}"
        for entry in fake.requests
    ]
    fake.requests.clear()
    changed = max((at for at, step in enumerate(steps) if step.startswith("PUT")), default=0)
    return steps[: changed + 1] + [step for step, _ in itertools.groupby(steps[changed + 1 :])]


@pytest.mark.parametrize("has_drive", [False, True])
def test_a_spawn_looks_again_when_a_config_drive_is_made(stage, fake, node, instance, has_drive):
    stage.reserve(instance)
    assert sent(fake, node) == ["GET ", "PATCH "]
    stage.service.has_drive = has_drive
    stage.driver.spawn(virt.DeployRequest(instance, IMAGE))
    looks = ["GET "] * (1 + has_drive)
    assert sent(fake, node) == [*looks, "PATCH ", "PUT /states/provision", "GET ", "PATCH "]


def test_a_spawn_with_networks(stage: Stage, fake: FakeIronic) -> None:
    node = fake.add_node(ports=2)
    instance = stage.instance(node)
    vifs = [virt.Vif(VIF), virt.Vif(VIF[:-1] + "2")]
    stage.reserve(instance)
    fake.requests.clear()
    stage.driver.spawn(virt.DeployRequest(instance, IMAGE, vifs))
    vif = ("GET ", "POST /vifs")
    deployment = ("PATCH ", "PUT /states/provision", "GET ", "PATCH ")
    assert sent(fake, node) == [*vif, *vif, "GET /ports", "GET ", *deployment]
    stage.destroy(instance)
    fake.settle()
    # Where they are there it looks no second time.
    stage.service.has_drive = False
    stage.reserve(instance)
    stage.driver.prepare_networks_before_block_device_mapping(instance, vifs)
    fake.requests.clear()
    stage.driver.spawn(virt.DeployRequest(instance, IMAGE, vifs))
    assert sent(fake, node) == ["GET ", "GET /vifs", *deployment]


def test_what_is_done_to_an_active_instance(stage, fake, node, instance) -> None:
    stage.spawn(instance)
    fake.requests.clear()
    stage.driver.reboot(instance, "HARD")
    power = ["GET /nodes", "PUT /states/power", "GET "]
    # When its power was changed last tells whether a lost reply was of a reboot that is over.
    assert sent(fake, node) == [power[0], "GET ", *power[1:]]
    stage.driver.power_off(instance)
    assert sent(fake, node) == power
    stage.driver.power_on(instance)
    assert sent(fake, node) == power
    stage.destroy(instance)
    assert sent(fake, node) == ["GET /nodes", "PATCH ", "PUT /states/provision", "GET "]


def test_what_an_action_saw_last_is_known_without_a_request(stage, fake, node, instance) -> None:
    stage.spawn(instance)
    stage.driver.power_off(instance)
    fake.requests.clear()
    assert stage.driver.get_info(instance).state is virt.PowerState.SHUTDOWN
    stage.destroy(instance)
    fake.requests.clear()
    assert not stage.driver.get_available_resource(node).in_use
    assert stage.driver.list_instance_uuids() == []
    assert len(fake.requests) == 0
