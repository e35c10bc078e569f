# SPDX-License-Identifier: Apache-2.0

"""Pools: how many nodes of each kind a service offers, and how many it has given out.

A service writes what it counts at a refresh.  What has been claimed and released since
it counted is in the rows already, and is made up for under their locks.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute.db import compute_node_rows, models, records, types
from ironic_virt.compute.db.chunks import chunks
from ironic_virt.compute.db.transactions import Transactions
from ironic_virt.request.spec import placement_class

_POOL = models.Pool
COLUMNS: tuple[Any, ...] = (
    _POOL.name,
    _POOL.host,
    _POOL.compute_node_uuid,
    _POOL.resource_class,
    _POOL.traits,
    _POOL.stats,
    _POOL.vcpus,
    _POOL.memory_mb,
    _POOL.local_gb,
    _POOL.cpu_arch,
    _POOL.total,
    _POOL.used,
    _POOL.reserved,
    _POOL.created_at,
    _POOL.updated_at,
)


class Pools:
    """The records of pools."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def list(self, host: str | None = None) -> Sequence[records.Pool]:
        """Pools by name.

        :param host: of this service only.
        """
        statement = sa.select(*COLUMNS).order_by(_POOL.name)
        if host is not None:
            statement = statement.where(_POOL.host == host)
        rows = self._transactions.read(lambda connection: connection.execute(statement).all())
        return [record(row) for row in rows]

    def save(self, host: str, pools: Iterable[records.PoolReport]) -> Sequence[str]:
        """Write down what pools a service has: all of them.

        One that isn't among them goes, unless an instance has a place in it: then it
        stays and offers nothing.

        :returns: the names of those that went.
        """
        wanted = {pool.name: pool for pool in pools}

        def work(connection: sa.Connection) -> Sequence[str]:
            return self._save(connection, host, wanted)

        try:
            return self._transactions.write(work)
        except db_exception.DBDuplicateEntry:
            # Another process of this name has made the same ones just now.
            return self._transactions.write(work)

    def _save(
        self, connection: sa.Connection, host: str, wanted: Mapping[str, records.PoolReport]
    ) -> Sequence[str]:
        now = self._transactions.now()
        # While these are locked nobody claims a place, and whoever releases one waits.
        rows = connection.execute(
            sa.select(_POOL).where(_POOL.host == host).order_by(_POOL.name).with_for_update()
        ).all()
        stored = {row.name: row._mapping for row in rows}
        used = _counted(connection, stored.keys() | wanted.keys())
        gone = []
        for name, row in stored.items():
            if name in wanted:
                values = _values(wanted[name], used.get(name, 0))
            elif used.get(name):
                values = {"total": used[name], "used": used[name], "reserved": 0}
            else:
                connection.execute(sa.delete(_POOL).where(_POOL.name == name))
                gone.append(name)
                continue
            changed = {key: value for key, value in values.items() if row[key] != value}
            if changed:
                connection.execute(
                    sa.update(_POOL).where(_POOL.name == name).values(**changed, updated_at=now)
                )
        for name in wanted.keys() - stored.keys():
            connection.execute(
                sa.insert(_POOL).values(
                    **_values(wanted[name], used.get(name, 0)),
                    name=name,
                    host=host,
                    compute_node_uuid=records.pools_record(host),
                    created_at=now,
                )
            )
        return gone


def record(row: Sequence[Any]) -> records.Pool:
    """A row of :data:`COLUMNS` as the value that leaves this room."""
    values = dict(zip((column.key for column in COLUMNS), row, strict=True))
    values["compute_node"] = values.pop("compute_node_uuid")
    values["traits"] = compute_node_rows.traits(values["traits"])
    values["stats"] = compute_node_rows.stats(values["stats"])
    return records.Pool(**values)


def has_any(connection: sa.Connection, host: str) -> bool:
    """Whether a service has pools."""
    return bool(connection.scalar(sa.select(sa.exists().where(_POOL.host == host))))


def drop(connection: sa.Connection, host: str, now: datetime.datetime) -> None:
    """Delete a service's pools and the record that holds them, unless instances are there."""
    in_use = connection.scalar(
        sa.select(sa.func.count())
        .select_from(models.Instance)
        .join(_POOL, _POOL.name == models.Instance.pool)
        .where(_POOL.host == host)
    )
    if not in_use:
        connection.execute(sa.delete(_POOL).where(_POOL.host == host))
        connection.execute(
            sa.update(models.ComputeNode)
            .where(
                models.ComputeNode.deleted == 0,
                models.ComputeNode.uuid == records.pools_record(host),
            )
            .values(deleted=models.ComputeNode.id, deleted_at=now)
        )


def _counted(connection: sa.Connection, names: Collection[str]) -> Mapping[str, int]:
    """How many instances have a place in each pool."""
    pool = models.Instance.pool
    found: dict[str, int] = {}
    for some in chunks(sorted(names)):
        statement = sa.select(pool, sa.func.count()).where(pool.in_(some)).group_by(pool)
        found.update({str(name): number for name, number in connection.execute(statement)})
    return found


def _values(pool: records.PoolReport, used: int) -> dict[str, Any]:
    """A report as columns.

    :param used: how many instances have a place by now.
    """
    # Those that have left since: their nodes are not to be had yet.
    left = max(0, pool.used - used)
    return {
        "resource_class": pool.resource_class,
        "placement_class": placement_class(pool.resource_class) if pool.resource_class else "",
        "traits": types.encode(sorted(pool.traits)),
        "stats": types.encode(dict(pool.stats)),
        "vcpus": pool.vcpus,
        "memory_mb": pool.memory_mb,
        "local_gb": pool.local_gb,
        "cpu_arch": pool.cpu_arch,
        "total": max(pool.total, used),
        "used": used,
        "reserved": pool.reserved + left,
    }
