# SPDX-License-Identifier: Apache-2.0

"""Stories of power and reboots."""

from collections.abc import Callable

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import Stage


@pytest.fixture
def instance(stage: Stage, node: str, fake: FakeIronic) -> virt.Instance:
    """An instance that is active and on."""
    placed = stage.instance(node)
    stage.spawn(placed)
    stage.driver.power_on(None, placed, None)
    fake.requests.clear()
    return placed


def power_requests(fake: FakeIronic) -> list[str]:
    return [entry.body["target"] for entry in fake.requests.matching("PUT", "/states/power$")]


def test_off_and_on_again(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    stage.driver.power_off(instance)
    assert fake.node(node)["power_state"] == "power off"
    assert stage.driver.get_info(instance).state is virt.PowerState.SHUTDOWN
    stage.driver.power_on(None, instance, None)
    assert fake.node(node)["power_state"] == "power on"
    assert stage.driver.get_info(instance).state is virt.PowerState.RUNNING
    assert power_requests(fake) == ["power off", "power on"]


@pytest.mark.parametrize(
    ("reboot_type", "sent"), [("SOFT", "soft rebooting"), ("HARD", "rebooting")]
)
def test_a_reboot_ends_with_the_power_on(
    stage: Stage, fake: FakeIronic, instance: virt.Instance, reboot_type: str, sent: str
) -> None:
    stage.driver.reboot(None, instance, None, reboot_type)
    assert power_requests(fake) == [sent]
    assert stage.driver.get_info(instance, use_cache=False).state is virt.PowerState.RUNNING


def test_a_soft_reboot_that_fails_becomes_a_hard_one(
    stage: Stage, fake: FakeIronic, instance: virt.Instance
) -> None:
    fake.fail_next("power", "the system ignores ACPI")
    stage.driver.reboot(None, instance, None, "SOFT")
    assert power_requests(fake) == ["soft rebooting", "rebooting"]


def test_a_soft_reboot_that_the_hardware_lacks_becomes_a_hard_one(
    stage: Stage, fake: FakeIronic, instance: virt.Instance
) -> None:
    fake.faults.status(400, "PUT", "/states/power$", body="soft rebooting is not supported")
    stage.driver.reboot(None, instance, None, "SOFT")
    assert power_requests(fake) == ["soft rebooting", "rebooting"]


def test_a_soft_power_off_that_is_ignored_is_followed_by_a_hard_one(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    fake.ignore_soft_power(node)
    stage.driver.power_off(instance, timeout=30)
    assert power_requests(fake) == ["soft power off", "power off"]
    assert fake.node(node)["power_state"] == "power off"


def test_a_failure_says_what_ironic_said(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    fake.fail_next("power", "the BMC is on fire", count=2)
    with pytest.raises(exceptions.PowerFailed, match="the BMC is on fire") as caught:
        stage.driver.power_off(instance)
    assert caught.value.node == node
    with pytest.raises(exceptions.PowerFailed, match="the BMC is on fire"):
        stage.driver.reboot(None, instance, None, "HARD")


def test_a_change_that_never_ends_is_given_up_in_time(
    fake: FakeIronic, set_stage: Callable[..., Stage], instance: virt.Instance, node: str
) -> None:
    stage = set_stage(fake, power_timeout=10)
    fake.set_node(node, target_power_state="power off", reservation="conductor-1")
    with pytest.raises(exceptions.WaitTimeout, match="power_timeout"):
        stage.driver.power_off(instance)


def test_a_change_that_is_under_way_is_waited_for_and_not_asked_for_again(
    stage: Stage, fake: FakeIronic, node: str, instance: virt.Instance
) -> None:
    restarted = stage.restarted()
    fake.requests.clear()
    stage.driver._client.set_power_state(node, "power off", applied=lambda _: True)
    restarted.driver.power_off(instance)
    restarted.driver.cleanup_host("compute1")
    assert power_requests(fake) == ["power off"]


def test_an_instance_that_is_nowhere_has_no_power(stage: Stage, node: str) -> None:
    with pytest.raises(exceptions.InstanceNotFound):
        stage.driver.power_on(None, stage.instance(node), None)
