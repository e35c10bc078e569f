# SPDX-License-Identifier: Apache-2.0

"""That an NMI is about to be sent, so that no second one is."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column(
        "instances", sa.Column("crash_dump_attempt", sa.String(length=36), nullable=True)
    )
