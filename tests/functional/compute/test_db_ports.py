# SPDX-License-Identifier: Apache-2.0

"""Each port belongs to one instance, in any race for it."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from ironic_virt import virt
from ironic_virt.compute import errors
from ironic_virt.compute.api import Requests
from ironic_virt.compute.db import Database, instance_records, records, tables
from ironic_virt.compute.states import TaskState, VmState
from tests.functional.compute.stage import (
    create_building,
    deleted,
    ended,
    failed,
    free_node,
    new_instance,
    register,
)

FAULT = records.Fault("no")
ATTACHING, DETACHING = TaskState.ATTACHING_INTERFACE, TaskState.DETACHING_INTERFACE


@pytest.fixture
def other_db(database_conf: cfg.ConfigOpts, db: Database) -> Iterator[Database]:
    """Open the records of ``db`` a second time, with other connections."""
    other = Database(database_conf, clock=db.now).open()
    yield other
    other.close()


def active(db: Database, *ids: str) -> str:
    """An instance with these ports that is active, on its own node."""
    register(db, "one")
    new = new_instance(ports=tuple(map(virt.Vif, ids)))
    uuid = create_building(db, new, free_node(db, "one")).uuid
    assert ended(db, uuid, TaskState.SPAWNING, vm_state=VmState.ACTIVE)
    return uuid


def attach(db: Database, uuid: str, port: str) -> None:
    db.instances.request(uuid, ATTACHING, {"vif": port})


def held(db: Database) -> dict[str, str]:
    """The instance of each port."""
    port = tables.instance_ports.c
    with db.engine.connect() as connection:
        rows = connection.execute(sa.select(port.port_id, port.instance_uuid)).all()
    return {row.port_id: row.instance_uuid for row in rows}


def test_a_port_is_held_from_the_request_until_it_is_gone(db: Database) -> None:
    uuid = active(db, "A")
    attach(db, uuid, "b")
    assert held(db) == {"a": uuid, "b": uuid}
    ended(db, uuid, ATTACHING, vm_state=VmState.ACTIVE)
    db.instances.request(uuid, DETACHING, {"vif": "A"})
    assert held(db) == {"a": uuid, "b": uuid}
    failed(db, uuid, DETACHING, FAULT, vm_state=VmState.ACTIVE)
    assert held(db) == {"a": uuid, "b": uuid}
    db.instances.request(uuid, DETACHING, {"vif": "A"})
    ended(db, uuid, DETACHING, vm_state=VmState.ACTIVE)
    assert held(db) == {"b": uuid}
    attach(db, uuid, "c")
    failed(db, uuid, ATTACHING, FAULT, vm_state=VmState.ACTIVE)
    assert held(db) == {"b": uuid}
    attach(db, uuid, "d")
    db.instances.request(uuid, TaskState.DELETING)
    # It may be attached just now.
    assert held(db) == {"b": uuid, "d": uuid}
    deleted(db, uuid)
    assert held(db) == {}


def test_a_port_of_one_instance_is_not_attached_to_another(db: Database) -> None:
    first, second = active(db, "a"), active(db, "b")
    for port in ("a", "A"):
        with pytest.raises(errors.ConflictingRequest, match=f"{first} has the interface {port}"):
            attach(db, second, port)
    attach(db, second, "c")
    # What is on its way counts, too.
    with pytest.raises(errors.ConflictingRequest, match=f"{second} has the interface c"):
        attach(db, first, "c")


def test_what_could_not_be_built_holds_no_port(db: Database) -> None:
    register(db, "one")
    new, node = new_instance(ports=(virt.Vif("a"),)), free_node(db, "one")
    made = create_building(db, new, node)
    assert held(db) == {"a": made.uuid}
    assert failed(db, new.uuid, TaskState.SPAWNING, FAULT, released=True)
    assert held(db) == {}
    assert active(db, "a")


def test_of_two_creates_at_once_one_gets_the_port(database_conf, db, other_db, monkeypatch):
    register(db, "one")
    nodes = [free_node(db, "one") for _ in range(2)]
    first = new_instance(ports=(virt.Vif("a"),))
    second = new_instance(ports=(virt.Vif("b"), virt.Vif("a")))
    create = db.instances.create_several

    def after_the_other(*args: Any) -> Sequence[records.Instance]:
        # It has found the port free; now comes the other one, as a whole.
        monkeypatch.undo()
        create_building(other_db, first, nodes[0])
        return create(*args)

    monkeypatch.setattr(db.instances, "create_several", after_the_other)
    with pytest.raises(errors.InvalidRequest, match=f"server {first.uuid} has the port a"):
        Requests(database_conf, db).create(second)
    assert [one.uuid for one in db.instances.list()] == [first.uuid]
    assert held(db) == {"a": first.uuid}
    claims = {node.instance_uuid for node in db.compute_nodes.list()}
    assert claims == {first.uuid, None}, "and nothing is left of the other one"


def test_of_two_who_attach_at_once_one_gets_the_port(
    db: Database, other_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    if db.is_sqlite:
        pytest.skip("SQLite lets one transaction write at a time: none comes in between")
    first, second = active(db), active(db)
    take = instance_records.take_ports

    def after_the_other(connection: sa.Connection, *args: Any) -> None:
        # In the midst of our transaction, which has found the instance without a task.
        monkeypatch.undo()
        attach(other_db, first, "a")
        take(connection, *args)

    monkeypatch.setattr(instance_records, "take_ports", after_the_other)
    with pytest.raises(
        errors.ConflictingRequest, match=f"{second}: server {first} has the interface a"
    ):
        attach(db, second, "a")
    assert held(db) == {"a": first}
    assert db.instances.get(second).task_state is None
    assert db.instances.get(first).task_state == ATTACHING
