# SPDX-License-Identifier: Apache-2.0

"""Free nodes: the right ones, each once, and spread over services."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from oslo_config import cfg

from ironic_virt.compute.db import Database, candidates, records
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.candidates import CandidateQuery, RecordList, Span
from ironic_virt.scheduler.filter_scheduler import FilterScheduler
from tests.functional.compute.stage import (
    Clock,
    claim,
    count,
    find,
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
        claim(db, node.uuid, db.compute_nodes.get(node.uuid).host, new_uuid())
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
        assert count(db, query) == len(expected), name
        for size in (1, 5, 1000):
            batches = list(db.candidates.batches(query, size, random.Random(2)))
            found = [node for batch in batches for node in batch]
            assert sorted(node.uuid for node in found) == expected, name
            assert all(0 < len(batch) <= size for batch in batches), name


def test_small_nodes_come_first(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    register(db, "one")
    db.compute_nodes.save("one", [report(memory_mb=1000 + number) for number in range(100)])
    first = next(db.candidates.batches(CandidateQuery(), 50, random.Random(1)))
    sizes = [node.memory_mb for node in first]
    assert sizes == sorted(sizes)
    # Page by page, around from where chance begins: all come, whatever a page holds.
    monkeypatch.setattr(candidates, "SIZE", 7)
    every = [
        node.memory_mb
        for batch in db.candidates.batches(CandidateQuery(), 5, random.Random(1))
        for node in batch
    ]
    assert sorted(every) == list(range(1000, 1100))


def test_what_was_tried_is_left_out(db: Database, nodes: Sequence[records.ComputeNode]) -> None:
    every = find(db, CandidateQuery(), 1000)
    tried = frozenset(node.uuid for node in every[::2])
    rest = find(db, CandidateQuery(exclude=tried), 1000)
    assert {node.uuid for node in rest} == {node.uuid for node in every} - tried
    assert count(db, CandidateQuery(exclude=tried)) == len(rest)


def test_two_who_search_at_once_begin_at_different_nodes(db: Database) -> None:
    register(db, "one")
    db.compute_nodes.save("one", [report() for _ in range(200)])
    firsts = {
        find(db, exactly(8, 16384, 100), 1, random.Random(seed))[0].uuid for seed in range(20)
    }
    assert len(firsts) > 10


def test_a_service_that_falls_silent_offers_nothing(db: Database, clock: Clock) -> None:
    register(db, "one")
    free_node(db, "one")
    assert count(db, CandidateQuery()) == 1
    clock.advance(61)
    assert find(db, CandidateQuery(), 1) == []
    assert count(db, CandidateQuery()) == 0
    assert db.candidates.known() == 1


def test_instances_are_counted_by_host(db: Database) -> None:
    register(db, "one")
    for _ in range(2):
        db.instances.create_building(new_instance(), free_node(db, "one"))
    assert db.candidates.instances_by_host() == {"one": 2}


def test_services_take_turns_however_many_nodes_each_has(
    db: Database, database_conf: cfg.ConfigOpts
) -> None:
    for host, number in (("large", 300), ("small", 40), ("little", 40)):
        register(db, host)
        db.compute_nodes.save(
            host,
            # Classes that are as large come together.
            [report(resource_class=("gold", "iron")[n % 2]) for n in range(number)],
        )
    for seed in range(5):
        batch = next(db.candidates.batches(CandidateQuery(), 60, random.Random(seed)))
        assert Counter(node.host for node in batch) == {"large": 20, "small": 20, "little": 20}
    picker = FilterScheduler.from_conf(database_conf, random.Random(1))
    picked = picker.select(RequestSpec(memory_mb=16384), db.candidates, 105)
    assert Counter(host.host for host in picked) == {"large": 35, "small": 35, "little": 35}
