# SPDX-License-Identifier: Apache-2.0

"""Questions about instances and nodes, and the answers, for as long as somebody waits.

A console's address may give the console to whoever knows it, so no answer is kept: who has
asked deletes it, or else any service when the question has expired.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute.db import models, records
from ironic_virt.compute.db.instance_rows import LIVE
from ironic_virt.compute.db.transactions import Transactions

_QUESTION = models.Question
_COLUMNS: tuple[Any, ...] = (
    _QUESTION.uuid,
    _QUESTION.about,
    _QUESTION.kind,
    _QUESTION.answered,
    _QUESTION.answer,
    _QUESTION.error,
)


class Questions:
    """The records of who waits for an answer."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    # -- for who asks ---------------------------------------------------------

    def ask(self, uuid: str, about: str, kind: str, seconds: float) -> None:
        """Ask about an instance or a node.

        :param uuid: the question's.
        :param about: the uuid of the instance or of the node.
        :param kind: the name of one of :mod:`ironic_virt.compute.questions`.
        :param seconds: for how long that matters.
        """
        now = self._transactions.now()
        values = {
            "uuid": uuid,
            "about": about,
            "kind": kind,
            "answered": False,
            "expires_at": now + datetime.timedelta(seconds=seconds),
            "created_at": now,
        }
        try:
            self._transactions.write(
                lambda connection: connection.execute(sa.insert(_QUESTION).values(**values))
            )
        except db_exception.DBDuplicateEntry:
            # A commit whose answer was lost is done a second time.
            return

    def get(self, uuid: str) -> records.Question | None:
        """A question, with its answer if there is one; ``None``: it has expired."""
        statement = sa.select(*_COLUMNS).where(_QUESTION.uuid == uuid)
        row = self._transactions.read(
            lambda connection: connection.execute(statement).one_or_none()
        )
        return None if row is None else _record(row)

    def forget(self, uuid: str) -> None:
        """Keep nothing of a question, or of its answer."""
        self._transactions.write(
            lambda connection: connection.execute(
                sa.delete(_QUESTION).where(_QUESTION.uuid == uuid)
            )
        )

    # -- for who answers ------------------------------------------------------

    def wanted(self, host: str) -> Sequence[records.Question]:
        """What a service has to answer, the oldest first; what has expired is deleted."""
        unanswered = (
            sa.select(*_COLUMNS)
            .where(_QUESTION.answered.is_(False), sa.or_(*_are_of(host)))
            .order_by(_QUESTION.id)
        )
        now = self._transactions.now()
        expired = sa.select(_QUESTION.uuid).where(_QUESTION.expires_at < now)

        def work(connection: sa.Connection) -> tuple[list[str], list[records.Question]]:
            rows = connection.execute(unanswered).all()
            return list(connection.scalars(expired)), [_record(row) for row in rows]

        old, found = self._transactions.read(work)
        for uuid in old:
            self.forget(uuid)
        return [one for one in found if one.uuid not in old]

    def answer(self, uuid: str, answer: Mapping[str, Any]) -> bool:
        """Answer a question.

        :param answer: in its JSON form.
        :returns: ``False`` if nobody waits for that any more, or somebody else has said so.
        """
        return self._answer(uuid, answer=dict(answer))

    def refuse(self, uuid: str, error: str) -> bool:
        """Say why there is no answer; otherwise as :meth:`answer`."""
        return self._answer(uuid, error=error)

    def _answer(self, uuid: str, **values: Any) -> bool:
        now = self._transactions.now()
        statement = (
            sa.update(_QUESTION)
            .where(_QUESTION.uuid == uuid, _QUESTION.answered.is_(False))
            .values(**values, answered=True, updated_at=now)
        )
        return bool(
            self._transactions.write(lambda connection: connection.execute(statement).rowcount)
        )


def _record(row: sa.Row[*tuple[Any, ...]]) -> records.Question:
    return records.Question(**row._mapping)


def _are_of(host: str) -> list[sa.ColumnElement[bool]]:
    """Which questions are about what a service has: instances, and nodes."""
    instance, node = models.Instance, models.ComputeNode
    return [
        sa.exists().where(LIVE, instance.uuid == _QUESTION.about, instance.host == host),
        sa.exists().where(node.deleted == 0, node.uuid == _QUESTION.about, node.host == host),
    ]
