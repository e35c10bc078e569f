# SPDX-License-Identifier: Apache-2.0

"""Power on a real Ironic: failures, and nodes that are never powered off."""

from typing import Any

import pytest

from ironic_virt import exceptions, virt
from tests.integration.services import node_of
from tests.integration.stage import Stage


def powered_on(stage: Stage, **fields: Any) -> virt.Instance:
    """An instance that is active and on, on its own node with such fields."""
    instance = stage.instance()
    stage.operator.patch(node_of(instance), **fields)
    stage.service.spawn(instance, [])
    stage.service.driver.power_on(instance)
    return instance


def test_a_node_that_is_never_powered_off(stage: Stage) -> None:
    instance = powered_on(stage, disable_power_off=True)
    for timeout in (0, 5):
        with pytest.raises(exceptions.PowerOffDisabled, match="disable_power_off"):
            stage.service.driver.power_off(instance, timeout=timeout)
    for kind in ("SOFT", "HARD"):
        stage.service.driver.reboot(instance, kind)
    assert stage.operator.node(node_of(instance))["power_state"] == "power on"
    stage.service.driver.rescue(instance, "correct horse")
    stage.service.driver.unrescue(instance)
    stage.service.destroy(instance)
    assert stage.operator.wait_for_state(node_of(instance), "available")["instance_uuid"] is None


def test_a_change_that_fails_says_why(stage: Stage) -> None:
    instance = powered_on(stage)
    stage.operator.patch(node_of(instance), driver_info={"fails": {"power": "the BMC is on fire"}})
    for act in (
        lambda: stage.service.driver.power_off(instance, timeout=5),
        lambda: stage.service.driver.reboot(instance, "SOFT"),
        lambda: stage.service.driver.reboot(instance, "HARD"),
    ):
        with pytest.raises(exceptions.PowerFailed, match="the BMC is on fire"):
            act()
    stage.operator.patch(node_of(instance), driver_info={})
    stage.service.driver.reboot(instance, "HARD")
    # An earlier failure is not a failure of the reboot.
    stage.operator.force(
        node_of(instance), provision_state="service failed", last_error="no such firmware"
    )
    stage.service.driver.reboot(instance, "HARD")
    stage.service.destroy(instance)
