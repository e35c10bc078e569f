# SPDX-License-Identifier: Apache-2.0

"""A service whose user Ironic shows a remark in the place of some texts, as a lessee's."""

from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import INSTANCE, SetStage, Stage
from tests.unit.driver.test_power import power_requests

# Texts of Ironic 39.0.0.
REMARKS = {
    "reservation": "** Redacted - requires baremetal:node:get:reservation permission. **",
    "last_error": "** Value Redacted - Requires baremetal:node:get:last_error permission. **",
}


def redact(method: str, path: str, node: dict[str, Any]) -> None:
    node |= {name: text for name, text in REMARKS.items() if name in node}


@pytest.fixture
def lessee(fake: FakeIronic, set_stage: SetStage) -> Stage:
    """A stage on which Ironic hides who holds a node, and what has failed."""
    stage = set_stage(fake, power_timeout=60)
    stage.edits.append(redact)
    return stage


@pytest.fixture
def placed(lessee: Stage, node: str) -> virt.Instance:
    """An instance that is active and on."""
    instance = lessee.instance(node)
    lessee.spawn(instance)
    lessee.driver.power_on(instance)
    return instance


def test_an_instance_comes_and_goes(lessee, fake, node, placed) -> None:
    lessee.destroy(placed)
    assert fake.node(node)["instance_uuid"] is None


@pytest.mark.parametrize("reboot_type", ["SOFT", "HARD"])
def test_a_reboot_is_asked_for_once_and_has_not_failed(lessee, fake, placed, reboot_type) -> None:
    fake.requests.clear()
    lessee.driver.reboot(placed, reboot_type)
    assert len(power_requests(fake)) == 1
    assert lessee.driver.get_info(placed, use_cache=False).state is virt.PowerState.RUNNING


def test_a_reboot_over_before_it_is_seen_is_done_at_the_deadline(set_stage: SetStage) -> None:
    fake = FakeIronic()
    stage = set_stage(fake, power_timeout=60)
    instance = stage.active(fake.add_node(ports=1, power_state="power on"))
    stage.edits.append(redact)
    stage.driver.reboot(instance, "SOFT")
    assert power_requests(fake) == ["soft rebooting"]


def test_power_works_and_a_failure_says_its_reason_is_hidden(lessee, fake, node, placed) -> None:
    lessee.driver.power_off(placed)
    assert fake.node(node)["power_state"] == "power off"
    lessee.driver.power_on(placed)
    assert fake.node(node)["power_state"] == "power on"
    fake.fail_next("power", "the BMC is on fire")
    with pytest.raises(exceptions.PowerFailed, match="hides the reason"):
        lessee.driver.power_off(placed)


def test_a_deployment_that_fails_says_that_the_reason_is_hidden(lessee, fake, node) -> None:
    fake.fail_next("deploy", "no space left")
    with pytest.raises(exceptions.DeployFailed, match="hides the reason") as caught:
        lessee.spawn(lessee.instance(node))
    assert caught.value.last_error is None
    assert fake.node(node)["instance_uuid"] is None


@pytest.mark.parametrize("field", ["instance_uuid", "provision_state", "power_state"])
def test_a_state_that_is_hidden_is_not_known(fake, set_stage, node, field) -> None:
    stage = set_stage(fake, api_max_retries=1)
    stage.spawn(stage.instance(node))

    def hide(method: str, path: str, shown: dict[str, Any]) -> None:
        if field in shown:
            shown[field] = "** Redacted - requires some permission. **"

    stage.edits.append(hide)
    with pytest.raises(exceptions.NodeUnreadable, match=field):
        stage.destroy(stage.instance(node))
    assert fake.node(node)["instance_uuid"] == INSTANCE
    stage.refresh()
    assert stage.driver.get_inventory(node).reserved == 1
