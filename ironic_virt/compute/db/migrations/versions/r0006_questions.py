# SPDX-License-Identifier: Apache-2.0

"""Questions of any kind, where there were those for consoles.

Those that wait just then are lost: whoever asked is told that there was no answer.
"""

import sqlalchemy as sa
from alembic import op

from ironic_virt.compute.db import types

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.drop_table("console_requests")
    op.create_table(
        "questions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("answer", types.Json(), nullable=True),
        sa.Column("error", types.long_text(), nullable=True),
        sa.Column("answered", sa.Boolean(), nullable=False),
        sa.Column("expires_at", types.UtcDateTime(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_questions"),
        sa.UniqueConstraint("uuid", name="uniq_questions_uuid"),
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
