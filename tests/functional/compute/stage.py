# SPDX-License-Identifier: Apache-2.0

"""What tests of records put into them."""

import contextlib
import dataclasses
import datetime
import types
import uuid
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from ironic_virt import virt
from ironic_virt.compute import errors
from ironic_virt.compute.actions import Settled
from ironic_virt.compute.db import Database, compute_nodes, records, tables
from ironic_virt.compute.states import TaskState, VmState
from tests import log_watch

FLAVOR = virt.Flavor("gold", vcpus=8, memory_mb=16384, root_gb=100, extra_specs={"a": "b"})
IMAGE = virt.ImageMeta("https://images.example.test/a.raw", checksum="ab" * 16)


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)

    def __call__(self) -> datetime.datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += datetime.timedelta(seconds=seconds)


def new_uuid() -> str:
    return str(uuid.uuid4())


def register(db: Database, host: str, **values: Any) -> records.ComputeService:
    """A compute service that is up."""
    return db.services.register(
        host,
        **{
            "version": "1.0",
            "incarnation": new_uuid(),
            "conductor_group": None,
            "shard_key": None,
            **values,
        },
    )


def report(**values: Any) -> records.ComputeNode:
    """A node that is free."""
    return records.ComputeNode(
        **{
            "uuid": new_uuid(),
            "vcpus": 8,
            "memory_mb": 16384,
            "local_gb": 100,
            "cpu_arch": "x86_64",
            "resource_class": "gold",
            "traits": frozenset({"CUSTOM_B", "CUSTOM_A"}),
            "stats": {"boot_mode": "uefi"},
            **values,
        }
    )


def offer(db: Database, host: str, *pools: records.NodePool) -> None:
    """What a service writes down whose nodes Ironic picks."""
    db.pools.save(host, pools)


def free_node(db: Database, host: str, **values: Any) -> records.ComputeNode:
    """A free node of a service's."""
    node = report(**values)
    db.compute_nodes.save(host, [node])
    return db.compute_nodes.get(node.uuid)


def claim(db: Database, node: str, host: str, instance: str) -> bool:
    """Give a node to an instance that has no record; whether it was free."""
    chosen = types.SimpleNamespace(uuid=node, host=host)
    try:
        db.write(lambda connection: compute_nodes.claim_all(connection, [(instance, chosen)]))
    except (errors.InstanceExists, errors.ClaimLost):
        return False
    return True


def release(db: Database, instance: str) -> None:
    """Take an instance's node, or place in a pool, back."""
    row = sa.update(tables.instances).where(tables.instances.c.uuid == instance)
    db.write(lambda connection: connection.execute(row.values(pool=None)))
    db.write(lambda connection: compute_nodes.release_nodes(connection, instance))


def offered(db: Database, *classes: str, **which: Any) -> list[str]:
    """The nodes and pools that are free, each as often as it takes an instance."""
    offer = db.candidates.offer(classes=classes, **which)
    return sorted(one.uuid for one in offer.records for _ in range(getattr(one, "free", 1)))


def create_building(
    db: Database, new: records.NewInstance, node: records.ComputeNode | records.NodePool
) -> records.Instance:
    """An instance that is to be built on a node, or in a pool."""
    return db.instances.create_several([(new, node)])[0]


def ended(
    db: Database,
    uuid: str,
    task: TaskState | None,
    vm_state: VmState = VmState.ACTIVE,
    **values: Any,
) -> bool:
    """Have a task of an instance end; whether it was wanted still."""
    began = dataclasses.replace(db.instances.get(uuid), task_state=task)
    return db.instances.settle(began, Settled(vm_state, **values))


def failed(
    db: Database,
    uuid: str,
    task: TaskState | None,
    fault: records.Fault,
    vm_state: VmState = VmState.ERROR,
    **values: Any,
) -> bool:
    """Have a task of an instance fail."""
    return ended(db, uuid, task, vm_state, **{"applied": False, "fault": fault, **values})


def deleted(db: Database, uuid: str) -> bool:
    """Have a delete of an instance succeed."""
    return ended(db, uuid, TaskState.DELETING, VmState.DELETED)


@contextlib.contextmanager
def statements(db: Database) -> Iterator[list[tuple[str, Any]]]:
    """What is sent to the database meanwhile, transactions' own words left out."""
    seen: list[tuple[str, Any]] = []

    def note(_c: object, _k: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.split()[0] in {"INSERT", "UPDATE", "DELETE", "SELECT"}:
            seen.append((statement, parameters))

    engine = db.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    yield seen
    sa.event.remove(engine, "before_cursor_execute", note)


def new_instance(**values: Any) -> records.NewInstance:
    """What somebody asks for."""
    return records.NewInstance(
        **{
            "uuid": new_uuid(),
            "flavor": FLAVOR,
            "image": IMAGE,
            "display_name": "web",
            "ports": (virt.Vif(f"vif-{new_uuid()}", "52:54:00:12:34:56"),),
            "user_data": f"#!/bin/sh\n# {log_watch.secret('user-data')}\n",
            "key_name": "mine",
            "public_key": "ssh-ed25519 AAAA",
            "properties": {"role": "web"},
            "project_id": "project",
            "user_id": "user",
            "request_id": "req-1",
            **values,
        }
    )
