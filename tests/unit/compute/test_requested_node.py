# SPDX-License-Identifier: Apache-2.0

"""Stories of servers on a node that was chosen beforehand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ironic_virt.compute.api import Request, Requests
from ironic_virt.compute.db import records
from ironic_virt.compute.errors import (
    ComputeNodeNotFound,
    InvalidRequest,
)
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.conftest import SetStage
from tests.unit.compute.service_stage import FLAVOR, ServiceStage, new_uuid
from tests.unit.driver.stage import IMAGE

IQN = "iqn.2026-01.test:node"
NOBODY = "9d1c54a0-0000-4000-8000-000000000001"


@pytest.fixture
def nodes(fake: FakeIronic) -> list[str]:
    return fake.add_nodes(3, resource_class="gold", ports=1)


@pytest.fixture
def stage(set_stage: SetStage, nodes: list[str]) -> ServiceStage:
    return set_stage().begin()


@pytest.fixture
def requests(stage: ServiceStage) -> Requests:
    return Requests(stage.conf, stage.db)


def create(requests: Requests, node: str | None, **fields: Any) -> Request:
    new = records.NewInstance(
        new_uuid(), **({"flavor": FLAVOR, "image": IMAGE} | fields), requested_node=node
    )
    (request,) = requests.create(new)
    return request


def test_it_is_built_on_the_node_that_was_asked_for(
    stage: ServiceStage, requests: Requests, nodes: list[str]
) -> None:
    for node in reversed(nodes):
        request = create(requests, node)
        stage.look()
        built = stage.instance(request.instance.uuid)
        assert (built.node, built.vm_state, built.requested_node) == (node, "active", node)


def test_no_other_node_is_tried(
    stage: ServiceStage, requests: Requests, fake: FakeIronic, nodes: list[str]
) -> None:
    fake.fail_next("deploy", "disk broken", nodes[1])
    uuid = create(requests, nodes[1]).instance.uuid
    stage.look(3)
    assert stage.state(uuid) == ("error", None)
    assert "disk broken. No other node is tried: this one was asked for" in stage.fault(uuid)
    stage.nobody_has(nodes)


def test_a_node_that_is_taken_or_does_not_fit_is_not_replaced(
    stage: ServiceStage, requests: Requests, nodes: list[str]
) -> None:
    create(requests, nodes[1])
    taken = create(requests, nodes[1]).instance.uuid
    assert stage.state(taken) == ("error", None)
    assert "No valid host" in stage.fault(taken)
    large = dataclasses.replace(FLAVOR, extra_specs={"resources:CUSTOM_SILVER": "1"})
    misfit = create(requests, nodes[2], flavor=large).instance.uuid
    assert "ResourceClassFilter" in stage.fault(misfit)
    assert stage.db.compute_nodes.get(nodes[2]).instance_uuid is None


def test_a_service_that_is_disabled_or_down_gets_none(
    stage: ServiceStage, requests: Requests, nodes: list[str]
) -> None:
    stage.db.services.update("compute1", disabled=True)
    uuid = create(requests, nodes[1]).instance.uuid
    assert stage.state(uuid) == ("error", None)
    stage.db.services.update("compute1", disabled=False)
    stage.fake.advance(3600)
    assert stage.state(create(requests, nodes[1]).instance.uuid) == ("error", None)


def test_what_can_not_be_asked_for(
    stage: ServiceStage, requests: Requests, nodes: list[str]
) -> None:
    with pytest.raises(ComputeNodeNotFound, match=NOBODY):
        create(requests, NOBODY)
    new = records.NewInstance(new_uuid(), FLAVOR, IMAGE, requested_node=nodes[0])
    with pytest.raises(InvalidRequest, match="several servers can't have the same node"):
        requests.create(new, least=2)
    assert stage.db.instances.list() == []


def test_where_ironic_picks_the_nodes_there_is_none_to_ask_for(
    set_stage: SetStage, nodes: list[str]
) -> None:
    stage = set_stage(ironic={"node_selection": "ironic"}).begin()
    with pytest.raises(ComputeNodeNotFound, match="where Ironic picks the nodes, there are pools"):
        create(Requests(stage.conf, stage.db), nodes[0])
    assert stage.db.instances.list() == []
