# SPDX-License-Identifier: Apache-2.0

"""Clone one node's row, with its traits, in Ironic's database.

The API makes some 20 nodes a second; this makes thousands.  Runs with the
Python of Ironic's virtualenv: ``clone_nodes.py DATABASE_URL SOURCE_UUID``, the
clones as a JSON list of objects on standard input.  Each object holds the
columns that differ from the source node's; ``uuid`` is required.
"""

import importlib
import json
import sys
from typing import Any

# What makes a node taken, or names it: no clone starts with the source's.
CLEARED = {
    "name": None,
    "instance_uuid": None,
    "allocation_id": None,
    "reservation": None,
    "updated_at": None,
}


def clone(url: str, source: str, differences: list[dict[str, Any]]) -> None:
    """Insert all clones in one transaction, so that a reader sees all or none."""
    sqlalchemy: Any = importlib.import_module("sqlalchemy")
    engine = sqlalchemy.create_engine(url)
    metadata = sqlalchemy.MetaData()
    nodes = sqlalchemy.Table("nodes", metadata, autoload_with=engine)
    traits = sqlalchemy.Table("node_traits", metadata, autoload_with=engine)
    with engine.begin() as connection:
        row = connection.execute(nodes.select().where(nodes.c.uuid == source)).mappings().one()
        source_traits = list(
            connection.execute(traits.select().where(traits.c.node_id == row["id"])).mappings()
        )
        template = {name: value for name, value in row.items() if name != "id"} | CLEARED
        connection.execute(nodes.insert(), [template | difference for difference in differences])
        if source_traits:
            uuids = {difference["uuid"] for difference in differences}
            ids = [
                new_id
                for new_id, uuid in connection.execute(sqlalchemy.select(nodes.c.id, nodes.c.uuid))
                if uuid in uuids
            ]
            connection.execute(
                traits.insert(),
                [dict(trait, node_id=new_id) for new_id in ids for trait in source_traits],
            )
    engine.dispose()


if __name__ == "__main__":
    clone(sys.argv[1], sys.argv[2], json.load(sys.stdin))
