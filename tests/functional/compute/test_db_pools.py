# SPDX-License-Identifier: Apache-2.0

"""Pools in the records: places by count, and never more than there are."""

from collections import Counter
from pathlib import Path

import pytest
from oslo_config import cfg

from ironic_virt import virt
from ironic_virt.compute import errors
from ironic_virt.compute.db import Database, compute_nodes, records
from ironic_virt.compute.states import TaskState, VmState
from tests.functional.compute.races import race
from tests.functional.compute.stage import (
    Clock,
    create_building,
    deleted,
    failed,
    free_node,
    new_instance,
    offer,
    offered,
    register,
    release,
)

PROCESSES = 4
HOST = "one"
POOL = "gold~one"
FAULT = records.Fault("disk broken")
NODE = "6d2b4f02-0000-4000-8000-00000000beef"


def report(name: str = POOL, **values: object) -> records.NodePool:
    return records.NodePool(
        **{  # type: ignore[arg-type]
            "name": name,
            "host": name.partition("~")[2],
            "resource_class": name.partition("~")[0],
            "total": 3,
            "traits": frozenset({"CUSTOM_A"}),
            "stats": {"boot_mode": "uefi"},
            "vcpus": 8,
            "memory_mb": 16384,
            "local_gb": 100,
            "cpu_arch": "x86_64",
            **values,
        }
    )


@pytest.fixture
def pool(db: Database) -> records.NodePool:
    """A pool of three nodes."""
    register(db, HOST)
    offer(db, HOST, report())
    return seen(db)


def seen(db: Database, name: str = POOL) -> records.NodePool:
    return next(pool for pool in db.pools.list() if pool.name == name)


def counts(db: Database, name: str = POOL) -> tuple[int, int, int]:
    pool = seen(db, name)
    return pool.total, pool.used, pool.reserved


def test_what_is_reported_is_kept(pool: records.NodePool, db: Database) -> None:
    assert pool == report()
    assert (pool.total, pool.used, pool.reserved, pool.free) == (3, 0, 0, 3)
    offer(db, HOST, report(total=5, reserved=1))
    assert counts(db) == (5, 0, 1)


def test_of_several_at_once_all_get_a_place_or_none(pool: records.NodePool, db: Database) -> None:
    wanted = [(new_instance(), pool) for _ in range(4)]
    with pytest.raises(errors.ClaimLost):
        db.instances.create_several(wanted)
    assert counts(db) == (3, 0, 0)
    made = db.instances.create_several(wanted[:3])
    assert [one.uuid for one in made] == [new.uuid for new, _ in wanted[:3]]
    assert counts(db) == (3, 3, 0)


def test_a_place_is_taken_and_given_back_once(pool: records.NodePool, db: Database) -> None:
    new = new_instance()
    made = create_building(db, new, pool)
    assert (made.host, made.node, made.pool) == (HOST, None, POOL)
    assert counts(db) == (3, 1, 0)
    assert db.instances.places(HOST) == {made.uuid: POOL}
    for _ in range(2):
        release(db, made.uuid)
        assert counts(db) == (3, 0, 0)
    failing = create_building(db, new_instance(), pool)
    assert failed(db, failing.uuid, TaskState.SPAWNING, FAULT, released=True)
    broken = db.instances.get(failing.uuid)
    assert (broken.vm_state, broken.host, broken.pool) == (VmState.ERROR, None, None)
    assert counts(db) == (3, 0, 0)


def test_a_full_pool_gives_none(pool: records.NodePool, db: Database) -> None:
    offer(db, HOST, report(reserved=2))
    create_building(db, new_instance(), pool)
    with pytest.raises(errors.ClaimLost):
        create_building(db, new_instance(), pool)
    assert counts(db) == (3, 1, 2)
    assert len(db.instances.list()) == 1


def test_another_attempt_may_be_in_the_same_pool(pool: records.NodePool, db: Database) -> None:
    made = create_building(db, new_instance(), pool)
    assert db.instances.placed(made, NODE)
    process, made = db.services.get(HOST).incarnation, db.instances.get(made.uuid)
    assert db.instances.reschedule(made, pool, FAULT, process)
    assert not db.instances.reschedule(made, pool, FAULT, process), "its answer was lost"
    moved = db.instances.get(made.uuid)
    assert (moved.pool, moved.node, moved.attempts) == (POOL, None, 2)
    assert moved.tried_nodes == (NODE,)
    assert counts(db) == (3, 1, 0)
    register(db, "two")
    offer(db, "two", report("gold~two", total=1))
    assert db.instances.reschedule(moved, seen(db, "gold~two"), FAULT, tried=POOL)
    moved = db.instances.get(made.uuid)
    assert (moved.host, moved.pool, moved.tried_nodes) == ("two", "gold~two", (NODE, POOL))
    assert counts(db) == (3, 0, 0)
    assert counts(db, "gold~two") == (1, 1, 0)


