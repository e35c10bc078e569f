# SPDX-License-Identifier: Apache-2.0

"""Claims: no node twice and no instance with two nodes, in any race and after any crash."""

import functools
from pathlib import Path

import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import Database, tables
from ironic_virt.compute.states import TaskState, VmState
from tests.functional.compute.races import race
from tests.functional.compute.stage import (
    claim,
    create_building,
    free_node,
    new_instance,
    new_uuid,
    register,
    release,
    report,
)

PROCESSES = 4
NODES = 60
RACING = "tests.functional.compute.racing"


def test_a_claim_is_a_compare_and_swap(db: Database) -> None:
    register(db, "one")
    node, other = free_node(db, "one"), free_node(db, "one")
    first, second = new_uuid(), new_uuid()
    assert claim(db, node.uuid, "one", first)
    assert claim(db, node.uuid, "one", first)
    assert not claim(db, node.uuid, "one", second)
    assert not claim(db, other.uuid, "one", first), "it gets one node"
    assert db.compute_nodes.get(node.uuid).instance_uuid == first
    assert db.compute_nodes.get(other.uuid).instance_uuid is None
    for _ in range(2):
        release(db, first)
        released = db.compute_nodes.get(node.uuid)
        assert (released.instance_uuid, released.cleaning) == (None, True)
    assert not claim(db, node.uuid, "one", second), "free before its refresh"


def test_what_is_not_free_or_not_there_is_not_claimed(db: Database) -> None:
    register(db, "one")
    node = free_node(db, "one")
    assert not claim(db, node.uuid, "two", new_uuid())
    assert not claim(db, new_uuid(), "one", new_uuid())
    assert not claim(db, free_node(db, "one", available=False).uuid, "one", new_uuid())
    assert not claim(db, free_node(db, "one", in_use=True).uuid, "one", new_uuid())


def test_a_claim_and_its_end_touch_no_other_node(db: Database) -> None:
    register(db, "one")
    node, other = free_node(db, "one"), free_node(db, "one")
    instance = new_uuid()
    for act in (lambda: claim(db, node.uuid, "one", instance), lambda: release(db, instance)):
        before = db.compute_nodes.get(node.uuid)
        act()
        assert db.compute_nodes.get(node.uuid) != before
        assert db.compute_nodes.get(other.uuid) == other


def test_a_node_claimed_before_ironic_picked_one_is_given_back(db: Database) -> None:
    register(db, "one")
    before, picked = free_node(db, "one"), free_node(db, "one")
    made = create_building(db, new_instance(), before)
    assert db.instances.placed(made, before.uuid)
    assert db.compute_nodes.get(before.uuid).instance_uuid == made.uuid
    assert db.instances.placed(made, picked.uuid)
    assert db.instances.get(made.uuid).node == picked.uuid
    assert db.compute_nodes.get(before.uuid).instance_uuid is None


def test_unique_keys_hold_what_a_mistake_in_the_code_would_break(db: Database) -> None:
    register(db, "one")
    first, second = free_node(db, "one"), free_node(db, "one")
    made = create_building(db, new_instance(), first)
    other = create_building(db, new_instance(), second)
    instance, node = tables.instances, tables.compute_nodes
    for statement in (
        sa.update(instance).where(instance.c.uuid == other.uuid).values(node=first.uuid),
        sa.update(node).where(node.c.uuid == second.uuid).values(instance_uuid=made.uuid),
    ):
        with pytest.raises(db_exception.DBDuplicateEntry):
            db.write(functools.partial(sa.Connection.execute, statement=statement))


@pytest.fixture
def config(database_conf: cfg.ConfigOpts) -> Path:
    """The file that other processes read."""
    return Path(database_conf.config_file[0])


def nodes_of_instances(db: Database) -> dict[str, str]:
    """What the instances' records say, after seeing that the claims say the same."""
    claims = {
        node.instance_uuid: node.uuid
        for node in db.compute_nodes.list()
        if node.instance_uuid is not None
    }
    instances = db.instances.list()
    assert {each.uuid: each.node for each in instances} == claims
    assert len(set(claims.values())) == len(claims)
    for each in instances:
        assert (each.vm_state, each.task_state) == (VmState.BUILDING, TaskState.SPAWNING)
    return claims


def test_processes_that_race_for_nodes_never_share_one(db, config, tmp_path) -> None:
    register(db, "one")
    db.compute_nodes.save("one", [report() for _ in range(NODES)])
    arguments = [(str(config), str(seed), str(10 * NODES)) for seed in range(PROCESSES)]
    with race(tmp_path, RACING, *arguments) as racers:
        lines = [line for each in racers for line in each.to_the_end()]
    won = dict(line.split() for line in lines if " " in line)
    assert len(won) == NODES
    assert nodes_of_instances(db) == won
    assert "lost" in lines, "they never met: this test shows nothing"


def test_a_killed_process_leaves_whole_instances_or_nothing(db, config, tmp_path) -> None:
    register(db, "one")
    db.compute_nodes.save("one", [report() for _ in range(500)])
    won = {}
    for seed, wins in enumerate((3, 8)):
        with race(tmp_path, RACING, (str(config), str(seed), "500")) as (racer,):
            for _ in range(wins):
                uuid, node = racer.read_line().split()
                won[uuid] = node
            racer.kill()
    found = nodes_of_instances(db)
    assert won.items() <= found.items()


def test_a_write_is_whole_or_absent_whatever_statement_fails(db: Database) -> None:
    register(db, "one")
    node = free_node(db, "one")
    engine = db.engine

    class PowerCut(BaseException):
        pass

    for number in range(1, 100):
        left = number

        def cut(_c: object, _cursor: object, statement: str, *_: object) -> None:
            nonlocal left
            if statement.split()[0] in {"INSERT", "UPDATE"}:
                left -= 1
                if left == 0:
                    raise PowerCut("now")

        new = new_instance()
        sa.event.listen(engine, "after_cursor_execute", cut)
        try:
            create_building(db, new, node)
        except (PowerCut, errors.RecordsError):
            pass
        finally:
            sa.event.remove(engine, "after_cursor_execute", cut)
        if left > 0:
            break
        assert db.instances.list() == []
        assert db.compute_nodes.get(node.uuid).instance_uuid is None
    assert number == 4, "claim, instance and port"
