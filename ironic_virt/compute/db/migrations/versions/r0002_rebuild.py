# SPDX-License-Identifier: Apache-2.0

"""What an instance is to be rebuilt with."""

import sqlalchemy as sa
from alembic import op

from ironic_virt.compute.db import types

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("instances", sa.Column("rebuild", types.Json(), nullable=True))
