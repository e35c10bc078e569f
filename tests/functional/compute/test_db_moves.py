# SPDX-License-Identifier: Apache-2.0

"""Moves between services: each guard, and one owner at any moment."""

import pytest

from ironic_virt.compute.db import Database, records
from ironic_virt.compute.db.moves import MoveOutcome
from tests.functional.compute.stage import (
    Clock,
    claim,
    create_building,
    free_node,
    new_instance,
    new_uuid,
    register,
)


@pytest.fixture
def node(db: Database, clock: Clock) -> records.ComputeNode:
    """A node with an instance, of a service that is forced down; the other is up."""
    register(db, "one")
    node = free_node(db, "one")
    create_building(db, new_instance(), node)
    db.services.update("one", forced_down=True)
    clock.advance(3600)
    register(db, "two")
    return node


def refused(db: Database, node: str) -> str:
    """The guard that keeps the node where it is; the dry run says the same."""
    before = (db.compute_nodes.list(), db.instances.list(), db.services.list())
    (wet,) = db.moves.move([node], "two")
    (dry,) = db.moves.move([node], "two", dry_run=True)
    assert dry == wet
    assert (wet.outcome, wet.source, wet.reason is not None) == (MoveOutcome.REFUSED, "one", True)
    assert (db.compute_nodes.list(), db.instances.list(), db.services.list()) == before
    return str(wet.guard)


def test_a_node_moves_with_its_instance_and_its_claim(
    db: Database, node: records.ComputeNode
) -> None:
    (instance,) = db.instances.list()
    (dry,) = db.moves.move([node.uuid], "two", dry_run=True)
    assert db.compute_nodes.get(node.uuid).host == "one"
    (done,) = db.moves.move([node.uuid], "two")
    assert (dry.outcome, done.outcome) == (MoveOutcome.WOULD_MOVE, MoveOutcome.MOVED)
    assert (done.instance, done.source) == (instance.uuid, "one")
    assert db.moves.move([node.uuid], "two")[0].outcome is MoveOutcome.ALREADY_THERE
    moved = db.compute_nodes.get(node.uuid)
    assert (moved.host, moved.instance_uuid) == ("two", instance.uuid)
    assert [each.uuid for each in db.instances.pending_tasks("two")] == [instance.uuid]
    assert db.instances.pending_tasks("one") == []


def test_a_source_that_still_reports_keeps_its_nodes(
    db: Database, node: records.ComputeNode
) -> None:
    register(db, "one")
    assert refused(db, node.uuid) == "source"
    (forced,) = db.moves.move([node.uuid], "two", force=True)
    assert forced.outcome is MoveOutcome.MOVED
    assert db.compute_nodes.get(node.uuid).host == "two"


def test_many_nodes_move_at_once(db: Database, node: records.ComputeNode) -> None:
    nodes = [free_node(db, "one") for _ in range(6)]
    for one in nodes[::2]:
        create_building(db, new_instance(), one)
    done = db.moves.move(db.moves.nodes_of("one"), "two")
    assert [one.node for one in done] == sorted([node.uuid, *(one.uuid for one in nodes)])
    assert {one.host for one in [*db.compute_nodes.list(), *db.instances.list()]} == {"two"}
    assert db.moves.nodes_of("one") == []


def test_a_node_without_a_record_is_told(db: Database) -> None:
    (unknown,) = db.moves.move([new_uuid()], "two")
    assert (unknown.outcome, unknown.source) == (MoveOutcome.NO_RECORD, None)


def test_a_claim_without_an_instance_is_not_taken(db: Database, node: records.ComputeNode) -> None:
    free = free_node(db, "one")
    claim(db, free.uuid, "one", new_uuid())
    assert refused(db, free.uuid) == "server"
