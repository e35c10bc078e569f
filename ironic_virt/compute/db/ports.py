# SPDX-License-Identifier: Apache-2.0

"""Which instance has a port, by the records.

Ironic takes a port for a node that another node has already, which then loses its network.
So the records have a row for each that an instance has or is being given, and a unique key
over them: of two requests at the same time one is refused.  The rows are written in the
transactions that change instances.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

import sqlalchemy as sa

from ironic_virt.compute.db import models

_PORT = models.instance_ports


def holder(connection: sa.Connection, port: str, besides: str | None = None) -> str | None:
    """Return the uuid of the instance that has a port or is being given it.

    :param besides: the uuid of an instance that doesn't count.
    :returns: ``None``: no instance has it.
    """
    statement = sa.select(_PORT.c.instance_uuid).where(_PORT.c.port_id == port)
    if besides is not None:
        statement = statement.where(_PORT.c.instance_uuid != besides)
    return connection.scalar(statement)


def take(
    connection: sa.Connection, instance: str, wanted: Iterable[str], now: datetime.datetime
) -> None:
    """Give an instance ports that no other has; it keeps those that it has.

    :raises DBDuplicateEntry: another instance has one of them.
    """
    for port in wanted:
        if holder(connection, port) != instance:
            connection.execute(
                sa.insert(_PORT).values(port_id=port, instance_uuid=instance, created_at=now)
            )


def release(connection: sa.Connection, instance: str, keep: Iterable[str] = ()) -> None:
    """Take an instance's ports away from it.

    :param keep: the ids of those that it keeps.
    """
    connection.execute(
        sa.delete(_PORT).where(
            _PORT.c.instance_uuid == instance, _PORT.c.port_id.not_in(list(keep))
        )
    )
