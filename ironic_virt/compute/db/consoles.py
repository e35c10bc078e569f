# SPDX-License-Identifier: Apache-2.0

"""Requests for the addresses of consoles, and the answers, for as long as somebody waits.

An address may give the console to whoever knows it, so it isn't kept: who has asked deletes
it, or else any service when the request has expired.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt import virt
from ironic_virt.compute.db import models, records
from ironic_virt.compute.db.instance_rows import LIVE
from ironic_virt.compute.db.transactions import Transactions

_REQUEST = models.ConsoleRequest
_COLUMNS: tuple[Any, ...] = (
    _REQUEST.uuid,
    _REQUEST.instance_uuid,
    _REQUEST.kind,
    _REQUEST.answered,
    _REQUEST.address,
    _REQUEST.error,
)


class Consoles:
    """The records of who waits for a console."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    # -- for who asks ---------------------------------------------------------

    def ask(self, uuid: str, instance_uuid: str, kind: str, seconds: float) -> None:
        """Ask where an instance's console is.

        :param uuid: the request's.
        :param kind: ``serial`` or ``vnc``.
        :param seconds: for how long that matters.
        """
        now = self._transactions.now()
        values = {
            "uuid": uuid,
            "instance_uuid": instance_uuid,
            "kind": kind,
            "answered": False,
            "expires_at": now + datetime.timedelta(seconds=seconds),
            "created_at": now,
        }
        try:
            self._transactions.write(
                lambda connection: connection.execute(sa.insert(_REQUEST).values(**values))
            )
        except db_exception.DBDuplicateEntry:
            # A commit whose answer was lost is done a second time.
            return

    def get(self, uuid: str) -> records.ConsoleRequest | None:
        """A request, with its answer if there is one; ``None``: it has expired."""
        statement = sa.select(*_COLUMNS).where(_REQUEST.uuid == uuid)
        row = self._transactions.read(
            lambda connection: connection.execute(statement).one_or_none()
        )
        return None if row is None else _record(row)

    def forget(self, uuid: str) -> None:
        """Keep nothing of a request, or of its answer."""
        self._transactions.write(
            lambda connection: connection.execute(sa.delete(_REQUEST).where(_REQUEST.uuid == uuid))
        )

    # -- for who answers ------------------------------------------------------

    def wanted(self, host: str) -> Sequence[records.ConsoleRequest]:
        """What a service has to answer, the oldest first; what has expired is deleted."""
        unanswered = (
            sa.select(*_COLUMNS)
            .join(models.Instance, models.Instance.uuid == _REQUEST.instance_uuid)
            .where(LIVE, models.Instance.host == host, _REQUEST.answered.is_(False))
            .order_by(_REQUEST.id)
        )
        now = self._transactions.now()
        expired = sa.select(_REQUEST.uuid).where(_REQUEST.expires_at < now)

        def work(connection: sa.Connection) -> tuple[list[str], list[records.ConsoleRequest]]:
            rows = connection.execute(unanswered).all()
            return list(connection.scalars(expired)), [_record(row) for row in rows]

        old, found = self._transactions.read(work)
        for uuid in old:
            self.forget(uuid)
        return [one for one in found if one.uuid not in old]

    def answer(self, uuid: str, address: virt.ConsoleAddress) -> bool:
        """Say where the console is.

        :returns: ``False`` if nobody waits for that any more, or somebody else has said so.
        """
        return self._answer(uuid, address=records.plain(address))

    def refuse(self, uuid: str, error: str) -> bool:
        """Say why there is no console to be had; otherwise as :meth:`answer`."""
        return self._answer(uuid, error=error)

    def _answer(self, uuid: str, **values: Any) -> bool:
        now = self._transactions.now()
        statement = (
            sa.update(_REQUEST)
            .where(_REQUEST.uuid == uuid, _REQUEST.answered.is_(False))
            .values(**values, answered=True, updated_at=now)
        )
        return bool(
            self._transactions.write(lambda connection: connection.execute(statement).rowcount)
        )


def _record(row: sa.Row[*tuple[Any, ...]]) -> records.ConsoleRequest:
    values = dict(row._mapping)
    if values["address"] is not None:
        values["address"] = virt.ConsoleAddress(**values["address"])
    return records.ConsoleRequest(**values)
