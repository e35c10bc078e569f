# SPDX-License-Identifier: Apache-2.0

"""Pools: how many nodes of each kind a service offers, and how many it has given out.

A service writes what it counts at a refresh into one record.  Instances that have got a place
since then, or have left, are made up for by counting the instances' records.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Collection, Sequence

import msgspec
import sqlalchemy as sa

from ironic_virt.compute.db import models, records
from ironic_virt.compute.db.transactions import Part, rows_in

_NODE = models.compute_nodes
_POOL = models.instances.c.pool


class Pools(Part):
    """The pools of all services."""

    def list(self, host: str | None = None) -> Sequence[records.NodePool]:
        """Pools by name.

        :param host: of this service only.
        """
        return self._transactions.read(
            lambda connection: of(connection, services(connection) if host is None else [host])
        )


def services(connection: sa.Connection) -> Sequence[str]:
    """The names of all services."""
    statement = sa.select(models.services.c.host).where(models.services.c.deleted == 0)
    return connection.execute(statement).scalars().all()


def of(connection: sa.Connection, hosts: Collection[str]) -> Sequence[records.NodePool]:
    """The pools of some services by name, as of the last refresh and the instances since."""
    statement = sa.select(_NODE.c.uuid, _NODE.c.host, _NODE.c.pools, _NODE.c.updated_at)
    uuids = [records.pools_record(host) for host in hosts]
    rows = rows_in(connection, statement.where(_NODE.c.deleted == 0), _NODE.c.uuid, uuids)
    found = [(row, report) for row in rows for report in reports(row.pools or "[]")]
    used = _counted(connection, [report.name for _, report in found])
    pools = [
        records.NodePool.of(report, row.host, row.uuid, used[report.name], row.updated_at)
        for row, report in found
    ]
    return sorted(pools, key=lambda pool: pool.name)


def free_places(connection: sa.Connection, host: str) -> Counter[str]:
    """How many more instances each pool of a service takes, by its name.

    Nobody else gets a place there until the end of the transaction.
    """
    connection.execute(
        sa.select(_NODE.c.id)
        .where(_NODE.c.deleted == 0, _NODE.c.uuid == records.pools_record(host))
        .with_for_update()
    )
    return Counter({pool.name: pool.free for pool in of(connection, [host])})


def _counted(connection: sa.Connection, names: Sequence[str]) -> Counter[str]:
    """How many instances have a place in each pool."""
    statement = sa.select(_POOL, sa.func.count()).group_by(_POOL)
    return Counter(dict(tuple(row) for row in rows_in(connection, statement, _POOL, names)))


@functools.lru_cache(1024)
def reports(text: str) -> Sequence[records.PoolReport]:
    """What a service has reported, from its column."""
    return msgspec.json.decode(text, type=tuple[records.PoolReport, ...])


def text(pools: Sequence[records.PoolReport]) -> str | None:
    """The column of what a service reports; equal pools are equal texts."""
    if not pools:
        return None
    plain = [
        {**dataclasses.asdict(pool), "traits": sorted(pool.traits), "stats": dict(pool.stats)}
        for pool in sorted(pools, key=lambda pool: pool.name)
    ]
    return msgspec.json.encode(plain, order="sorted").decode()
