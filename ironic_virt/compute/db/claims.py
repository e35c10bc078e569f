# SPDX-License-Identifier: Apache-2.0

"""Claims: which instance has which node, decided by one compare and swap.

A claim stands in the node's own row, so two instances can't have one node, and a
unique key keeps an instance from having two.  A place in a pool stands in the instance's
row, and Ironic's allocation decides about the node.  Functions work within a transaction of
the caller's; :class:`Claims` is the same as one of its own.
"""

from __future__ import annotations

import datetime

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute.db import models
from ironic_virt.compute.db.transactions import Transactions

_NODE = models.ComputeNode
_INSTANCE = models.Instance


class Claims:
    """Claims by themselves, without an instance's record."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def claim(self, node_uuid: str, host: str, instance_uuid: str) -> bool:
        """Give a free node to an instance.

        :param host: the service that is thought to own the node.
        :returns: ``False`` if the node isn't free or isn't that service's, or if the
            instance has another node.  Claiming what the instance has is ``True``.
        """
        try:
            return self._transactions.write(
                lambda connection: claim(
                    connection, node_uuid, host, instance_uuid, self._transactions.now()
                )
            )
        except db_exception.DBDuplicateEntry:
            return False

    def release(self, instance_uuid: str) -> bool:
        """Take an instance's node back; it can be claimed again after its next refresh.

        :returns: whether the instance had one.
        """
        return self._transactions.write(
            lambda connection: release(connection, instance_uuid, self._transactions.now())
        )


def claim(
    connection: sa.Connection,
    node_uuid: str,
    host: str,
    instance_uuid: str,
    now: datetime.datetime,
) -> bool:
    """See :meth:`Claims.claim`.

    :raises DBDuplicateEntry: the instance has another node; the transaction is void.
    """
    # A try that was repeated finds its own claim.
    free = sa.and_(_NODE.instance_uuid.is_(None), _NODE.available == sa.true())
    claimed = connection.execute(
        sa.update(_NODE)
        .where(
            _NODE.deleted == 0,
            _NODE.uuid == node_uuid,
            _NODE.host == host,
            sa.or_(free, _NODE.instance_uuid == instance_uuid),
        )
        .values(instance_uuid=instance_uuid, updated_at=now)
    )
    return bool(claimed.rowcount)


def release(connection: sa.Connection, instance_uuid: str, now: datetime.datetime) -> bool:
    """See :meth:`Claims.release`."""
    placed = release_place(connection, instance_uuid)
    # What the last refresh saw says nothing about the node as it was left.
    released = connection.execute(
        sa.update(_NODE)
        .where(_NODE.instance_uuid == instance_uuid)
        .values(instance_uuid=None, available=False, updated_at=now)
    )
    return bool(released.rowcount) or placed


def release_others(
    connection: sa.Connection, instance_uuid: str, node_uuid: str, now: datetime.datetime
) -> None:
    """Take back what claim an instance has on any node but this one."""
    connection.execute(
        sa.update(_NODE)
        .where(_NODE.instance_uuid == instance_uuid, _NODE.uuid != node_uuid)
        .values(instance_uuid=None, available=False, updated_at=now)
    )


def release_place(connection: sa.Connection, instance_uuid: str) -> bool:
    """Take back an instance's place in a pool; ``False``: it had none."""
    left = connection.execute(
        sa.update(_INSTANCE)
        .where(_INSTANCE.uuid == instance_uuid, _INSTANCE.pool.is_not(None))
        .values(pool=None)
    )
    return bool(left.rowcount)
