# SPDX-License-Identifier: Apache-2.0

"""The tables.

What leaves this room are the values of :mod:`~ironic_virt.compute.db.records`,
never rows of these; statements are written with them.  A change here raises the version in
:mod:`~ironic_virt.compute.db.schema`.

A delete removes the row, so nothing secret stays.  Unique keys rely on NULLs being distinct, as
they are on all three databases.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import sqlalchemy as sa

from ironic_virt.compute.db import types

_UUID = sa.String(36)
_NAME = sa.String(255)
# Names compare to the letter, as on the other databases, and may hold any letter.
# schema.py adds these when it makes a table.  A table that is defined with them
# makes SQLAlchemy import MySQL's dialect, which costs each command time.
MYSQL = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}

METADATA = sa.MetaData(
    naming_convention={"ix": "ix_%(table_name)s_%(column_0_name)s", "pk": "pk_%(table_name)s"}
)


def _required(name: str, kind: Any, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, **more)


def _table(name: str, *content: sa.schema.SchemaItem) -> sa.Table:
    """A table with what all have."""
    columns = [item for item in content if isinstance(item, sa.Column)]
    return sa.Table(
        name,
        METADATA,
        sa.Column("id", sa.Integer, primary_key=True),
        *columns,
        _required("created_at", types.UtcDateTime),
        sa.Column("updated_at", types.UtcDateTime),
        *(item for item in content if not isinstance(item, sa.Column)),
    )


def columns(table: sa.Table, kind: type, **others: Any) -> tuple[Any, ...]:
    """The columns that are the fields of a value, in their order.

    :param others: those that the table has under another name, or not at all.
    """
    names = (field.name for field in dataclasses.fields(kind))
    return tuple(others.get(name, table.c.get(name)) for name in names)


schema_version = sa.Table(
    "schema_version",
    METADATA,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
)
"""Which version the tables have; one row."""

services = _table(
    "services",
    _required("uuid", _UUID),
    _required("host", _NAME),
    _required("version", sa.String(64)),
    _required("incarnation", _UUID),
    sa.Column("conductor_group", _NAME),
    sa.Column("shard_key", _NAME),
    _required("disabled", sa.Boolean),
    sa.Column("disabled_reason", _NAME),
    _required("forced_down", sa.Boolean),
    _required("report_count", sa.Integer),
    sa.Column("last_seen_at", types.UtcDateTime),
    sa.Column("pools", types.LongText),
    sa.UniqueConstraint("uuid", name="uniq_services_uuid"),
    sa.UniqueConstraint("host", name="uniq_services_host"),
)
"""A compute service, and where Ironic picks the nodes, its ``pools``."""

compute_nodes = _table(
    "compute_nodes",
    _required("uuid", _UUID),
    sa.Column("name", _NAME),
    _required("host", _NAME),
    _required("vcpus", sa.Integer),
    _required("memory_mb", sa.Integer),
    _required("local_gb", sa.Integer),
    sa.Column("cpu_arch", sa.String(64)),
    sa.Column("resource_class", sa.String(80)),
    # In Placement's form; empty: it has none.
    _required("placement_class", sa.String(96)),
    _required("traits", types.LongText),
    _required("stats", types.LongText),
    _required("in_use", sa.Boolean),
    _required("available", sa.Boolean),
    _required("cleaning", sa.Boolean),
    sa.Column("instance_uuid", _UUID),
    sa.UniqueConstraint("uuid", name="uniq_compute_nodes_uuid"),
    sa.UniqueConstraint("instance_uuid", name="uniq_compute_nodes_instance_uuid"),
    sa.Index("ix_compute_nodes_host", "host", "uuid"),
    sa.Index("ix_compute_nodes_free", "available", "instance_uuid", "placement_class", "uuid"),
)
"""An Ironic node, as of its service's last refresh, and who has claimed it."""

instances = _table(
    "instances",
    _required("uuid", _UUID),
    sa.Column("display_name", _NAME),
    sa.Column("host", _NAME),
    sa.Column("node", _UUID),
    sa.Column("pool", _NAME),
    sa.Column("requested_node", _UUID),
    _required("vm_state", sa.String(32)),
    sa.Column("task_state", sa.String(32)),
    _required("power_state", sa.Integer),
    _required("flavor", types.Json),
    _required("image", types.Json),
    # The arguments of what is wanted, a password perhaps; only while it is wanted.
    sa.Column("task_args", types.Json),
    _required("ports", types.Json),
    sa.Column("networks", types.Json),
    sa.Column("user_data", types.TextOrBytes),
    sa.Column("key_name", _NAME),
    sa.Column("public_key", types.LongText),
    _required("properties", types.Json),
    sa.Column("project_id", _NAME),
    sa.Column("user_id", _NAME),
    # Of the last request, and what went wrong last.
    sa.Column("request_id", sa.String(64)),
    sa.Column("fault", types.Json),
    sa.Column("progress_step", sa.String(64)),
    sa.Column("progress_detail", _NAME),
    sa.Column("progress_at", types.UtcDateTime),
    _required("attempts", sa.Integer),
    _required("refusals", sa.Integer, default=0, server_default="0"),
    _required("tried_nodes", types.Json),
    sa.Column("launched_at", types.UtcDateTime),
    sa.UniqueConstraint("uuid", name="uniq_instances_uuid"),
    # The second line of defence: the first are claims.
    sa.UniqueConstraint("node", name="uniq_instances_node"),
    sa.Index("ix_instances_host", "host", "task_state"),
    sa.Index("ix_instances_display_name", "display_name"),
    sa.Index("ix_instances_pool", "pool"),
)
"""An instance, and what is wanted of it.

``pool`` is the one that it has a place of; ``node`` is then empty until Ironic has
reserved one.
"""

instance_ports = _table(
    "instance_ports",
    _required("port_id", _NAME),
    _required("instance_uuid", _UUID),
    sa.UniqueConstraint("port_id", name="uniq_instance_ports_port_id"),
    sa.Index("ix_instance_ports_instance_uuid", "instance_uuid"),
)
"""A port that an instance has or is being given; gone when it has it no more."""

flavors = _table(
    "flavors",
    _required("name", _NAME),
    _required("vcpus", sa.Integer),
    _required("memory_mb", sa.Integer),
    _required("root_gb", sa.Integer),
    _required("ephemeral_gb", sa.Integer),
    _required("swap", sa.Integer),
    _required("extra_specs", types.Json),
    sa.UniqueConstraint("name", name="uniq_flavors_name"),
)
"""A size that instances can be asked for in."""
