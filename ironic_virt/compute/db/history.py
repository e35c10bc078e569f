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
from ironic_virt.compute.db.transactions import Part

_ACTION = models.instance_actions
_FAULT = models.instance_faults
_ALL_ACTIONS = sa.select(*models.columns(_ACTION, records.Action)).where(
    _ACTION.c.instance_uuid == sa.bindparam("instance")
)
_ACTIONS = _ALL_ACTIONS.order_by(_ACTION.c.id)
_UNFINISHED = (
    _ALL_ACTIONS.where(_ACTION.c.finish_time.is_(None)).order_by(_ACTION.c.id.desc()).limit(1)
)
_FAULTS = (
    sa.select(*models.columns(_FAULT, records.Fault))
    .where(_FAULT.c.instance_uuid == sa.bindparam("instance"))
    .order_by(_FAULT.c.id.desc())
)


class Actions(Part):
    """What was asked of instances."""

    def list(self, instance_uuid: str) -> Sequence[records.Action]:
        """An instance's actions, the oldest first; also of one that is deleted."""
        rows = self._rows(_ACTIONS, {"instance": instance_uuid})
        return [records.Action(*row) for row in rows]


class Faults(Part):
    """What went wrong with instances."""

    def list(self, instance_uuid: str) -> Sequence[records.Fault]:
        """An instance's faults, the newest first; also of one that is deleted."""
        rows = self._rows(_FAULTS, {"instance": instance_uuid})
        return [records.Fault(*row) for row in rows]

    def latest(self, instance_uuid: str) -> records.Fault | None:
        """An instance's newest fault; ``None``: there is none."""
        rows = self._rows(_FAULTS.limit(1), {"instance": instance_uuid})
        return records.Fault(*rows[0]) if rows else None


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


def unfinished(connection: sa.Connection, instance_uuid: str) -> records.Action | None:
    """The action that an instance's task carries out; ``None``: there is none."""
    row = connection.execute(_UNFINISHED, {"instance": instance_uuid}).one_or_none()
    return None if row is None else records.Action(*row)


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