def test_a_node_is_one_instances_only(pool, db, monkeypatch) -> None:
    first, second = (create_building(db, new_instance(), pool) for _ in range(2))
    assert db.instances.placed(first, NODE)
    with pytest.raises(errors.ClaimLost):
        db.instances.placed(second, NODE)
    assert db.instances.get(second.uuid).node is None
    node = free_node(db, HOST, uuid=NODE)
    with pytest.raises(errors.ComputeNodeInUse, match=first.uuid):
        db.instances.adopt(new_instance(), NODE, VmState.ACTIVE, virt.PowerState.RUNNING)
    db.instances.request(first.uuid, TaskState.DELETING)
    assert not db.instances.placed(first, NODE)
    deleted(db, first.uuid)
    assert db.instances.placed(second, NODE)
    # A claim came before that, and its instance is written after it.
    monkeypatch.setattr(compute_nodes, "claim_all", lambda *_what: monkeypatch.undo())
    with pytest.raises(errors.ClaimLost):
        create_building(db, new_instance(), node)


def test_from_a_pool_to_a_node_and_back(pool: records.NodePool, db: Database) -> None:
    node = free_node(db, HOST)
    made = create_building(db, new_instance(), node)
    assert db.instances.reschedule(made, pool, FAULT)
    assert db.compute_nodes.get(node.uuid).instance_uuid is None
    assert counts(db) == (3, 1, 0)
    other = free_node(db, HOST)
    moved = db.instances.get(made.uuid)
    assert db.instances.reschedule(moved, other, FAULT)
    assert (db.instances.get(made.uuid).pool, counts(db)) == (None, (3, 0, 0))
    assert db.compute_nodes.get(other.uuid).instance_uuid == made.uuid


def test_what_has_changed_since_the_count_is_made_up_for(
    pool: records.NodePool, db: Database
) -> None:
    first, second = (create_building(db, new_instance(), pool) for _ in range(2))
    counted = report(used=2)
    db.instances.request(first.uuid, TaskState.DELETING)
    deleted(db, first.uuid)
    offer(db, HOST, counted)
    assert counts(db) == (3, 1, 1), "its node is being cleaned"
    create_building(db, new_instance(), pool)
    offer(db, HOST, counted)
    assert counts(db) == (3, 2, 0)
    assert second.pool == POOL


def test_pools_go_with_their_service(pool: records.NodePool, db: Database, clock: Clock) -> None:
    made = create_building(db, new_instance(), pool)
    clock.advance(3600)
    with pytest.raises(errors.ServiceInUse, match="1 instances"):
        db.services.delete(HOST)
    assert counts(db) == (3, 1, 0)
    db.instances.request(made.uuid, TaskState.DELETING)
    deleted(db, made.uuid)
    db.services.delete(HOST)
    assert db.pools.list() == []
    register(db, HOST)
    assert db.pools.list() == []


def test_withdrawn_pools_give_no_place_until_the_next_report(
    pool: records.NodePool, db: Database
) -> None:
    made = create_building(db, new_instance(), pool)
    db.pools.withdraw(HOST)
    assert counts(db) == (3, 1, 2)
    with pytest.raises(errors.ClaimLost):
        create_building(db, new_instance(), pool)
    release(db, made.uuid)
    assert counts(db) == (3, 0, 3)
    offer(db, HOST, report())
    assert counts(db) == (3, 0, 0)
    db.pools.save(HOST, None)
    db.pools.withdraw(HOST)
    assert db.pools.list() == []


def test_pools_are_candidates_as_long_as_they_have_places(db: Database) -> None:
    for host in ("one", "two", "three"):
        register(db, host)
    offer(db, "one", report(), report("silver~one", traits=frozenset()))
    offer(db, "two", report("gold~two", total=2), report("full~two", reserved=3))
    offer(db, "three", report("gold~three"))
    db.services.update("three", disabled=True)
    free = {POOL: 3, "gold~two": 2, "silver~one": 3}
    assert Counter(offered(db)) == free
    assert db.candidates.others(()) == (3 + 3 + 2 + 3 + 3, 0)
    for _ in range(2):
        create_building(db, new_instance(), seen(db, POOL))
    assert Counter(offered(db)) == free | {POOL: 1}
    assert db.candidates.offer().counts == {"one": 2}


def test_processes_that_race_for_places_never_take_too_many(
    db: Database, database_conf: cfg.ConfigOpts, tmp_path: Path
) -> None:
    for host, total in (("one", 7), ("two", 5)):
        register(db, host)
        offer(db, host, report(f"gold~{host}", total=total))
    (config,) = database_conf.config_file
    arguments = [(config, str(seed), "40") for seed in range(PROCESSES)]
    with race(tmp_path, "tests.functional.compute.racing_places", *arguments) as racers:
        lines = [line for each in racers for line in each.to_the_end()]
    assert [line for line in lines if line.startswith("most")] == []
    assert any(line.startswith("lost") and line != "lost 0" for line in lines), "they never met"
    held = Counter(one.pool for one in db.instances.list())
    assert held["gold~one"] <= 7
    assert held["gold~two"] <= 5
