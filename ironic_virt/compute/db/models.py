# SPDX-License-Identifier: Apache-2.0

"""The tables.

What leaves this room are the values of :mod:`~ironic_virt.compute.db.records`,
never these classes; statements are written with them.  ``migrations/`` makes
the same tables, which a test compares.

History survives a delete: a row is marked with its own id in ``deleted``, which
is 0 in rows that are in force, and unique keys are over (key, ``deleted``).
Unique keys rely on NULLs being distinct, as they are on all three databases.
"""

from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from ironic_virt.compute.db import types

_UUID = sa.String(36)
_NAME = sa.String(255)
_DIGEST = sa.String(32)
# Names compare to the letter, as on the other databases, and may hold any letter.
_MYSQL = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}


class Base(orm.DeclarativeBase):
    """What all tables have."""

    metadata = sa.MetaData(
        naming_convention={"ix": "ix_%(table_name)s_%(column_0_name)s", "pk": "pk_%(table_name)s"}
    )

    id: orm.Mapped[int] = orm.mapped_column(sa.Integer, primary_key=True, sort_order=-1)
    created_at: orm.Mapped[datetime.datetime] = orm.mapped_column(types.UtcDateTime, sort_order=90)
    updated_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(
        types.UtcDateTime, sort_order=91
    )


class SoftDeleted:
    """A row that stays when it is deleted."""

    deleted_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(
        types.UtcDateTime, sort_order=92
    )
    deleted: orm.Mapped[int] = orm.mapped_column(
        sa.Integer, default=0, server_default="0", sort_order=93
    )


class Service(SoftDeleted, Base):
    """A compute service."""

    __tablename__ = "services"
    __table_args__ = (
        sa.UniqueConstraint("uuid", name="uniq_services_uuid"),
        sa.UniqueConstraint("host", "deleted", name="uniq_services_host"),
        _MYSQL,
    )

    uuid: orm.Mapped[str] = orm.mapped_column(_UUID)
    host: orm.Mapped[str] = orm.mapped_column(_NAME)
    version: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    incarnation: orm.Mapped[str] = orm.mapped_column(_UUID)
    conductor_group: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    shard_key: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    disabled: orm.Mapped[bool] = orm.mapped_column(sa.Boolean)
    disabled_reason: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    forced_down: orm.Mapped[bool] = orm.mapped_column(sa.Boolean)
    report_count: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    last_seen_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(types.UtcDateTime)


class ComputeNode(SoftDeleted, Base):
    """An Ironic node, as of its service's last refresh, and who has claimed it.

    Where Ironic picks the nodes, a service has one such record with its ``pools``.
    """

    __tablename__ = "compute_nodes"
    __table_args__ = (
        sa.UniqueConstraint("deleted", "uuid", name="uniq_compute_nodes_uuid"),
        sa.UniqueConstraint("instance_uuid", name="uniq_compute_nodes_instance_uuid"),
        sa.Index("ix_compute_nodes_host", "host", "deleted", "uuid"),
        # Free nodes by kind and service; db/candidates.py asks for it by name.
        sa.Index(
            "ix_compute_nodes_free",
            *("deleted", "available", "instance_uuid", "kind", "host", "uuid"),
        ),
        _MYSQL,
    )

    uuid: orm.Mapped[str] = orm.mapped_column(_UUID)
    host: orm.Mapped[str] = orm.mapped_column(_NAME)
    hypervisor_type: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    hypervisor_version: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    kind: orm.Mapped[str] = orm.mapped_column(_DIGEST)
    cpu_arch: orm.Mapped[str | None] = orm.mapped_column(sa.String(64))
    stats: orm.Mapped[str] = orm.mapped_column(types.long_text())
    in_use: orm.Mapped[bool] = orm.mapped_column(sa.Boolean)
    available: orm.Mapped[bool] = orm.mapped_column(sa.Boolean)
    instance_uuid: orm.Mapped[str | None] = orm.mapped_column(_UUID)
    pools: orm.Mapped[str | None] = orm.mapped_column(types.long_text())


class NodeKind(Base):
    """What nodes that are alike have in common; never changed."""

    __tablename__ = "node_kinds"
    __table_args__ = (
        sa.UniqueConstraint("digest", name="uniq_node_kinds_digest"),
        sa.Index("ix_node_kinds_sizes", "memory_mb", "vcpus", "local_gb", "trait_count", "digest"),
        _MYSQL,
    )

    digest: orm.Mapped[str] = orm.mapped_column(_DIGEST)
    resource_class: orm.Mapped[str | None] = orm.mapped_column(sa.String(80))
    placement_class: orm.Mapped[str] = orm.mapped_column(sa.String(96))
    vcpus: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    memory_mb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    local_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    traits: orm.Mapped[str] = orm.mapped_column(types.long_text())
    trait_count: orm.Mapped[int] = orm.mapped_column(sa.Integer)


class NodeKindTrait(Base):
    """A trait of a kind of nodes."""

    __tablename__ = "node_kind_traits"
    __table_args__ = (
        sa.UniqueConstraint("trait", "kind", name="uniq_node_kind_traits_trait"),
        _MYSQL,
    )

    kind: orm.Mapped[str] = orm.mapped_column(_DIGEST)
    trait: orm.Mapped[str] = orm.mapped_column(_NAME)


