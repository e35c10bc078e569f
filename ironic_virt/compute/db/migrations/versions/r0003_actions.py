# SPDX-License-Identifier: Apache-2.0

"""What an instance is to be rescued with, the interface that comes or goes, and consoles."""

import sqlalchemy as sa
from alembic import op

from ironic_virt.compute.db import types

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("instances", sa.Column("rescue_password", types.long_text(), nullable=True))
    op.add_column("instances", sa.Column("interface", types.Json(), nullable=True))
    op.create_table(
        "console_requests",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("address", types.Json(), nullable=True),
        sa.Column("error", types.long_text(), nullable=True),
        sa.Column("answered", sa.Boolean(), nullable=False),
        sa.Column("expires_at", types.UtcDateTime(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_console_requests"),
        sa.UniqueConstraint("uuid", name="uniq_console_requests_uuid"),
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
