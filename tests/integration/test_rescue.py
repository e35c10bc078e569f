# SPDX-License-Identifier: Apache-2.0

"""Rescues on a real Ironic: a service that dies in one."""

from collections.abc import Callable

import pytest

from ironic_virt import virt
from tests.integration.services import Operator, Service, node_of
from tests.integration.stage import Stage

PASSWORD = "correct horse"

Act = Callable[[Service, virt.Instance], None]


def rescue(service: Service, instance: virt.Instance) -> None:
    service.driver.rescue(instance, PASSWORD)


def unrescue(service: Service, instance: virt.Instance) -> None:
    service.driver.unrescue(instance)


def state(operator: Operator, instance: virt.Instance) -> str:
    return str(operator.node(node_of(instance))["provision_state"])


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
