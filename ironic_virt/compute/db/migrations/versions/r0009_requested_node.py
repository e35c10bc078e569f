# SPDX-License-Identifier: Apache-2.0

"""The node that was asked for, and questions about nodes.

Questions that wait just then are lost: whoever asked is told that there was no answer.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("instances", sa.Column("requested_node", sa.String(length=36), nullable=True))
    op.execute(sa.text("DELETE FROM questions"))
    with op.batch_alter_table("questions") as table:
        table.alter_column(
            "instance_uuid",
            new_column_name="about",
            existing_type=sa.String(length=36),
            existing_nullable=False,
        )
