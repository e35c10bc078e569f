# SPDX-License-Identifier: Apache-2.0

"""The first tables: those of the models that are missing, with their indexes.

MariaDB commits each statement that changes a table, so a sync that was cut off leaves
some of it behind.  Each step looks whether it is done; a repeated sync goes on from there.
A later revision does the same, since here a new database gets its tables as they are now.
"""

import sqlalchemy as sa
from alembic import op

from ironic_virt.compute.db import models

revision = "0001"
down_revision = None


def upgrade() -> None:
    connection = op.get_bind()
    there = set(sa.inspect(connection).get_table_names())
    for table in models.METADATA.sorted_tables:
        if table.name not in there:
            table.kwargs.update(models.MYSQL)
            table.create(connection)
            continue
        indexes = {found["name"] for found in sa.inspect(connection).get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in indexes:
                index.create(connection)
