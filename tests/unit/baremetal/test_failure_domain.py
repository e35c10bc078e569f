# SPDX-License-Identifier: Apache-2.0

"""The failure domain of a node: where it is read, and that lists ask for no more than that."""

from typing import Any

import pytest

from ironic_virt.baremetal.node import LIST_FIELDS
from ironic_virt.baremetal.node_filter import NodeFilter
from tests.unit.baremetal.scripted import ScriptedChannel, client_of, node_json, page

A, B = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "ab")
CAPABILITY, ENTRY, CHASSIS = "capabilities/rack", "extra/rack", "chassis_uuid"


@pytest.mark.parametrize(
    ("rule", "fields", "domain"),
    [
        (CAPABILITY, {"properties": {"capabilities": "rack:r1"}}, "r1"),
        (CAPABILITY, {"properties": {}}, ""),
        (ENTRY, {"extra": {"rack": "r1", "more": 1}}, "r1"),
        (ENTRY, {"extra": {"rack": 7}}, "7"),
        (ENTRY, {"extra": {"rack": {"a": 1}}}, ""),
        (ENTRY, {"extra": {"rack": True}}, ""),
        (ENTRY, {"extra": {"rack": "r" * 300}}, "r" * 255),
        (ENTRY, {"extra": None}, ""),
        ("traits/CUSTOM_RACK_", {"traits": ["CUSTOM_RACK_1", "CUSTOM_GPU"]}, "CUSTOM_RACK_1"),
        ("traits/CUSTOM_RACK_", {"traits": ["CUSTOM_RACK_1", "CUSTOM_RACK_2"]}, ""),
        ("conductor_group", {"conductor_group": "rack1"}, "rack1"),
        ("shard", {"shard": None}, ""),
        (CHASSIS, {CHASSIS: B}, B),
        ("uuid", {}, A),
        (None, {"properties": {"capabilities": "rack:r1"}}, ""),
    ],
)
def test_where_it_is_read(rule: str | None, fields: dict[str, Any], domain: str) -> None:
    channel = ScriptedChannel(page(node_json(A, **fields)))
    (node,) = client_of(channel, failure_domain=rule).list_nodes()
    assert node.domain == domain
    assert node.extra is None


@pytest.mark.parametrize(
    ("rule", "more"),
    [(None, ()), (CAPABILITY, ()), (ENTRY, ("extra",)), (CHASSIS, (CHASSIS,))],
)
def test_lists_ask_for_what_it_needs(rule: str | None, more: tuple[str, ...]) -> None:
    named = dict.fromkeys(more)
    channel = ScriptedChannel(page(node_json(A, **named)), page(node_json(A, **named)))
    client = client_of(channel, failure_domain=rule)
    client.list_nodes()
    client.lists.last_updated(NodeFilter(), 1)
    fields = ",".join((*LIST_FIELDS, *more))
    assert [request.params["fields"] for request in channel.requests] == [fields] * 2


def test_a_node_that_was_listed_in_detail_has_the_same() -> None:
    channel = ScriptedChannel(page(node_json(A, extra={"rack": "r1"}, instance_info={})))
    listed = client_of(channel, failure_domain=ENTRY).lists.last_updated_in_detail(NodeFilter(), 1)
    assert [(node.domain, node.extra) for node in listed.nodes] == [("r1", None)]