class Instance(SoftDeleted, Base):
    """An instance, and what is wanted of it.

    ``pool`` is the one that it has a place of; ``node`` is then empty until Ironic has
    reserved one.
    """

    __tablename__ = "instances"
    __table_args__ = (
        sa.UniqueConstraint("uuid", name="uniq_instances_uuid"),
        # The second line of defence: the first are claims.
        sa.UniqueConstraint("node", "deleted", name="uniq_instances_node"),
        sa.Index("ix_instances_host", "host", "deleted", "task_state"),
        sa.Index("ix_instances_display_name", "display_name", "deleted"),
        sa.Index("ix_instances_deleted", "deleted", "created_at"),
        sa.Index("ix_instances_pool", "pool"),
        _MYSQL,
    )

    uuid: orm.Mapped[str] = orm.mapped_column(_UUID)
    display_name: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    host: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    node: orm.Mapped[str | None] = orm.mapped_column(_UUID)
    pool: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    requested_node: orm.Mapped[str | None] = orm.mapped_column(_UUID)
    vm_state: orm.Mapped[str] = orm.mapped_column(sa.String(32))
    task_state: orm.Mapped[str | None] = orm.mapped_column(sa.String(32))
    power_state: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    flavor: orm.Mapped[Any] = orm.mapped_column(types.Json)
    image: orm.Mapped[Any] = orm.mapped_column(types.Json)
    # The arguments of what is wanted, a password perhaps; only while it is wanted.
    task_args: orm.Mapped[Any] = orm.mapped_column(types.Json, nullable=True)
    ports: orm.Mapped[Any] = orm.mapped_column(types.Json)
    networks: orm.Mapped[Any] = orm.mapped_column(types.Json, nullable=True)
    user_data: orm.Mapped[Any] = orm.mapped_column(types.TextOrBytes, nullable=True)
    key_name: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    public_key: orm.Mapped[str | None] = orm.mapped_column(types.long_text())
    properties: orm.Mapped[Any] = orm.mapped_column(types.Json)
    project_id: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    user_id: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    progress_step: orm.Mapped[str | None] = orm.mapped_column(sa.String(64))
    progress_detail: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    progress_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(types.UtcDateTime)
    attempts: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    refusals: orm.Mapped[int] = orm.mapped_column(sa.Integer, default=0, server_default="0")
    tried_nodes: orm.Mapped[Any] = orm.mapped_column(types.Json)
    launched_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(types.UtcDateTime)
    terminated_at: orm.Mapped[datetime.datetime | None] = orm.mapped_column(types.UtcDateTime)


class InstancePort(Base):
    """A port that an instance has or is being given; gone when it has it no more."""

    __tablename__ = "instance_ports"
    __table_args__ = (
        sa.UniqueConstraint("port_id", name="uniq_instance_ports_port_id"),
        sa.Index("ix_instance_ports_instance_uuid", "instance_uuid"),
        _MYSQL,
    )

    port_id: orm.Mapped[str] = orm.mapped_column(_NAME)
    instance_uuid: orm.Mapped[str] = orm.mapped_column(_UUID)


class InstanceAction(Base):
    """Something that was asked of an instance, and how it ended; never deleted."""

    __tablename__ = "instance_actions"
    __table_args__ = (
        sa.Index("ix_instance_actions_instance_uuid", "instance_uuid", "finish_time"),
        sa.Index("ix_instance_actions_request_id", "request_id"),
        _MYSQL,
    )

    instance_uuid: orm.Mapped[str] = orm.mapped_column(_UUID)
    action: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    request_id: orm.Mapped[str] = orm.mapped_column(sa.String(64))
    user_id: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    project_id: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    start_time: orm.Mapped[datetime.datetime] = orm.mapped_column(types.UtcDateTime)
    finish_time: orm.Mapped[datetime.datetime | None] = orm.mapped_column(types.UtcDateTime)
    message: orm.Mapped[str | None] = orm.mapped_column(types.long_text())


class InstanceFault(Base):
    """Something that went wrong with an instance; never deleted."""

    __tablename__ = "instance_faults"
    __table_args__ = (
        sa.Index("ix_instance_faults_instance_uuid", "instance_uuid", "id"),
        _MYSQL,
    )

    instance_uuid: orm.Mapped[str] = orm.mapped_column(_UUID)
    host: orm.Mapped[str | None] = orm.mapped_column(_NAME)
    code: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    message: orm.Mapped[str] = orm.mapped_column(types.long_text())
    details: orm.Mapped[str | None] = orm.mapped_column(types.long_text())


class Flavor(SoftDeleted, Base):
    """A size that instances can be asked for in."""

    __tablename__ = "flavors"
    __table_args__ = (
        sa.UniqueConstraint("name", "deleted", name="uniq_flavors_name"),
        _MYSQL,
    )

    name: orm.Mapped[str] = orm.mapped_column(_NAME)
    vcpus: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    memory_mb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    root_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    ephemeral_gb: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    swap: orm.Mapped[int] = orm.mapped_column(sa.Integer)
    extra_specs: orm.Mapped[Any] = orm.mapped_column(types.Json)
