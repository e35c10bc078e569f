# SPDX-License-Identifier: Apache-2.0

"""Pools: how many nodes of each kind a service offers, and how many it has given out.

A service writes the counts of each refresh into its record.  Instances that have come or gone
since then are taken from the instances' records.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence

import sqlalchemy as sa

from ironic_virt.compute.db import records, tables
from ironic_virt.compute.db.database import Part, reads, rows_in, writes

_SERVICE = tables.services.c
_POOL = tables.instances.c.pool


class Pools(Part):
    """The pools of all services."""

    @reads
    def list(
        self, connection: sa.Connection, host: str | None = None
    ) -> Sequence[records.NodePool]:
        """Pools by name.

        :param host: of this service only.
        """
        return of(connection, None if host is None else [host])

    @writes
    def save(
        self, connection: sa.Connection, host: str, pools: Sequence[records.NodePool] | None
    ) -> None:
        """Write the pools of a service, if they have changed.

        :param pools: all its pools; ``None``: Ironic doesn't pick its nodes.
        """
        _save(connection, host, pools)

    @writes
    def withdraw(self, connection: sa.Connection, host: str) -> None:
        """Give no places in a service's pools until it reports again."""
        if pools := of(connection, [host]):
            full = [dataclasses.replace(pool, reserved=pool.total) for pool in pools]
            _save(connection, host, full)


def _save(connection: sa.Connection, host: str, pools: Sequence[records.NodePool] | None) -> None:
    # Equal pools are equal texts.
    update = sa.update(tables.services).where(
        _SERVICE.host == host, _SERVICE.pools.is_distinct_from(pools)
    )
    connection.execute(update.values(pools=pools))


def of(
    connection: sa.Connection, hosts: Collection[str] | None = None
) -> Sequence[records.NodePool]:
    """Pools by name, as of the last refresh and the instances since.

    :param hosts: of these services; ``None``: of all.
    """
    statement = sa.select(_SERVICE.pools).where(_SERVICE.pools.is_not(None))
    if hosts is not None:
        statement = statement.where(_SERVICE.host.in_(hosts))
    pools = [pool for row in connection.execute(statement) for pool in row.pools]
    counted = sa.select(_POOL, sa.func.count()).group_by(_POOL)
    counts = rows_in(connection, counted, _POOL, {pool.name for pool in pools})
    used = dict(tuple(row) for row in counts)
    pools.sort(key=lambda pool: pool.name)
    return [pool.with_used(used.get(pool.name, 0)) for pool in pools]


def free_places(connection: sa.Connection, host: str) -> Counter[str]:
    """How many more instances each pool of a service takes, by its name.

    Nobody else gets a place there until the end of the transaction.
    """
    connection.execute(sa.select(_SERVICE.id).where(_SERVICE.host == host).with_for_update())
    return Counter({pool.name: pool.free for pool in of(connection, [host])})
