# SPDX-License-Identifier: Apache-2.0

"""Instances' volumes, with a key, so that no two have one."""

import sqlalchemy as sa
from alembic import op

from ironic_virt.compute.db import types

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("instances", sa.Column("volumes", types.Json(), nullable=True))
    op.add_column("instances", sa.Column("volume_connections", types.Json(), nullable=True))
    op.create_table(
        "instance_volumes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("volume_id", sa.String(length=255), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_instance_volumes"),
        sa.UniqueConstraint("volume_id", name="uniq_instance_volumes_volume_id"),
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_instance_volumes_instance_uuid", "instance_volumes", ["instance_uuid"])
