# SPDX-License-Identifier: Apache-2.0

"""Stories of servers on a node that was chosen beforehand."""

import dataclasses
from typing import Any

import pytest

from ironic_virt.compute.db import records
from ironic_virt.compute.errors import ComputeNodeNotFound, InvalidRequest
from ironic_virt.exceptions import NoValidHost
from tests.unit.compute.service_stage import FLAVOR, IMAGE, ServiceStage, new_uuid

NOBODY = "9d1c54a0-0000-4000-8000-000000000001"


def create(stage: ServiceStage, node: str | None, **fields: Any) -> str:
    """Ask for a server on a node; returns its uuid."""
    new = records.NewInstance(
        new_uuid(), **({"flavor": FLAVOR, "image": IMAGE} | fields), requested_node=node
    )
    (request,) = stage.requests.create(new)
    return request.uuid


def test_it_is_built_on_the_node_that_was_asked_for(stage: ServiceStage, nodes: list[str]) -> None:
    for node in reversed(nodes):
        uuid = create(stage, node)
        stage.look()
        built = stage.instance(uuid)
        assert (built.node, built.vm_state, built.requested_node) == (node, "active", node)


def test_no_other_node_is_tried(stage: ServiceStage, nodes: list[str]) -> None:
    stage.fake.fail_next("deploy", "disk broken", nodes[1])
    uuid = create(stage, nodes[1])
    stage.look(3)
    assert stage.state(uuid) == ("error", None)
    assert "disk broken. No other node is tried: this one was requested" in stage.fault(uuid)
    stage.nobody_has(nodes)


def test_a_node_that_is_taken_or_does_not_fit_is_not_replaced(stage, nodes) -> None:
    create(stage, nodes[1])
    with pytest.raises(NoValidHost):
        create(stage, nodes[1])
    large = dataclasses.replace(FLAVOR, extra_specs={"resources:CUSTOM_SILVER": "1"})
    with pytest.raises(NoValidHost, match="ResourceClassFilter"):
        create(stage, nodes[2], flavor=large)
    assert stage.db.compute_nodes.get(nodes[2]).instance_uuid is None


def test_what_can_not_be_asked_for(stage: ServiceStage, nodes: list[str]) -> None:
    with pytest.raises(ComputeNodeNotFound, match=NOBODY):
        create(stage, NOBODY)
    new = records.NewInstance(new_uuid(), FLAVOR, IMAGE, requested_node=nodes[0])
    with pytest.raises(InvalidRequest, match="several servers can't share a node"):
        stage.requests.create(new, count=2)
    assert stage.db.instances.list() == []


def test_where_ironic_picks_the_nodes_there_is_none_to_ask_for(set_stage, nodes) -> None:
    stage = set_stage(ironic={"node_selection": "ironic"}).begin()
    with pytest.raises(ComputeNodeNotFound, match="where Ironic picks the nodes, there are pools"):
        create(stage, nodes[0])
    assert stage.db.instances.list() == []
