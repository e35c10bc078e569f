# SPDX-License-Identifier: Apache-2.0

"""Compute services: who they are, which of them are up, and the pools that they have.

A service's ``incarnation`` fences it: registering takes the record over, and the
process that had it before learns so at its next heartbeat.

Where Ironic picks the nodes, a service writes the counts of each refresh into its record.
Instances that have come or gone since then are taken from the instances' records.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_virt.compute import errors
from ironic_virt.compute.db import records, tables
from ironic_virt.compute.db.database import Part, insert_or_retry, reads, rows_in, writes

_SERVICE = tables.services.c
_POOL = tables.instances.c.pool
_COLUMNS = tables.columns(tables.services, records.ComputeService)


class Services(Part):
    """The records of compute services."""

    @writes
    def register(
        self,
        connection: sa.Connection,
        host: str,
        *,
        version: str,
        incarnation: str,
        conductor_group: str | None,
        shard_key: str | None,
    ) -> records.ComputeService:
        """Become the compute service of this name; it is up from now on.

        What an operator has set (disabled, forced down) stays.

        :param incarnation: the uuid of this process.
        """
        values: dict[str, Any] = {
            "version": version,
            "incarnation": incarnation,
            "conductor_group": conductor_group,
            "shard_key": shard_key,
            "last_seen_at": self._db.now(),
        }
        if not _set(connection, host, **values):
            new = records.fields(records.ComputeService(**values, host=host))
            insert_or_retry(connection, sa.insert(tables.services), [new])
        return get(connection, host)

    @writes
    def heartbeat(
        self,
        connection: sa.Connection,
        host: str,
        incarnation: str,
        *,
        conductor_group: str | None,
        shard_key: str | None,
    ) -> None:
        """Report that this process is up, and which nodes it is for.

        :raises ServiceSuperseded: another process has registered by this name, or the
            record was deleted.
        """
        # Every reader judges by this clock whether a service is up.
        self._db.read_clock(connection)
        current_time = sa.literal(self._db.now(), _SERVICE.last_seen_at.type)
        is_ours = _set(
            *(connection, host, _SERVICE.incarnation == incarnation),
            conductor_group=conductor_group,
            shard_key=shard_key,
            # One that has left stays down: this report may have been under way for long.
            last_seen_at=sa.case((_SERVICE.last_seen_at.is_not(None), current_time)),
        )
        if not is_ours:
            raise errors.ServiceSuperseded(host)

    @writes
    def leave(self, connection: sa.Connection, host: str, incarnation: str) -> None:
        """Say that this process has ended, so that the service is down at once."""
        _set(connection, host, _SERVICE.incarnation == incarnation, last_seen_at=None)

    @reads
    def list(self, connection: sa.Connection) -> Sequence[records.ComputeService]:
        """All services, by name."""
        return select_all(connection)

    @reads
    def get(self, connection: sa.Connection, host: str) -> records.ComputeService:
        """One service.

        :raises ServiceNotFound: there is none of this name.
        """
        return get(connection, host)

    def is_up(self, service: records.ComputeService) -> bool:
        """Whether a service has reported in time and isn't forced down."""
        return not service.forced_down and self.reports(service)

    def reports(self, service: records.ComputeService) -> bool:
        """Whether a service has reported in time, forced down or not."""
        last = service.last_seen_at
        # Nor in the future: the database's clock may have been set back.
        return last is not None and abs(self._db.now() - last) <= self._db.down_time

    def up(self) -> Sequence[str]:
        """The names of the services that are up."""
        return [service.host for service in self.list() if self.is_up(service)]

    def usable(self, connection: sa.Connection) -> Sequence[str]:
        """The names of those that may get instances, within a transaction: up and enabled."""
        services = select_all(connection)
        return [row.host for row in services if self.is_up(row) and not row.disabled]

    @writes
    def update(
        self,
        connection: sa.Connection,
        host: str,
        *,
        disabled: bool | None = None,
        disabled_reason: str | None = None,
        forced_down: bool | None = None,
    ) -> records.ComputeService:
        """Set what an operator decides; ``None`` leaves it as it is.

        Enabling clears the reason; disabling again without one keeps it.

        :raises ServiceNotFound: there is none of this name.
        """
        values: dict[str, Any] = {}
        if disabled is not None:
            values["disabled"] = disabled
            if disabled_reason is not None or not disabled:
                values["disabled_reason"] = disabled_reason if disabled else None
        if forced_down is not None:
            values["forced_down"] = forced_down
        if values:
            _set(connection, host, **values)
        return get(connection, host)

    @writes
    def delete(self, connection: sa.Connection, host: str) -> None:
        """Delete a service that is down and owns nothing any more; its pools go with it.

        :raises ServiceNotFound: there is none of this name.
        :raises ServiceInUse: it is up, or has compute nodes or instances.
        """
        if self.is_up(get(connection, host, lock=True)):
            raise errors.ServiceInUse(host, "it is up; stop it first")
        owned = {"compute nodes": tables.compute_nodes.c, "instances": tables.instances.c}
        for kind, owner in owned.items():
            count = sa.select(sa.func.count()).where(owner.host == host)
            if number := connection.scalar(count):
                reason = f"it has {number} {kind}; move them to another service first"
                raise errors.ServiceInUse(host, reason)
        connection.execute(sa.delete(tables.services).where(_SERVICE.host == host))


class Pools(Part):
    """The pools of all services: how many nodes of each kind they offer, and have given out."""

    @reads
    def list(
        self, connection: sa.Connection, host: str | None = None
    ) -> Sequence[records.NodePool]:
        """Pools by name.

        :param host: of this service only.
        """
        return pools_of(connection, None if host is None else [host])

    @writes
    def save(
        self, connection: sa.Connection, host: str, pools: Sequence[records.NodePool] | None
    ) -> None:
        """Write the pools of a service, if they have changed.

        :param pools: all its pools; ``None``: Ironic doesn't pick its nodes.
        """
        # Equal pools are equal texts.
        update = sa.update(tables.services).where(
            _SERVICE.host == host, _SERVICE.pools.is_distinct_from(pools)
        )
        connection.execute(update.values(pools=pools))

    def withdraw(self, host: str) -> None:
        """Give no places in a service's pools until it reports again."""
        if pools := self.list(host):
            self.save(host, [dataclasses.replace(pool, reserved=pool.total) for pool in pools])


def _set(
    connection: sa.Connection, host: str, *conditions: sa.ColumnElement[bool], **values: Any
) -> int:
    """Change a service's record; returns how many there were: one or none."""
    update = sa.update(tables.services).where(_SERVICE.host == host, *conditions)
    return connection.execute(update.values(values)).rowcount


def select_all(
    connection: sa.Connection, *, lock: bool = False
) -> Sequence[records.ComputeService]:
    """All services by name; with ``lock``, nobody changes them until the transaction's end."""
    statement = sa.select(*_COLUMNS).order_by(_SERVICE.host)
    statement = statement.with_for_update() if lock else statement
    return [records.ComputeService(*row) for row in connection.execute(statement)]


def get(connection: sa.Connection, host: str, *, lock: bool = False) -> records.ComputeService:
    """One service, within a transaction; with ``lock``, nobody changes it until its end.

    :raises ServiceNotFound: there is none of this name.
    """
    statement = sa.select(*_COLUMNS).where(_SERVICE.host == host)
    row = connection.execute(statement.with_for_update() if lock else statement).one_or_none()
    if row is None:
        raise errors.ServiceNotFound(host)
    return records.ComputeService(*row)


def pools_of(
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
    return Counter({pool.name: pool.free for pool in pools_of(connection, [host])})
