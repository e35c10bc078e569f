# SPDX-License-Identifier: Apache-2.0

"""Differences between two drivers, and what explains them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ironic_virt.fleet import shadow
from ironic_virt.fleet.shadow import Known, Offered, Side
from tests.unit import test_shown_by
from tests.unit.fleet.deployments import node, node_uuid, server_uuid, with_server

NODE, SERVER = node_uuid(1), server_uuid(1)
OFFERED = Offered(
    {"CUSTOM_GOLD": {"total": 1, "reserved": 0, "min_unit": 1}},
    frozenset({"CUSTOM_SSD"}),
    {"uuid": NODE, "vcpus": 0, "stats": {"cpu_arch": "x86_64"}, "supported_instances": [("a",)]},
)
SIDE = Side({NODE: OFFERED}, frozenset({SERVER}), {SERVER: 1})
KNOWN = Known("compute-a", {NODE: node(1)}, {NODE: "compute-a"}, frozenset({SERVER}), True)


def offering(**fields: Any) -> Side:
    return dataclasses.replace(SIDE, nodes={NODE: dataclasses.replace(OFFERED, **fields)})


def resource(**fields: Any) -> Side:
    return offering(resource={**OFFERED.resource, **fields})


def test_what_is_alike_does_not_differ() -> None:
    traits = frozenset({"CUSTOM_SSD", "COMPUTE_NODE"})
    ours = offering(traits=traits, resource={**OFFERED.resource, "supported_instances": (["a"],)})
    assert shadow.compare(SIDE, ours, KNOWN) == []


@pytest.mark.parametrize(
    ("theirs", "ours", "what"),
    [
        (SIDE, dataclasses.replace(SIDE, nodes={}), "node"),
        (SIDE, dataclasses.replace(SIDE, servers=frozenset()), "server"),
        (SIDE, dataclasses.replace(SIDE, power={SERVER: 4}), "power state"),
        (SIDE, dataclasses.replace(SIDE, error="Oops"), "start"),
        (SIDE, offering(inventory={}), "inventory"),
        (SIDE, offering(traits=frozenset()), "traits"),
        (SIDE, offering(error="NodeNotFound"), "error"),
        (SIDE, resource(vcpus=8), "vcpus"),
        (SIDE, resource(stats={"cpu_arch": "arm"}), "stats"),
        (
            SIDE,
            offering(inventory={"CUSTOM_GOLD": {"total": 1, "reserved": 1, "min_unit": 1}}),
            "reserved",
        ),
    ],
)
def test_a_difference_that_the_documentation_lacks_is_not_explained(
    theirs: Side, ours: Side, what: str
) -> None:
    for pair in ((theirs, ours), (ours, theirs)):
        (found,) = shadow.compare(*pair, KNOWN)
        assert (found.what, found.row) == (what, None)


def known(**fields: Any) -> Known:
    return dataclasses.replace(KNOWN, **fields)


NOTHING = dataclasses.replace(SIDE, nodes={})


@pytest.mark.parametrize(
    ("theirs", "ours", "by", "row"),
    [
        (
            NOTHING,
            SIDE,
            known(nodes={NODE: with_server(node(1), server_uuid(9))}),
            shadow.ANOTHERS_INSTANCE,
        ),
        (NOTHING, SIDE, known(has_shard=False), shadow.SEVERAL_SERVICES),
        (
            SIDE,
            NOTHING,
            known(has_shard=False, owners={NODE: "compute-b"}),
            shadow.SEVERAL_SERVICES,
        ),
        (SIDE, NOTHING, known(has_shard=False), None),
        (NOTHING, SIDE, known(has_shard=False, owners={NODE: "compute-b"}), None),
        (
            SIDE,
            resource(stats={"cpu_arch": "x86_64", "ironic_virt.vcpus": "8"}),
            KNOWN,
            shadow.SIZES,
        ),
        (
            SIDE,
            offering(inventory={"CUSTOM_GOLD": {"total": 1, "reserved": 1, "min_unit": 1}}),
            known(nodes={NODE: node(1, malformed=("maintenance",))}),
            shadow.UNREADABLE,
        ),
        (
            Side(error="Invalid configuration: peer_list"),
            SIDE,
            KNOWN,
            shadow.NO_PEER_LIST,
        ),
        (SIDE, Side(error="needs API version 1.82"), KNOWN, shadow.NO_SHARDS),
    ],
)
def test_what_explains_a_difference(theirs: Side, ours: Side, by: Known, row: str | None) -> None:
    (found,) = shadow.compare(theirs, ours, by)
    assert found.row == row


def test_each_explanation_is_a_row_of_the_documentation() -> None:
    titles = {row[0] for row in test_shown_by.DIFFERENCES}
    assert {row for row, _ in shadow.EXPLANATIONS} <= titles
