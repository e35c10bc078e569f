# SPDX-License-Identifier: Apache-2.0

"""The first tables."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from ironic_virt.compute.db import types

revision = "0001"
down_revision = None

_TABLE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}


def upgrade() -> None:
    _services()
    _compute_nodes()
    _instances()
    _instance_actions()
    _instance_faults()
    _flavors()


def _services() -> None:
    op.create_table(
        "services",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("incarnation", sa.String(length=36), nullable=False),
        sa.Column("conductor_group", sa.String(length=255), nullable=True),
        sa.Column("shard_key", sa.String(length=255), nullable=True),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.String(length=255), nullable=True),
        sa.Column("forced_down", sa.Boolean(), nullable=False),
        sa.Column("report_count", sa.Integer(), nullable=False),
        sa.Column("last_seen_at", types.UtcDateTime(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=True),
        sa.Column("deleted_at", types.UtcDateTime(), nullable=True),
        sa.Column("deleted", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_services"),
        sa.UniqueConstraint("host", "deleted", name="uniq_services_host"),
        sa.UniqueConstraint("uuid", name="uniq_services_uuid"),
        **_TABLE,
    )


def _compute_nodes() -> None:
    op.create_table(
        "compute_nodes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("hypervisor_type", sa.String(length=64), nullable=False),
        sa.Column("hypervisor_version", sa.Integer(), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("local_gb", sa.Integer(), nullable=False),
        sa.Column("cpu_arch", sa.String(length=64), nullable=True),
        sa.Column("resource_class", sa.String(length=80), nullable=True),
        sa.Column("placement_class", sa.String(length=96), nullable=False),
        sa.Column("traits", types.long_text(), nullable=False),
        sa.Column("stats", types.long_text(), nullable=False),
        sa.Column("in_use", sa.Boolean(), nullable=False),
        sa.Column("available", sa.Boolean(), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=True),
        sa.Column("deleted_at", types.UtcDateTime(), nullable=True),
        sa.Column("deleted", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_compute_nodes"),
        sa.UniqueConstraint("instance_uuid", name="uniq_compute_nodes_instance_uuid"),
        sa.UniqueConstraint("deleted", "uuid", name="uniq_compute_nodes_uuid"),
        **_TABLE,
    )
    op.create_index(
        "ix_compute_nodes_free_class_sizes",
        "compute_nodes",
        [
            "deleted",
            "available",
            "instance_uuid",
            "placement_class",
            "memory_mb",
            "vcpus",
            "local_gb",
            "uuid",
            "host",
        ],
    )
    op.create_index(
        "ix_compute_nodes_free_sizes",
        "compute_nodes",
        [
            "deleted",
            "available",
            "instance_uuid",
            "memory_mb",
            "vcpus",
            "local_gb",
            "uuid",
            "host",
        ],
    )
    op.create_index("ix_compute_nodes_host", "compute_nodes", ["host", "deleted", "uuid"])


def _instances() -> None:
    op.create_table(
        "instances",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("display_name", sa.String(length=255), nullable=True),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("node", sa.String(length=36), nullable=True),
        sa.Column("vm_state", sa.String(length=32), nullable=False),
        sa.Column("task_state", sa.String(length=32), nullable=True),
        sa.Column("power_state", sa.Integer(), nullable=False),
        sa.Column("flavor", types.Json(), nullable=False),
        sa.Column("image", types.Json(), nullable=False),
        sa.Column("ports", types.Json(), nullable=False),
        sa.Column("user_data", types.long_text(), nullable=True),
        sa.Column("key_name", sa.String(length=255), nullable=True),
        sa.Column("public_key", types.long_text(), nullable=True),
        sa.Column("properties", types.Json(), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=True),
        sa.Column("user_id", sa.String(length=255), nullable=True),
        sa.Column("progress_step", sa.String(length=64), nullable=True),
        sa.Column("progress_detail", sa.String(length=255), nullable=True),
        sa.Column("progress_at", types.UtcDateTime(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("tried_nodes", types.Json(), nullable=False),
        sa.Column("launched_at", types.UtcDateTime(), nullable=True),
        sa.Column("terminated_at", types.UtcDateTime(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=True),
        sa.Column("deleted_at", types.UtcDateTime(), nullable=True),
        sa.Column("deleted", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_instances"),
        sa.UniqueConstraint("node", "deleted", name="uniq_instances_node"),
        sa.UniqueConstraint("uuid", name="uniq_instances_uuid"),
        **_TABLE,
    )
    op.create_index("ix_instances_deleted", "instances", ["deleted", "created_at"])
    op.create_index("ix_instances_display_name", "instances", ["display_name", "deleted"])
    op.create_index("ix_instances_host", "instances", ["host", "deleted", "task_state"])


def _instance_actions() -> None:
    op.create_table(
        "instance_actions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=True),
        sa.Column("project_id", sa.String(length=255), nullable=True),
        sa.Column("start_time", types.UtcDateTime(), nullable=False),
        sa.Column("finish_time", types.UtcDateTime(), nullable=True),
        sa.Column("message", types.long_text(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_instance_actions"),
        **_TABLE,
    )
    op.create_index(
        "ix_instance_actions_instance_uuid", "instance_actions", ["instance_uuid", "finish_time"]
    )
    op.create_index("ix_instance_actions_request_id", "instance_actions", ["request_id"])


def _instance_faults() -> None:
    op.create_table(
        "instance_faults",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("code", sa.Integer(), nullable=False),
        sa.Column("message", types.long_text(), nullable=False),
        sa.Column("details", types.long_text(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_instance_faults"),
        **_TABLE,
    )
    op.create_index("ix_instance_faults_instance_uuid", "instance_faults", ["instance_uuid", "id"])


def _flavors() -> None:
    op.create_table(
        "flavors",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("root_gb", sa.Integer(), nullable=False),
        sa.Column("ephemeral_gb", sa.Integer(), nullable=False),
        sa.Column("swap", sa.Integer(), nullable=False),
        sa.Column("extra_specs", types.Json(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=True),
        sa.Column("deleted_at", types.UtcDateTime(), nullable=True),
        sa.Column("deleted", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_flavors"),
        sa.UniqueConstraint("name", "deleted", name="uniq_flavors_name"),
        **_TABLE,
    )
