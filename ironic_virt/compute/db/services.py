# SPDX-License-Identifier: Apache-2.0

"""Compute services: who they are, and which of them are up.

A service's ``incarnation`` fences it: registering takes the record over, and the
process that had it before learns so at its next heartbeat.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import models, records
from ironic_virt.compute.db.transactions import Part

_COLUMNS = models.columns(models.services, records.ComputeService)


class Services(Part):
    """The records of compute services."""

    def register(
        self,
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
        values = {
            "version": version,
            "incarnation": incarnation,
            "conductor_group": conductor_group,
            "shard_key": shard_key,
        }

        def work(connection: sa.Connection) -> records.ComputeService:
            now = self._transactions.now()
            if not _set(connection, host, **values, last_seen_at=now, updated_at=now):
                connection.execute(
                    sa.insert(models.services).values(
                        **values,
                        uuid=str(uuid.uuid4()),
                        host=host,
                        disabled=False,
                        forced_down=False,
                        report_count=0,
                        last_seen_at=now,
                        created_at=now,
                    )
                )
            return get(connection, host)

        try:
            return self._transactions.write(work)
        except db_exception.DBDuplicateEntry:
            # Another process of this name was first: now there is a record to take over.
            return self._transactions.write(work)

    def heartbeat(
        self, host: str, incarnation: str, *, conductor_group: str | None, shard_key: str | None
    ) -> None:
        """Report that this process is up, and which nodes it is for.

        :raises ServiceSuperseded: another process has registered by this name, or the
            record was deleted.
        """

        def work(connection: sa.Connection) -> None:
            # Every reader judges by this clock whether a service is up.
            self._transactions.read_clock(connection)
            now = self._transactions.now()
            reported = _set(
                *(connection, host, models.services.c.incarnation == incarnation),
                conductor_group=conductor_group,
                shard_key=shard_key,
                report_count=models.services.c.report_count + 1,
                last_seen_at=now,
            )
            if not reported:
                raise errors.ServiceSuperseded(host)

        self._transactions.write(work)

    def leave(self, host: str, incarnation: str) -> None:
        """Say that this process has ended, so that the service is down at once."""
        mine = models.services.c.incarnation == incarnation
        self._transactions.write(
            lambda connection: _set(connection, host, mine, last_seen_at=None)
        )

    def list(self) -> Sequence[records.ComputeService]:
        """All services, by name."""
        return [records.ComputeService(*row) for row in self._rows(_select())]

    def get(self, host: str) -> records.ComputeService:
        """One service.

        :raises ServiceNotFound: there is none of this name.
        """
        return self._transactions.read(lambda connection: get(connection, host))

    def is_up(self, service: records.ComputeService) -> bool:
        """Whether a service is up now."""
        return service.is_up(self._transactions.now(), self._transactions.down_time)

    def up(self) -> Sequence[str]:
        """The names of the services that are up."""
        return [service.host for service in self.list() if self.is_up(service)]

    def update(
        self,
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

        def work(connection: sa.Connection) -> records.ComputeService:
            if values:
                _set(connection, host, **values, updated_at=self._transactions.now())
            return get(connection, host)

        return self._transactions.write(work)

    def delete(self, host: str) -> None:
        """Delete a service that is down and owns nothing any more; its pools go with it.

        :raises ServiceNotFound: there is none of this name.
        :raises ServiceInUse: it is up, or has compute nodes or instances.
        """
        owned = {"compute nodes": models.compute_nodes.c, "instances": models.instances.c}

        def work(connection: sa.Connection) -> None:
            found = get(connection, host, lock=True)
            if self.is_up(found):
                raise errors.ServiceInUse(host, "it is up; stop it first")
            for what, owner in owned.items():
                count = sa.select(sa.func.count()).where(owner.host == host)
                if number := connection.scalar(count):
                    raise errors.ServiceInUse(
                        host, f"it has {number} {what}; move them to another service first"
                    )
            connection.execute(sa.delete(models.services).where(models.services.c.host == host))

        self._transactions.write(work)


def _set(
    connection: sa.Connection, host: str, *conditions: sa.ColumnElement[bool], **values: Any
) -> int:
    """Change a service's record; returns how many there were: one or none."""
    statement = sa.update(models.services).where(models.services.c.host == host)
    return connection.execute(statement.where(*conditions).values(values)).rowcount


def _select() -> sa.Select[*tuple[Any, ...]]:
    return sa.select(*_COLUMNS).order_by(models.services.c.host)


def get(connection: sa.Connection, host: str, *, lock: bool = False) -> records.ComputeService:
    """One service, within a transaction; with ``lock``, nobody changes it until its end.

    :raises ServiceNotFound: there is none of this name.
    """
    statement = sa.select(*_COLUMNS).where(models.services.c.host == host)
    if lock:
        statement = statement.with_for_update()
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise errors.ServiceNotFound(host)
    return records.ComputeService(*row)


def usable(connection: sa.Connection, now: datetime.datetime, down_time: float) -> Sequence[str]:
    """The names of the services that may get instances: those that are up and enabled."""
    statement = sa.select(models.services.c.host).where(
        models.services.c.disabled == sa.false(),
        models.services.c.forced_down == sa.false(),
        models.services.c.last_seen_at >= now - datetime.timedelta(seconds=down_time),
    )
    return connection.execute(statement).scalars().all()
