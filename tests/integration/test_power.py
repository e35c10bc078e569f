# SPDX-License-Identifier: Apache-2.0

"""Power on a real Ironic: failures."""

import pytest

from ironic_virt import exceptions
from tests.integration.services import node_of
from tests.integration.stage import Stage


def test_a_change_that_fails_says_why(stage: Stage) -> None:
    instance = stage.active()
    stage.service.driver.power_on(instance)
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
