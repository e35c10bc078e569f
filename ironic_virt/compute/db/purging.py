# SPDX-License-Identifier: Apache-2.0

"""Deleting history: the rows of what was deleted, and what was noted of it.

A transaction deletes a few hundred rows, so that nobody waits for the end of the whole.  One
that was interrupted is started again.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from ironic_virt.compute.db import models
from ironic_virt.compute.db.transactions import SIZE, Transactions

_OF_INSTANCES: Mapping[str, Any] = {
    "actions": models.instance_actions,
    "faults": models.instance_faults,
}
_KINDS: Mapping[str, Any] = {
    "servers": models.instances,
    "compute nodes": models.compute_nodes,
    "services": models.services,
    "flavors": models.flavors,
}


def purge(
    transactions: Transactions, before: datetime.datetime, size: int = SIZE
) -> Mapping[str, int]:
    """Delete the rows of what was deleted before a time.

    :param before: aware.
    :param size: rows of a kind in one transaction.
    :returns: how many rows of each kind were deleted.
    :raises DatabaseUnreachable: in the midst of it; start it again to go on.
    """
    counts = dict.fromkeys([*_KINDS, *_OF_INSTANCES], 0)
    for kind, model in _KINDS.items():

        def work(
            connection: sa.Connection, kind: str = kind, model: Any = model
        ) -> dict[str, int]:
            gone = connection.execute(
                sa.select(model.c.id, *([model.c.uuid] if model is models.instances else []))
                .where(model.c.deleted != 0, model.c.deleted_at < before)
                .order_by(model.c.id)
                .limit(size)
            ).all()
            deleted = {kind: len(gone)}
            if gone and model is models.instances:
                uuids = [row.uuid for row in gone]
                for name, part in _OF_INSTANCES.items():
                    done = connection.execute(
                        sa.delete(part).where(part.c.instance_uuid.in_(uuids))
                    )
                    deleted[name] = done.rowcount
            connection.execute(sa.delete(model).where(model.c.id.in_([row.id for row in gone])))
            return deleted

        while (deleted := transactions.write(work))[kind]:
            for name, count in deleted.items():
                counts[name] += count
    return counts
