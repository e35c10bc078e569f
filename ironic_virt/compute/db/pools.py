# SPDX-License-Identifier: Apache-2.0

"""Pools: how many nodes of each kind a service offers, and how many it has given out.

A service writes what it counts at a refresh into its own record.  Instances that have got a
place since then, or have left, are made up for by counting the instances' records.
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

_SERVICE = models.services.c
_POOL = models.instances.c.pool


class Pools(Part):
    """The pools of all services."""

    def list(self, host: str | None = None) -> Sequence[records.NodePool]:
        """Pools by name.

        :param host: of this service only.
        """
        hosts = None if host is None else [host]
        return self._transactions.read(lambda connection: of(connection, hosts))

    def save(self, host: str, pools: Sequence[records.NodePool] | None) -> None:
        """Write down what a service counts; nothing is written if it is so already.

        :param pools: all that it has; ``None``: Ironic doesn't pick its nodes.
        """
        self._transactions.write(lambda connection: _save(connection, host, pools))

    def withdraw(self, host: str) -> None:
        """See that nobody is given a place in a service's pools until it reports again."""

        def work(connection: sa.Connection) -> None:
            if pools := of(connection, [host]):
                full = [dataclasses.replace(pool, reserved=pool.total) for pool in pools]
                _save(connection, host, full)

        self._transactions.write(work)


def _save(connection: sa.Connection, host: str, pools: Sequence[records.NodePool] | None) -> None:
    text = None if pools is None else _text(pools)
    connection.execute(
        sa.update(models.services)
        .where(_SERVICE.host == host, _SERVICE.pools.is_distinct_from(text))
        .values(pools=text)
    )


def of(
    connection: sa.Connection, hosts: Collection[str] | None = None
) -> Sequence[records.NodePool]:
    """Pools by name, as of the last refresh and the instances since.

    :param hosts: of these services; ``None``: of all.
    """
    statement = sa.select(_SERVICE.pools).where(_SERVICE.pools.is_not(None))
    if hosts is None:
        rows: Sequence[sa.Row[tuple[str]]] = connection.execute(statement).all()
    else:
        rows = rows_in(connection, statement, _SERVICE.host, hosts)
    found = sorted(
        (pool for row in rows for pool in _pools(row.pools)), key=lambda pool: pool.name
    )
    counted = sa.select(_POOL, sa.func.count()).group_by(_POOL)
    used = dict(tuple(row) for row in rows_in(connection, counted, _POOL, [p.name for p in found]))
    return [pool.with_used(used.get(pool.name, 0)) for pool in found]


def free_places(connection: sa.Connection, host: str) -> Counter[str]:
    """How many more instances each pool of a service takes, by its name.

    Nobody else gets a place there until the end of the transaction.
    """
    connection.execute(sa.select(_SERVICE.id).where(_SERVICE.host == host).with_for_update())
    return Counter({pool.name: pool.free for pool in of(connection, [host])})


@functools.lru_cache(1024)
def _pools(text: str) -> Sequence[records.NodePool]:
    """What a service has reported, from its column."""
    return msgspec.json.decode(text, type=tuple[records.NodePool, ...])


def _text(pools: Sequence[records.NodePool]) -> str:
    """The column of what a service reports; equal pools are equal texts."""
    return msgspec.json.encode(pools, order="sorted").decode()
