# SPDX-License-Identifier: Apache-2.0

"""Rebuilds on a real Ironic: how they go, what refuses them, a service that dies."""

import uuid
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.deploy.rebuild_info import MARK
from ironic_virt.exceptions import Disk
from tests.compute_service import IMAGE, OTHER_IMAGE
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


def test_another_image_goes_onto_the_node(stage: Stage, instance: virt.Instance) -> None:
    before = changed_at(stage.operator, instance)
    stage.service.rebuild(instance)
    assert is_rebuilt(stage.operator, instance)
    after = changed_at(stage.operator, instance)
    assert after != before
    told = stage.operator.node(node_of(instance))["instance_info"]
    assert told["image_checksum"] == OTHER_IMAGE.checksum
    assert told["configdrive"] == "******"
    stage.operator.force(node_of(instance), provision_updated_at=LONG_AGO)
    stage.service.rebuild(instance, IMAGE, "req-2")
    assert changed_at(stage.operator, instance) != before

    glance = virt.ImageMeta(str(uuid.uuid4()))
    stage.service.rebuild(instance, glance, "req-3")
    told = stage.operator.node(node_of(instance))["instance_info"]
    assert (told["image_source"], told["image_type"]) == (glance.id, "whole-disk")
    stage.service.destroy(instance)
    assert stage.operator.wait_for_state(node_of(instance), "available")["instance_info"] == {}


def test_a_rebuild_that_ironic_gives_up_says_what_is_on_the_disk(stage, instance) -> None:
    """Its service died while Ironic waited for a call from the node, which never comes."""
    node = node_of(instance)
    there = stage.operator.node(node)
    mark = {"wish": "req-1", "provision_state": "active", "provision_updated_at": "then"}
    stage.operator.patch(
        node, instance_info={**there["instance_info"], MARK: mark, "configdrive": ""}
    )
    stage.operator.force(
        node,
        provision_state="wait call-back",
        target_provision_state="active",
        provision_updated_at=LONG_AGO,
    )
    with pytest.raises(exceptions.RebuildFailed, match="Timeout reached") as caught:
        stage.service.rebuild(instance)
    assert caught.value.disk is Disk.UNKNOWN
    assert stage.operator.node(node)["provision_state"] == "deploy failed"
    assert stage.operator.node(node)["instance_uuid"] == instance.uuid
    stage.service.rebuild(instance, request_id="req-2")
    assert is_rebuilt(stage.operator, instance)
    stage.service.destroy(instance)


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
