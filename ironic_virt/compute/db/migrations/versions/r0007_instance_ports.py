# SPDX-License-Identifier: Apache-2.0

"""Ports with the instance that has each, so that none has two.

Where two have one already, the older instance keeps it here; nothing else is changed.
"""

import datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from ironic_virt.compute.db import types

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    made = op.create_table(
        "instance_ports",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("port_id", sa.String(length=255), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_instance_ports"),
        sa.UniqueConstraint("port_id", name="uniq_instance_ports_port_id"),
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_instance_ports_instance_uuid", "instance_ports", ["instance_uuid"])
    rows = _rows(op.get_bind())
    if rows:
        op.bulk_insert(made, rows)


def _rows(connection: sa.Connection) -> list[dict[str, Any]]:
    """What the instances that have a host have, or are about to have."""
    instances = sa.table(
        "instances",
        *(sa.column(name) for name in ("id", "uuid", "host", "deleted")),
        *(sa.column(name, types.Json()) for name in ("ports", "interface")),
    )
    columns = instances.c
    statement = (
        sa.select(columns.uuid, columns.ports, columns.interface)
        .where(columns.deleted == 0, columns.host.is_not(None))
        .order_by(columns.id)
    )
    now = datetime.datetime.now(datetime.UTC)
    found: dict[str, str] = {}
    for uuid, ports, interface in connection.execute(statement):
        for port in [*ports, *([interface] if interface else [])]:
            # As keys compare: without blanks at the end.
            found.setdefault(port["id"].rstrip(" "), uuid)
    return [
        {"port_id": port, "instance_uuid": uuid, "created_at": now} for port, uuid in found.items()
    ]
