# SPDX-License-Identifier: Apache-2.0

"""Compute nodes: which service has which Ironic node, and what the node is like.

A service writes what it sees of its own nodes.  It never writes claims, and it
never takes a record from another service, unless it is told to and nothing is on
the node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import compute_node_rows, models, records
from ironic_virt.compute.db.compute_node_rows import REPORTED, record, reported
from ironic_virt.compute.db.transactions import SIZE, Part, chunks, rows_in

_NODE = models.compute_nodes
_PAGE = 1000
_HINT = "where Ironic picks the nodes, there are pools of them ('ironic-virt node list --pools')"
_UUID, _HOST, _FIRST = range(3)
_STORED = (_NODE.c.uuid, _NODE.c.host, *(_NODE.c[name] for name in REPORTED))
_HAS_INSTANCE = sa.exists().where(models.instances.c.node == _NODE.c.uuid).correlate(_NODE)

_UNUSED = (_NODE.c.instance_uuid.is_(None), ~_HAS_INSTANCE)


class ComputeNodes(Part):
    """The records of compute nodes."""

    def list(self, host: str | None = None) -> Sequence[records.ComputeNode]:
        """Compute nodes in the order of their uuids.

        :param host: of this service only.
        """
        statement = compute_node_rows.select().order_by(_NODE.c.uuid)
        if host is not None:
            statement = statement.where(_NODE.c.host == host)
        return [record(row) for row in self._rows(statement)]

    def get(self, uuid: str) -> records.ComputeNode:
        """One compute node.

        :raises ComputeNodeNotFound: there is no record of it.
        """
        return self._transactions.read(lambda connection: get(connection, uuid))

    def uuids(self, host: str) -> Sequence[str]:
        """The uuids of a service's nodes, sorted."""
        statement = sa.select(_NODE.c.uuid).where(_NODE.c.host == host).order_by(_NODE.c.uuid)
        return [uuid for (uuid,) in self._rows(statement)]

    def owners(self, uuids: Collection[str], host: str = "") -> Mapping[str, str]:
        """The services that have nodes, by the node's uuid; without a record it is left out.

        :param host: the service that has most of them.
        """
        columns = (_NODE.c.uuid, _NODE.c.host)
        rows = self._transactions.read(lambda connection: _some(connection, columns, host, uuids))
        return {row[_UUID]: row[_HOST] for row in rows}

    def save(
        self, host: str, nodes: Iterable[records.NodeReport], *, take_over: bool = False
    ) -> Mapping[str, str]:
        """Write down how a service's nodes are; only what differs is written.

        :param take_over: take nodes from other services too, unless an instance has
            the node or has claimed it.
        :returns: the nodes that another service has, with its name; they were left alone.
        """
        wanted = {node.uuid: reported(node) for node in nodes}
        for last in (False, False, True):
            stored = self._stored(host, wanted)
            foreign = [row[_UUID] for row in stored.values() if row[_HOST] != host]
            if foreign and take_over:
                self._take_over(host, foreign)
                stored = self._stored(host, wanted)
            try:
                self._write(host, wanted, stored)
                break
            except db_exception.DBDuplicateEntry:
                # Another service made a record of the same node just now.
                if last:
                    raise
        return {uuid: row[_HOST] for uuid, row in stored.items() if row[_HOST] != host}

    def _stored(self, host: str, wanted: Collection[str]) -> dict[str, sa.Row[*tuple[Any, ...]]]:
        rows = self._transactions.read(lambda connection: _some(connection, _STORED, host, wanted))
        return {row[_UUID]: row for row in rows}

    def _take_over(self, host: str, uuids: Sequence[str]) -> None:
        now = self._transactions.now()
        for some in chunks(sorted(uuids)):
            statement = (
                sa.update(_NODE)
                .where(*_UNUSED, _NODE.c.uuid.in_(some))
                .values(host=host, updated_at=now)
            )
            self._execute(statement)

    def _execute(
        self, statement: sa.Executable, rows: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        self._transactions.write(lambda connection: connection.execute(statement, rows))

    def _write(
        self,
        host: str,
        wanted: Mapping[str, tuple[Any, ...]],
        stored: Mapping[str, sa.Row[*tuple[Any, ...]]],
    ) -> None:
        now = self._transactions.now()
        new = [
            {
                **dict(zip(REPORTED, values, strict=True)),
                "uuid": uuid,
                "host": host,
                "created_at": now,
            }
            for uuid, values in wanted.items()
            if uuid not in stored
        ]
        for some in chunks(new, _PAGE):
            self._execute(sa.insert(_NODE), some)
        for changes, uuids in _differences(host, wanted, stored).items():
            for chunk in chunks(uuids):
                statement = (
                    sa.update(_NODE)
                    .where(_NODE.c.host == host, _NODE.c.uuid.in_(chunk))
                    .values(**dict(changes), updated_at=now)
                )
                self._execute(statement)

    def withdraw(self, host: str, uuids: Collection[str] | None = None) -> int:
        """See that nobody is given a service's nodes until their next report.

        :param uuids: of these nodes; ``None``: of all.
        :returns: how many were offered until now.
        """
        may_be_free = sa.or_(_NODE.c.available == sa.true(), _NODE.c.cleaning == sa.true())
        offered = (_NODE.c.host == host, may_be_free)
        which = [()] if uuids is None else [(_NODE.c.uuid.in_(s),) for s in chunks(sorted(uuids))]
        values = {"available": False, "cleaning": False, "updated_at": self._transactions.now()}

        def work(connection: sa.Connection) -> int:
            return sum(
                connection.execute(sa.update(_NODE).where(*offered, *some).values(values)).rowcount
                for some in which
            )

        return self._transactions.write(work)

    def keep_only(self, host: str, uuids: Collection[str]) -> int:
        """Delete a service's other records, but for those of nodes that an instance has.

        For a service that has pools and needs no records of single nodes any more.

        :returns: how many were deleted.
        """
        kept = frozenset(uuids)
        mine = (*_UNUSED, _NODE.c.host == host)
        rows = self._rows(sa.select(_NODE.c.uuid).where(*mine))
        deleted = 0
        for some in chunks([uuid for (uuid,) in rows if uuid not in kept]):
            delete = sa.delete(_NODE).where(*mine, _NODE.c.uuid.in_(some))
            deleted += self._transactions.write(
                lambda connection, delete=delete: connection.execute(delete).rowcount  # type: ignore[misc]
            )
        return deleted

    def delete(self, uuid: str, *, host: str | None = None) -> None:
        """Delete the record of a node that Ironic no longer has.

        :param host: only if the record is this service's.
        :raises ComputeNodeNotFound: there is none.
        :raises ComputeNodeInUse: an instance has the node, or has claimed it.
        """

        def work(connection: sa.Connection) -> None:
            found = get(connection, uuid, lock=True)
            if host not in {None, found.host}:
                raise errors.ComputeNodeNotFound(uuid)
            instance = found.instance_uuid or connection.scalar(
                sa.select(models.instances.c.uuid).where(models.instances.c.node == uuid)
            )
            if instance is not None:
                raise errors.ComputeNodeInUse(uuid, instance)
            connection.execute(sa.delete(_NODE).where(_NODE.c.uuid == uuid))

        self._transactions.write(work)


def _some(
    connection: sa.Connection,
    columns: Sequence[Any],
    host: str,
    uuids: Collection[str],
) -> Sequence[Any]:
    """The rows of these nodes.

    :param columns: that begin as :data:`_STORED` does.
    :param host: the service that has most of them: if they are many, it is quicker to list all
        of its nodes than to ask for each.
    """
    statement = sa.select(*columns)
    found: list[Any] = []
    left = set(uuids)
    if len(left) > SIZE:
        rows = connection.execute(statement.where(_NODE.c.host == host))
        found = [row for row in rows if row[_UUID] in left]
        left.difference_update(row[_UUID] for row in found)
    return [*found, *rows_in(connection, statement, _NODE.c.uuid, left)]


def _differences(
    host: str,
    wanted: Mapping[str, tuple[Any, ...]],
    stored: Mapping[str, sa.Row[*tuple[Any, ...]]],
) -> Mapping[tuple[tuple[str, Any], ...], Sequence[str]]:
    """What to write, and into which rows: equal changes go together."""
    found: dict[tuple[tuple[str, Any], ...], list[str]] = defaultdict(list)
    for uuid, row in stored.items():
        values = wanted[uuid]
        if row[_HOST] == host and row[_FIRST:] != values:
            changes = tuple(
                (name, new)
                for name, old, new in zip(REPORTED, row[_FIRST:], values, strict=True)
                if old != new
            )
            found[changes].append(uuid)
    return found


def get(connection: sa.Connection, uuid: str, *, lock: bool = False) -> records.ComputeNode:
    """One compute node, within a transaction; with ``lock``, nobody changes it until its end.

    :raises ComputeNodeNotFound: there is no record of it.
    """
    statement = compute_node_rows.select().where(_NODE.c.uuid == uuid)
    if lock:
        statement = statement.with_for_update()
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise errors.ComputeNodeNotFound(uuid, _HINT if _has_pools(connection) else "")
    return record(row)


def _has_pools(connection: sa.Connection) -> bool:
    service = models.services.c
    pools = sa.exists().where(service.pools.is_not(None))
    return bool(connection.scalar(sa.select(pools)))
