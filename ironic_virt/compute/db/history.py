# SPDX-License-Identifier: Apache-2.0

"""What was asked of instances, how it ended, and what went wrong.

These records are written within the transactions that change instances, and are
never deleted.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from ironic_virt.compute.db import models, records
from ironic_virt.compute.db.transactions import Transactions

_ACTION = models.instance_actions
_FAULT = models.instance_faults
_ACTION_COLUMNS: tuple[Any, ...] = (
    _ACTION.c.instance_uuid,
    _ACTION.c.action,
    _ACTION.c.request_id,
    _ACTION.c.user_id,
    _ACTION.c.project_id,
    _ACTION.c.start_time,
    _ACTION.c.finish_time,
    _ACTION.c.message,
)
_FAULT_COLUMNS: tuple[Any, ...] = (
    _FAULT.c.instance_uuid,
    _FAULT.c.host,
    _FAULT.c.code,
    _FAULT.c.message,
    _FAULT.c.details,
    _FAULT.c.created_at,
)


_ACTIONS = (
    sa.select(*_ACTION_COLUMNS)
    .where(_ACTION.c.instance_uuid == sa.bindparam("instance"))
    .order_by(_ACTION.c.id)
)


class Actions:
    """What was asked of instances."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def list(self, instance_uuid: str) -> Sequence[records.Action]:
        """An instance's actions, the oldest first; also of one that is deleted."""
        rows = self._transactions.read(
            lambda connection: connection.execute(_ACTIONS, {"instance": instance_uuid}).all()
        )
        return [records.Action(*row) for row in rows]


class Faults:
    """What went wrong with instances."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def list(self, instance_uuid: str) -> Sequence[records.Fault]:
        """An instance's faults, the newest first; also of one that is deleted."""
        statement = (
            sa.select(*_FAULT_COLUMNS)
            .where(_FAULT.c.instance_uuid == instance_uuid)
            .order_by(_FAULT.c.id.desc())
        )
        rows = self._transactions.read(lambda connection: connection.execute(statement).all())
        return [records.Fault(*row) for row in rows]

    def latest(self, instance_uuid: str) -> records.Fault | None:
        """An instance's newest fault; ``None``: there is none."""
        statement = (
            sa.select(*_FAULT_COLUMNS)
            .where(_FAULT.c.instance_uuid == instance_uuid)
            .order_by(_FAULT.c.id.desc())
            .limit(1)
        )
        row = self._transactions.read(
            lambda connection: connection.execute(statement).one_or_none()
        )
        return records.Fault(*row) if row is not None else None


def new_request_id() -> str:
    """A request id of the form that OpenStack's logs have."""
    return f"req-{uuid.uuid4()}"


def action(
    instance_uuid: str,
    action: str,
    now: datetime.datetime,
    *,
    request_id: str | None = None,
    user_id: str | None = None,
    project_id: str | None = None,
    finished: bool = False,
) -> dict[str, Any]:
    """The row of something that is asked of an instance, or with ``finished``, was done."""
    return {
        "instance_uuid": instance_uuid,
        "action": action,
        "request_id": request_id or new_request_id(),
        "user_id": user_id,
        "project_id": project_id,
        "start_time": now,
        "finish_time": now if finished else None,
        "created_at": now,
    }


def begin_action(
    connection: sa.Connection,
    instance_uuid: str,
    name: str,
    now: datetime.datetime,
    *,
    request_id: str | None = None,
    user_id: str | None = None,
    project_id: str | None = None,
) -> None:
    """Write down that something is asked of an instance."""
    row = action(
        *(instance_uuid, name, now),
        request_id=request_id,
        user_id=user_id,
        project_id=project_id,
    )
    write_actions(connection, [row])


def write_actions(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows of :func:`action` down."""
    if rows:
        connection.execute(sa.insert(_ACTION), rows)


def finish_actions(
    connection: sa.Connection,
    instance_uuid: str,
    now: datetime.datetime,
    message: str | None = None,
) -> None:
    """Write down that whatever was going on has ended; with a ``message``, badly."""
    connection.execute(
        sa.update(_ACTION)
        .where(_ACTION.c.instance_uuid == instance_uuid, _ACTION.c.finish_time.is_(None))
        .values(finish_time=now, message=message, updated_at=now)
    )


def add_fault(
    connection: sa.Connection,
    instance_uuid: str,
    host: str | None,
    fault: records.FaultReport,
    now: datetime.datetime,
) -> None:
    """Write down that something went wrong."""
    connection.execute(
        sa.insert(_FAULT).values(
            instance_uuid=instance_uuid,
            host=host,
            code=fault.code,
            message=fault.message,
            details=fault.details,
            created_at=now,
        )
    )
