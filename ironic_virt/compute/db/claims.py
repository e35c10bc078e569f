# SPDX-License-Identifier: Apache-2.0

"""Claims: which instance has which node, decided by one conditional UPDATE.

A claim stands in the node's own row, so two instances can't have one node, and a
unique key keeps an instance from having two.  A place in a pool stands in the instance's
row, and Ironic's allocation decides about the node.  Functions work within a transaction of
the caller's.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import sqlalchemy as sa

from ironic_virt.compute.db import models, pools, records

_NODE = models.compute_nodes
_INSTANCE = models.instances


class Chosen(Protocol):
    """The node that was picked, and the service that is thought to own it."""

    @property
    def uuid(self) -> str: ...
    @property
    def host(self) -> str: ...


def claim_all(
    connection: sa.Connection, wanted: Sequence[tuple[str, Chosen]], now: datetime.datetime
) -> Sequence[bool]:
    """Give each of several instances its node, or its place in a pool.

    :param wanted: the instances' uuids, and what was chosen for them; no node twice.  One that
        is not free, or has another owner by now, is not given.
    :returns: for each of them whether it has got that.
    :raises DBDuplicateEntry: an instance has another node; the transaction is void.
    """
    got: set[str] = set()
    free: dict[str, Counter[str]] = {}
    # In one order, so that two who claim at the same time don't wait for each other in a circle.
    for instance, chosen in sorted(wanted, key=lambda pair: (pair[1].host, pair[1].uuid)):
        if not isinstance(chosen, records.NodePool):
            if _claim(connection, instance, chosen, now):
                got.add(instance)
            continue
        if chosen.host not in free:
            free[chosen.host] = pools.free_places(connection, chosen.host)
        if free[chosen.host][chosen.name] > 0:
            free[chosen.host][chosen.name] -= 1
            got.add(instance)
    return [instance in got for instance, _ in wanted]


def _claim(
    connection: sa.Connection, instance: str, chosen: Chosen, now: datetime.datetime
) -> bool:
    free = sa.and_(_NODE.c.instance_uuid.is_(None), _NODE.c.available == sa.true())
    claimed = connection.execute(
        sa.update(_NODE)
        .where(_NODE.c.uuid == chosen.uuid, _NODE.c.host == chosen.host)
        .where(sa.or_(free, _NODE.c.instance_uuid == instance))
        .values(instance_uuid=instance, updated_at=now)
    )
    return bool(claimed.rowcount)


def release(connection: sa.Connection, instance_uuid: str, now: datetime.datetime) -> None:
    """Take an instance's place in a pool and its node back.

    The node can be claimed again after its next refresh.
    """
    connection.execute(
        sa.update(_INSTANCE)
        .where(_INSTANCE.c.uuid == instance_uuid, _INSTANCE.c.pool.is_not(None))
        .values(pool=None)
    )
    release_nodes(connection, instance_uuid, now)


def release_nodes(
    connection: sa.Connection,
    instance_uuid: str,
    now: datetime.datetime,
    *,
    but: str | None = None,
) -> None:
    """Take back what claim an instance has on any node.

    :param but: not on this one.
    """
    # What the last refresh saw says nothing about the node as it was left.
    connection.execute(
        sa.update(_NODE)
        .where(_NODE.c.instance_uuid == instance_uuid)
        .where(*([] if but is None else [_NODE.c.uuid != but]))
        .values(instance_uuid=None, available=False, cleaning=True, updated_at=now)
    )
