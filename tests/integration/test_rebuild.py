# SPDX-License-Identifier: Apache-2.0

"""Rebuilds on a real Ironic: how they go, what refuses them, a service that dies."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import real_ironic
from ironic_virt import exceptions, virt
from ironic_virt.driver.deploy.rebuild_info import MARK
from ironic_virt.exceptions import Disk
from tests.crashing import Crash
from tests.integration.services import (
    IMAGE,
    OTHER_IMAGE,
    SEEDS,
    Operator,
    Service,
    dying_service,
)

LONG_AGO = "2020-01-01 00:00:00"
MOST_REQUESTS = 20


@pytest.fixture
def make_instance(
    ironic_on_mariadb: real_ironic.RealIronic, service: Service, operator: Operator
) -> Callable[[], virt.Instance]:
    """Make instances that are active since long ago, each on a node of its own."""

    def make() -> virt.Instance:
        seed = next(SEEDS)
        [node] = real_ironic.create_nodes(
            ironic_on_mariadb,
            1,
            real_ironic.NodeTemplate(),
            name=f"rebuild-{seed}-{{}}",
            seed=seed,
        )
        instance = service.instance_on(node)
        service.spawn(instance, [])
        operator.force(node, provision_updated_at=LONG_AGO)
        return instance

    return make


@pytest.fixture
def instance(make_instance: Callable[[], virt.Instance]) -> virt.Instance:
    """One of them."""
    return make_instance()


def node_of(instance: virt.Instance) -> str:
    assert instance.node is not None
    return instance.node


def changed_at(operator: Operator, instance: virt.Instance) -> str:
    """When the node's provision state last changed."""
    node: dict[str, Any] = operator.request("GET", f"/nodes/{node_of(instance)}")
    return str(node["provision_updated_at"])


def is_rebuilt(operator: Operator, instance: virt.Instance) -> bool:
    there = operator.node(node_of(instance))
    assert (there["provision_state"], there["instance_uuid"]) == ("active", instance.uuid)
    return bool(there["instance_info"]["image_source"] == OTHER_IMAGE.id)


def test_another_image_goes_onto_the_node(
    service: Service, operator: Operator, instance: virt.Instance
) -> None:
    before = changed_at(operator, instance)
    service.rebuild(instance)
    assert is_rebuilt(operator, instance)
    after = changed_at(operator, instance)
    assert after != before
    told = operator.node(node_of(instance))["instance_info"]
    assert told["image_checksum"] == OTHER_IMAGE.checksum
    assert told["configdrive"] == "******"
    operator.force(node_of(instance), provision_updated_at=LONG_AGO)
    service.rebuild(instance, IMAGE, "req-2")
    assert changed_at(operator, instance) != before
    service.destroy(instance)
    assert operator.wait_for_state(node_of(instance), "available")["instance_info"] == {}


def test_an_image_in_glance_whose_type_ironic_cannot_find_out(
    service: Service, operator: Operator, instance: virt.Instance
) -> None:
    glance = virt.ImageMeta(str(uuid.uuid4()))
    service.rebuild(instance, glance)
    told = operator.node(node_of(instance))["instance_info"]
    assert (told["image_source"], told["image_type"]) == (glance.id, "whole-disk")
    service.destroy(instance)


@pytest.mark.parametrize("state", ["deploy failed", "error"])
def test_a_node_that_failed_is_rebuilt(
    service: Service, operator: Operator, instance: virt.Instance, state: str
) -> None:
    operator.force(node_of(instance), provision_state=state, last_error="it broke")
    service.rebuild(instance)
    assert is_rebuilt(operator, instance)
    assert operator.node(node_of(instance))["last_error"] is None
    service.destroy(instance)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        ({"protected": True}, "protected"),
        ({"driver_info": {"x": 1}, "shard": "elsewhere"}, None),
    ],
)
def test_what_is_refused_leaves_the_node_as_it_was(
    service: Service,
    operator: Operator,
    instance: virt.Instance,
    spoil: dict[str, Any],
    says: str | None,
) -> None:
    if says is None:
        flavor = virt.Flavor("gpu", extra_specs={"trait:CUSTOM_GPU": "required"})
        asked, says = virt.Instance(instance.uuid, "i", flavor, node=instance.node), "CUSTOM_GPU"
    else:
        operator.patch(node_of(instance), **spoil)
        asked = instance
    before = operator.at_rest(node_of(instance))
    with pytest.raises(exceptions.RebuildFailed, match=says) as caught:
        service.rebuild(asked)
    assert caught.value.disk is Disk.UNTOUCHED
    assert operator.node(node_of(instance)) == before
    operator.patch(node_of(instance), protected=False)
    service.destroy(instance)


def test_a_rebuild_that_ironic_gives_up_says_what_is_on_the_disk(
    service: Service, operator: Operator, instance: virt.Instance
) -> None:
    """Its service died while Ironic waited for a call from the node, which never comes."""
    node = node_of(instance)
    there = operator.node(node)
    mark = {"wish": "req-1", "provision_state": "active", "provision_updated_at": "then"}
    operator.patch(node, instance_info={**there["instance_info"], MARK: mark, "configdrive": ""})
    operator.force(
        node,
        provision_state="wait call-back",
        target_provision_state="active",
        provision_updated_at=LONG_AGO,
    )
    with pytest.raises(exceptions.RebuildFailed, match="Timeout reached") as caught:
        service.rebuild(instance)
    assert caught.value.disk is Disk.UNKNOWN
    assert operator.node(node)["provision_state"] == "deploy failed"
    assert operator.node(node)["instance_uuid"] == instance.uuid
    service.rebuild(instance, request_id="req-2")
    assert is_rebuilt(operator, instance)
    service.destroy(instance)


@pytest.mark.parametrize(
    "after",
    [pytest.param(False, marks=pytest.mark.seldom), True],
    ids=["before", "after"],
)
def test_a_service_that_died_in_a_rebuild_carries_on(
    config: Path,
    operator: Operator,
    make_instance: Callable[[], virt.Instance],
    after: bool,
) -> None:
    """It dies at its first request, then, with another instance, at its second, and so on."""
    deaths: list[str] = []
    for at in range(1, MOST_REQUESTS):
        instance = make_instance()
        try:
            dying = dying_service(config, at, after=after)
            dying.rebuild(instance)
        except Crash as crash:
            deaths.append(str(crash))
        else:
            break
        began = changed_at(operator, instance)
        restarted = Service(config)
        restarted.rebuild(instance)
        assert is_rebuilt(operator, instance), deaths[-1]
        ended = changed_at(operator, instance)
        restarted.rebuild(instance)
        assert changed_at(operator, instance) == ended != LONG_AGO, deaths[-1]
        steps = operator.request("GET", f"/nodes/{instance.node}/history")["history"]
        told = [one["event"] for one in steps if "Starting deployment" in one["event"]]
        assert len(told) == 2, (deaths[-1], began, told)
        restarted.destroy(instance)
        restarted.driver.cleanup_host()
    else:
        pytest.fail(f"it died at each of these requests, and there are more: {deaths}")
    assert any(death.startswith("PATCH") for death in deaths), deaths
    assert any(death.startswith("PUT") for death in deaths), deaths
