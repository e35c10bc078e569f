# SPDX-License-Identifier: Apache-2.0

"""What an instance is to be rescued with, and the interface that comes or goes."""

import sqlalchemy as sa
from alembic import op

from ironic_virt.compute.db import types

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("instances", sa.Column("rescue_password", types.long_text(), nullable=True))
    op.add_column("instances", sa.Column("interface", types.Json(), nullable=True))
