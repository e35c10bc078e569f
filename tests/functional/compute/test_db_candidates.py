# SPDX-License-Identifier: Apache-2.0

"""Free nodes: the right ones, each once, from a random one on."""

import dataclasses
import random
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from oslo_config import cfg

from ironic_virt.compute.db import Database, candidates, records
from ironic_virt.exceptions import NoValidHost
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.filter_scheduler import FilterScheduler
from tests.functional.compute.stage import (
    Clock,
    claim,
    create_building,
    free_node,
    new_instance,
    new_uuid,
    offered,
    register,
    report,
    statements,
)

GOLD = {"CUSTOM_GOLD": 1}


@pytest.fixture
def nodes(db: Database) -> Sequence[records.ComputeNode]:
    """Nodes, free and not, of services that are up and not."""
    for host in ("one", "two", "disabled", "forced"):
        register(db, host)
    db.services.update("disabled", disabled=True)
    db.services.update("forced", forced_down=True)
    rng = random.Random(4)
    reports = [
        report(
            resource_class=rng.choice(("gold", "iron", None)),
            available=rng.random() > 0.1,
            in_use=rng.random() < 0.1,
            cleaning=rng.random() < 0.2,
        )
        for _ in range(120)
    ]
    for number, host in enumerate(("one", "two", "disabled", "forced")):
        db.compute_nodes.save(host, reports[number::4])
    for node in reports[::9]:
        claim(db, node.uuid, db.compute_nodes.get(node.uuid).host, new_uuid())
    return db.compute_nodes.list()


@pytest.fixture
def picker(database_conf: cfg.ConfigOpts) -> FilterScheduler:
    return FilterScheduler.from_conf(database_conf, random.Random(1))


def test_each_node_that_is_free_comes_once_and_no_other(db, nodes) -> None:
    up = [node for node in nodes if node.host in {"one", "two"} and node.instance_uuid is None]
    for classes in ((), ("CUSTOM_GOLD",), ("CUSTOM_GOLD", "CUSTOM_IRON"), ("CUSTOM_TIN",)):
        of_class = [
            node
            for node in up
            if not classes or f"CUSTOM_{node.resource_class}".upper() in classes
        ]
        free = sorted(node.uuid for node in of_class if node.available)
        for start in ("", new_uuid()):
            assert offered(db, *classes, start=start) == free
        dirty = sum(node.cleaning for node in of_class)
        assert db.candidates.others(classes) == (len(nodes), dirty)
        for node in free[:1]:
            assert offered(db, *classes, node=node) == [node]
    rest = db.candidates.offer(limit=3)
    assert (len(rest.records), rest.is_whole) == (3, False)


def test_a_part_of_the_nodes_goes_once_around_from_a_random_one(db: Database) -> None:
    register(db, "one")
    uuids = [str(uuid.UUID(int=number)) for number in range(10)]
    db.compute_nodes.save("one", [report(uuid=one) for one in uuids])
    offer = db.candidates.offer(uuids[7], 5)
    assert [one.uuid for one in offer.records] == [*uuids[7:], *uuids[:2]]


def test_a_service_that_falls_silent_offers_nothing(db: Database, clock: Clock) -> None:
    register(db, "one")
    for _ in range(2):
        create_building(db, new_instance(), free_node(db, "one"))
    free = free_node(db, "one").uuid
    assert offered(db) == [free]
    clock.advance(61)
    assert offered(db) == []
    assert db.candidates.offer().counts == {"one": 2}
    assert db.candidates.others(()) == (3, 0)


def test_a_few_nodes_are_compared_and_all_before_a_refusal(db, picker, monkeypatch) -> None:
    monkeypatch.setattr(candidates, "SAMPLE", 7)
    register(db, "one")
    db.compute_nodes.save("one", [report() for _ in range(100)])
    plain = RequestSpec(resources=GOLD)
    with statements(db) as sent:
        assert len(db.candidates.choose(picker, plain)) == 1
    assert len(sent) < 8
    traits = frozenset({"CUSTOM_GPU"})
    for resource_class in ("gold", "iron"):
        gpu = free_node(db, "one", traits=traits, resource_class=resource_class).uuid
        spec = RequestSpec(
            resources={f"CUSTOM_{resource_class.upper()}": 1}, required_traits=traits
        )
        assert [one.uuid for one in db.candidates.choose(picker, spec)] == [gpu]
        with pytest.raises(NoValidHost) as refusal:
            db.candidates.choose(picker, spec, 2)
        assert "102 nodes free" in str(refusal.value) or resource_class == "gold"
    with pytest.raises(NoValidHost, match=r"102 of 102 nodes free; ResourceClass.* left 0"):
        db.candidates.choose(picker, RequestSpec(resources={"CUSTOM_TIN": 1}))
    assert len(db.candidates.choose(picker, plain, 60)) == 60


def test_what_keeps_the_others_is_said(db: Database, picker: FilterScheduler) -> None:
    for host in ("one", "two", "three"):
        register(db, host)
    cleaned = free_node(db, "one", available=False, cleaning=True).uuid
    free_node(db, "two")
    db.services.update("two", disabled=True)
    db.services.update("three", forced_down=True)
    why = (
        "none of 2 nodes is free; compute service three is down; compute service two is disabled; "
        "1 node is being cleaned"
    )
    with pytest.raises(NoValidHost, match=why) as caught:
        db.candidates.choose(picker, RequestSpec(resources=GOLD))
    assert caught.value.cleaning == 1
    with pytest.raises(NoValidHost, match=r"none of 1 node is free; .*1 node is being cleaned"):
        db.candidates.choose(picker, RequestSpec(), node=cleaned)


def test_two_who_search_at_once_find_different_nodes(db, database_conf) -> None:
    register(db, "one")
    db.compute_nodes.save("one", [report() for _ in range(200)])
    spec = dataclasses.replace(RequestSpec(), resources=GOLD)

    def first(seed: int) -> Any:
        scheduler = FilterScheduler.from_conf(database_conf, random.Random(seed))
        return db.candidates.choose(scheduler, spec)[0].uuid

    assert len({first(seed) for seed in range(20)}) > 10
