# SPDX-License-Identifier: Apache-2.0

"""Pools, which a service has where Ironic picks the node."""

import sqlalchemy as sa
from alembic import op

from ironic_virt.compute.db import types

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "pools",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("compute_node_uuid", sa.String(length=36), nullable=False),
        sa.Column("resource_class", sa.String(length=80), nullable=False),
        sa.Column("placement_class", sa.String(length=96), nullable=False),
        sa.Column("traits", types.long_text(), nullable=False),
        sa.Column("stats", types.long_text(), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("local_gb", sa.Integer(), nullable=False),
        sa.Column("cpu_arch", sa.String(length=64), nullable=True),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("reserved", sa.Integer(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_pools"),
        sa.UniqueConstraint("name", name="uniq_pools_name"),
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_pools_host", "pools", ["host"])
    op.create_index("ix_pools_placement_class", "pools", ["placement_class"])
    op.add_column("instances", sa.Column("pool", sa.String(length=255), nullable=True))
    op.create_index("ix_instances_pool", "instances", ["pool"])
