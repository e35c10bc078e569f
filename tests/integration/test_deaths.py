# SPDX-License-Identifier: Apache-2.0

"""Deployments, rebuilds and rescues on a real Ironic: a service that dies in one."""

from collections.abc import Callable

import pytest

from ironic_virt import virt
from tests.compute_service import OTHER_IMAGE
from tests.integration.services import Service, node_of
from tests.integration.stage import Stage

LONG_AGO = "2020-01-01 00:00:00"

Act = Callable[[Service, virt.Instance], None]


def spawn(service: Service, instance: virt.Instance) -> None:
    service.spawn(instance, [virt.Vif(instance.uuid)])


def rescue(service: Service, instance: virt.Instance) -> None:
    service.driver.rescue(instance, "correct horse")


def unrescue(service: Service, instance: virt.Instance) -> None:
    service.driver.unrescue(instance)


def see_it_rebuilt_once(stage: Stage, service: Service, instance: virt.Instance) -> None:
    """Also if it is asked for again."""
    path = f"/nodes/{node_of(instance)}"
    before = stage.operator.request("GET", path)
    assert before["instance_info"]["image_source"] == OTHER_IMAGE.id
    service.rebuild(instance)
    after = stage.operator.request("GET", path)
    assert after["provision_updated_at"] == before["provision_updated_at"] != LONG_AGO
    steps = stage.operator.request("GET", f"{path}/history")["history"]
    assert sum("Starting deployment" in one["event"] for one in steps) == 2


@pytest.mark.parametrize(
    "after",
    [pytest.param(False, marks=pytest.mark.seldom), True],
    ids=["before", "after"],
)
@pytest.mark.parametrize(
    ("act", "wanted", "changes"),
    [
        (spawn, "active", {"PATCH", "POST", "PUT"}),
        (Service.rebuild, "active", {"PATCH", "PUT"}),
        (rescue, "rescue", {"PUT"}),
        (unrescue, "active", {"PUT"}),
    ],
)
def test_a_service_that_died_carries_on(stage: Stage, act: Act, wanted, changes, after) -> None:
    """It dies at its first request, then, with another instance, at its second, and so on."""

    def make() -> virt.Instance:
        instance = stage.instance()
        if act is not spawn:
            stage.service.spawn(instance, [])
        if act is unrescue:
            rescue(stage.service, instance)
        stage.operator.force(node_of(instance), provision_updated_at=LONG_AGO)
        return instance

    deaths: list[str] = []
    for death, instance, restarted in stage.after_deaths(make, act, after=after):
        deaths.append(death)
        act(restarted, instance)
        there = stage.operator.node(node_of(instance))
        assert (there["provision_state"], there["instance_uuid"]) == (wanted, instance.uuid), death
        if act is Service.rebuild:
            see_it_rebuilt_once(stage, restarted, instance)
        assert stage.operator.vifs(node_of(instance)) == [instance.uuid] * (act is spawn)
        restarted.destroy(instance)
        left = stage.operator.wait_for_state(node_of(instance), "available")
        assert (left["instance_uuid"], left["instance_info"], left["protected"]) == (
            None,
            {},
            False,
        )
        assert stage.operator.vifs(node_of(instance)) == []
    assert changes <= {death.partition(" ")[0] for death in deaths}, deaths
