# SPDX-License-Identifier: Apache-2.0

"""Names of pools that Ironic understands: ``gold@compute1`` becomes ``gold~compute1``."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    for table, column in (("pools", "name"), ("instances", "pool")):
        name: sa.ColumnClause[str] = sa.column(column)
        rows = sa.table(table, name)
        formers = op.get_bind().scalars(sa.select(name).where(name.contains("@")).distinct())
        for former in formers.all():
            # Where there are none, it takes no time.
            from ironic_virt.driver import pools

            new = pools.renamed(former, former.rpartition("@")[2])
            op.execute(sa.update(rows).where(name == former).values({column: new}))
