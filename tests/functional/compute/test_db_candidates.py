# SPDX-License-Identifier: Apache-2.0

"""Free nodes by index: the right ones, each once, spread, and never by a full scan."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_virt.compute.db import Database, records
from ironic_virt.compute.db.candidates import BY_CLASS_AND_SIZE, BY_SIZE
from ironic_virt.scheduler.candidates import CandidateQuery, RecordList, Span
from tests.functional.compute.stage import (
    Clock,
    free_node,
    new_instance,
    new_uuid,
    register,
    report,
)

GOLD = frozenset({"CUSTOM_GOLD"})


def exactly(vcpus: int, memory_mb: int, local_gb: int, **values: Any) -> CandidateQuery:
    return CandidateQuery(
        vcpus=Span(vcpus, vcpus),
        memory_mb=Span(memory_mb, memory_mb),
        local_gb=Span(local_gb, local_gb),
        **values,
    )


QUERIES = {
    "any": CandidateQuery(),
    "class": CandidateQuery(GOLD),
    "classes": CandidateQuery(frozenset({"CUSTOM_GOLD", "CUSTOM_IRON", "CUSTOM_NONE"})),
    "unclassed": CandidateQuery(frozenset({""})),
    "exact": exactly(8, 16384, 100),
    "exact-and-class": exactly(8, 16384, 100, resource_classes=GOLD),
    "least": CandidateQuery(vcpus=Span(8), memory_mb=Span(16384), local_gb=Span(150)),
    "least-and-class": CandidateQuery(GOLD, vcpus=Span(5), local_gb=Span(100)),
    "between": CandidateQuery(memory_mb=Span(8192, 16384), vcpus=Span(0, 8)),
    "impossible": CandidateQuery(vcpus=Span(8, 7)),
    "too-large": CandidateQuery(vcpus=Span(10_000)),
    "traits": CandidateQuery(required_traits=frozenset({"CUSTOM_A", "CUSTOM_B"})),
    "no-trait": CandidateQuery(GOLD, forbidden_traits=frozenset({"CUSTOM_A"})),
    # An underscore is any letter to LIKE.
    "letters": CandidateQuery(required_traits=frozenset({"CUSTOM_A_C"})),
}


@pytest.fixture
def nodes(db: Database) -> Sequence[records.ComputeNode]:
    """Nodes of many shapes, free and not, of services that are up and not."""
    for host in ("one", "two", "disabled", "forced"):
        register(db, host)
    db.services.update("disabled", disabled=True)
    db.services.update("forced", forced_down=True)
    rng = random.Random(4)
    traits = ("CUSTOM_A", "CUSTOM_B", "CUSTOM_A_C", "CUSTOM_ABC")
    reports = [
        report(
            vcpus=rng.choice((4, 8, 16)),
            memory_mb=rng.choice((8192, 16384, 32768)),
            local_gb=rng.choice((100, 200)),
            resource_class=rng.choice(("gold", "iron", None)),
            traits=frozenset(rng.sample(traits, rng.randrange(4))),
            available=rng.random() > 0.1,
            in_use=rng.random() < 0.1,
        )
        for _ in range(120)
    ]
    for number, host in enumerate(("one", "two", "disabled", "forced")):
        db.compute_nodes.save(host, reports[number::4])
    for node in reports[::9]:
        db.claims.claim(node.uuid, db.compute_nodes.get(node.uuid).host, new_uuid())
    return db.compute_nodes.list()


def test_each_node_that_fits_comes_once_and_no_other(
    db: Database, nodes: Sequence[records.ComputeNode]
) -> None:
    fitting = RecordList(nodes, usable_hosts={"one", "two"})
    for name, query in QUERIES.items():
        expected = sorted(
            node.uuid
            for batch in fitting.batches(query, 1000, random.Random())
            for node in batch
            if query.matches_traits(node.traits)
        )
        assert db.candidates.count(query) == len(expected), name
        for size in (1, 5, 1000):
            batches = list(db.candidates.batches(query, size, random.Random(2)))
            found = [node for batch in batches for node in batch]
            assert sorted(node.uuid for node in found) == expected, name
            assert all(0 < len(batch) <= size for batch in batches), name
            if len(query.resource_classes or "x") == 1:
                shapes = [(node.memory_mb, node.vcpus, node.local_gb) for node in found]
                assert shapes == sorted(shapes), name


def test_what_was_tried_is_left_out(db: Database, nodes: Sequence[records.ComputeNode]) -> None:
    every = db.candidates.find(CandidateQuery(), 1000)
    tried = frozenset(node.uuid for node in every[::2])
    rest = db.candidates.find(CandidateQuery(exclude=tried), 1000)
    assert {node.uuid for node in rest} == {node.uuid for node in every} - tried
    assert db.candidates.count(CandidateQuery(exclude=tried)) == len(rest)


def test_two_who_search_at_once_begin_at_different_nodes(db: Database) -> None:
    register(db, "one")
    db.compute_nodes.save("one", [report() for _ in range(200)])
    firsts = {
        db.candidates.find(exactly(8, 16384, 100), 1, random.Random(seed))[0].uuid
        for seed in range(20)
    }
    assert len(firsts) > 10


def test_a_service_that_falls_silent_offers_nothing(db: Database, clock: Clock) -> None:
    register(db, "one")
    free_node(db, "one")
    assert db.candidates.count(CandidateQuery()) == 1
    clock.advance(61)
    assert db.candidates.find(CandidateQuery(), 1) == []
    assert db.candidates.count(CandidateQuery()) == 0
    assert db.candidates.known() == 1


def test_a_search_of_rare_shapes_stays_lazy(db: Database) -> None:
    register(db, "one")
    db.compute_nodes.save("one", [report(memory_mb=1000 + number) for number in range(100)])
    first = next(db.candidates.batches(CandidateQuery(), 50, random.Random(1)))
    assert [node.memory_mb for node in first] == list(range(1000, 1008))


def test_instances_are_counted_by_host(db: Database) -> None:
    register(db, "one")
    for _ in range(2):
        db.instances.create_building(new_instance(), free_node(db, "one"))
    assert db.candidates.instances_by_host() == {"one": 2}


@pytest.mark.parametrize("name", ["exact", "exact-and-class", "least", "least-and-class", "any"])
def test_sqlite_finds_them_by_the_index_made_for_it(db: Database, name: str) -> None:
    engine = db._transactions.engine
    if engine.dialect.name != "sqlite":
        pytest.skip("reads the plan as SQLite tells it")
    register(db, "one")
    db.compute_nodes.save("one", [report(memory_mb=size) for size in (8192, 16384, 32768) * 4])
    searched: list[tuple[str, Any]] = []

    def note(_c: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if "FROM compute_nodes" in statement:
            searched.append((statement, parameters))

    sa.event.listen(engine, "before_cursor_execute", note)
    list(db.candidates.batches(QUERIES[name], 4, random.Random(1)))
    sa.event.remove(engine, "before_cursor_execute", note)
    assert searched
    index = BY_CLASS_AND_SIZE if "class" in name else BY_SIZE
    with engine.connect() as connection:
        for statement, parameters in searched:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            told = [row[3] for row in plan.all()]
            assert len(told) == 1, told
            assert f"INDEX {index} " in told[0]
            assert told[0].startswith("SEARCH")
            if "uuid >" in statement or "uuid <" in statement:
                assert "memory_mb=? AND vcpus=? AND local_gb=? AND uuid" in told[0]
