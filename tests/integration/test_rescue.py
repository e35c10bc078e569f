# SPDX-License-Identifier: Apache-2.0

"""Rescues on a real Ironic: there and back, failures, a service that dies."""

from collections.abc import Callable

import pytest

from ironic_virt import exceptions, virt
from tests.integration.services import Operator, Service, node_of
from tests.integration.stage import Stage

LONG_AGO = "2020-01-01 00:00:00"
PASSWORD = "correct horse"

Act = Callable[[Service, virt.Instance], None]


def rescue(service: Service, instance: virt.Instance) -> None:
    service.driver.rescue(instance, PASSWORD)


def unrescue(service: Service, instance: virt.Instance) -> None:
    service.driver.unrescue(instance)


def state(operator: Operator, instance: virt.Instance) -> str:
    return str(operator.node(node_of(instance))["provision_state"])


def test_there_and_back(stage: Stage, instance: virt.Instance) -> None:
    rescue(stage.service, instance)
    there = stage.operator.node(node_of(instance))
    assert (there["provision_state"], there["instance_uuid"]) == ("rescue", instance.uuid)
    assert there["instance_info"]["rescue_password"] == "******"
    rescue(stage.service, instance)
    assert state(stage.operator, instance) == "rescue"
    unrescue(stage.service, instance)
    assert state(stage.operator, instance) == "active"
    unrescue(stage.service, instance)
    rescue(stage.service, instance)
    stage.service.destroy(instance)
    stage.operator.wait_for_state(node_of(instance), "available")


@pytest.mark.seldom
def test_a_rescue_given_up_by_ironic_ends_on_the_own_system(stage, instance) -> None:
    """Ironic waits for a call from the rescue system, which never comes."""
    wait = stage.service.driver._rescue._wait  # type: ignore[attr-defined]

    def stuck(change: object, wanted: str) -> object:
        if wanted == "rescue":
            stage.operator.wait_for_state(node_of(instance), "rescue")
            stage.operator.force(
                node_of(instance),
                provision_state="rescue wait",
                target_provision_state="rescue",
                provision_updated_at=LONG_AGO,
            )
        return wait(change, wanted)

    stage.service.driver._rescue._wait = stuck  # type: ignore[attr-defined]
    with pytest.raises(exceptions.RescueFailed, match="Timeout reached") as caught:
        rescue(stage.service, instance)
    assert "the server runs its own system" in caught.value.reason
    assert state(stage.operator, instance) == "active"
    stage.service.destroy(instance)


@pytest.mark.parametrize(
    "after",
    [pytest.param(False, marks=pytest.mark.seldom), True],
    ids=["before", "after"],
)
@pytest.mark.parametrize(("act", "wanted"), [(rescue, "rescue"), (unrescue, "active")])
def test_a_service_that_died_carries_on(stage: Stage, act: Act, wanted: str, after: bool) -> None:
    """It dies at its first request, then, with another instance, at its second, and so on."""

    def make() -> virt.Instance:
        instance = stage.active()
        if act is unrescue:
            rescue(stage.service, instance)
        return instance

    deaths: list[str] = []
    for death, instance, restarted in stage.after_deaths(make, act, after=after):
        deaths.append(death)
        act(restarted, instance)
        assert state(stage.operator, instance) == wanted, death
        restarted.destroy(instance)
    assert any(death.startswith("PUT") for death in deaths), deaths
