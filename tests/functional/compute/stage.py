# SPDX-License-Identifier: Apache-2.0

"""What tests of records put into them."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import random
import types
import uuid
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt import virt
from ironic_virt.compute.db import Database, claims, records
from ironic_virt.scheduler.candidates import CandidateQuery
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
    """A uuid."""
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


def report(**values: Any) -> records.NodeReport:
    """A node that is free."""
    return records.NodeReport(
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
        (got,) = db._transactions.write(
            lambda connection: claims.claim_all(connection, [(instance, chosen)], db.now())
        )
    except db_exception.DBDuplicateEntry:
        return False
    return got


def release(db: Database, instance: str) -> None:
    """Take an instance's node, or place in a pool, back."""
    db._transactions.write(lambda connection: claims.release(connection, instance, db.now()))


def find(
    db: Database, query: CandidateQuery, limit: int, rng: random.Random | None = None
) -> list[Any]:
    """The first candidates of a query."""
    batches = db.candidates.batches(query, limit, rng or random.Random())
    return list(itertools.islice(itertools.chain.from_iterable(batches), limit))


@contextlib.contextmanager
def statements(db: Database) -> Iterator[list[tuple[str, Any]]]:
    """What is sent to the database meanwhile, transactions' own words left out."""
    seen: list[tuple[str, Any]] = []

    def note(_c: object, _k: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.split()[0] in {"INSERT", "UPDATE", "DELETE", "SELECT"}:
            seen.append((statement, parameters))

    engine = db._transactions.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    yield seen
    sa.event.remove(engine, "before_cursor_execute", note)


def count(db: Database, query: CandidateQuery) -> int:
    """How many candidates a query has."""
    return db.candidates.counts([query])[0]


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
