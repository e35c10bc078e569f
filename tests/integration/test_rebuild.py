# SPDX-License-Identifier: Apache-2.0

"""Rebuilds on a real Ironic: a service that dies in one."""

from typing import Any

import pytest

from ironic_virt import virt
from tests.compute_service import OTHER_IMAGE
from tests.integration.services import Operator, Service, node_of
from tests.integration.stage import Stage

LONG_AGO = "2020-01-01 00:00:00"


@pytest.fixture
def instance(stage: Stage) -> virt.Instance:
    """An instance that is active since long ago."""
    return since_long_ago(stage)


def since_long_ago(stage: Stage) -> virt.Instance:
    instance = stage.active()
    stage.operator.force(node_of(instance), provision_updated_at=LONG_AGO)
    return instance


def changed_at(operator: Operator, instance: virt.Instance) -> str:
    """When the node's provision state last changed."""
    node: dict[str, Any] = operator.request("GET", f"/nodes/{node_of(instance)}")
    return str(node["provision_updated_at"])


def is_rebuilt(operator: Operator, instance: virt.Instance) -> bool:
    there = operator.node(node_of(instance))
    assert (there["provision_state"], there["instance_uuid"]) == ("active", instance.uuid)
    return bool(there["instance_info"]["image_source"] == OTHER_IMAGE.id)


@pytest.mark.parametrize(
    "after",
    [pytest.param(False, marks=pytest.mark.seldom), True],
    ids=["before", "after"],
)
def test_a_service_that_died_in_a_rebuild_carries_on(stage: Stage, after: bool) -> None:
    """It dies at its first request, then, with another instance, at its second, and so on."""
    deaths: list[str] = []
    for death, instance, restarted in stage.after_deaths(
        lambda: since_long_ago(stage), Service.rebuild, after=after
    ):
        deaths.append(death)
        began = changed_at(stage.operator, instance)
        restarted.rebuild(instance)
        assert is_rebuilt(stage.operator, instance), death
        ended = changed_at(stage.operator, instance)
        restarted.rebuild(instance)
        assert changed_at(stage.operator, instance) == ended != LONG_AGO, death
        steps = stage.operator.request("GET", f"/nodes/{instance.node}/history")["history"]
        told = [one["event"] for one in steps if "Starting deployment" in one["event"]]
        assert len(told) == 2, (death, began, told)
        restarted.destroy(instance)
    assert any(death.startswith("PATCH") for death in deaths), deaths
    assert any(death.startswith("PUT") for death in deaths), deaths
