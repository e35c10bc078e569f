# SPDX-License-Identifier: Apache-2.0

"""Compute nodes: which service has which Ironic node, and what the node is like.

A service writes what it sees of its nodes.  It never writes claims.  It takes a
record from another service only on request, and only if nothing is on the node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import records, tables
from ironic_virt.compute.db.database import SIZE, Part, chunks, reads, rows_in, writes
from ironic_virt.request.spec import placement_class

_NODE = tables.compute_nodes
_PAGE = 1000
_HINT = "where Ironic picks the nodes, there are pools of them ('ironic-virt node list --pools')"
COLUMNS = tables.columns(_NODE, records.ComputeNode)
# What a service's refresh writes, as :func:`_reported` has it.
_REPORTED = (
    *("name", "vcpus", "memory_mb", "local_gb", "cpu_arch", "resource_class", "placement_class"),
    *("traits", "stats", "in_use", "available", "cleaning"),
)
_OWNER = (_NODE.c.uuid, _NODE.c.host)
_STORED = (*_OWNER, *(_NODE.c[name] for name in _REPORTED))
_HAS_INSTANCE = sa.exists().where(tables.instances.c.node == _NODE.c.uuid).correlate(_NODE)
_UNUSED = (_NODE.c.instance_uuid.is_(None), ~_HAS_INSTANCE)


class ComputeNodes(Part):
    """The records of compute nodes."""

    def list(self, host: str | None = None) -> Sequence[records.ComputeNode]:
        """Compute nodes in the order of their uuids.

        :param host: of this service only.
        """
        statement = sa.select(*COLUMNS).order_by(_NODE.c.uuid)
        if host is not None:
            statement = statement.where(_NODE.c.host == host)
        return [records.ComputeNode(*row) for row in self._rows(statement)]

    @reads
    def get(self, connection: sa.Connection, uuid: str) -> records.ComputeNode:
        """One compute node.

        :raises ComputeNodeNotFound: there is no record of it.
        """
        return get(connection, uuid)

    def uuids(self, host: str) -> Sequence[str]:
        """The uuids of a service's nodes, sorted."""
        statement = sa.select(_NODE.c.uuid).where(_NODE.c.host == host).order_by(_NODE.c.uuid)
        return [uuid for (uuid,) in self._rows(statement)]

    @reads
    def owners(
        self, connection: sa.Connection, uuids: Collection[str], host: str = ""
    ) -> Mapping[str, str]:
        """The services that have nodes, by the node's uuid; without a record it is left out.

        :param host: the service that has most of them.
        """
        return {row.uuid: row.host for row in _rows_of(connection, _OWNER, host, uuids)}

    def save(
        self, host: str, nodes: Iterable[records.NodeReport], *, take_over: bool = False
    ) -> Mapping[str, str]:
        """Write down how a service's nodes are; only what differs is written.

        :param take_over: take nodes from other services too, unless an instance has
            the node or has claimed it.
        :returns: the nodes that another service has, with its name; they were left alone.
        """
        reports = {node.uuid: _reported(node) for node in nodes}
        for is_last in (False, False, True):
            stored = self._stored(host, reports)
            foreign = [row.uuid for row in stored if row.host != host]
            if foreign and take_over:
                values = {"host": host, "updated_at": self._db.now()}
                self._change(sa.update(_NODE).where(*_UNUSED).values(values), foreign)
                stored = self._stored(host, reports)
            try:
                self._write(host, reports, {row.uuid: row for row in stored})
                break
            except db_exception.DBDuplicateEntry:
                # Another service made a record of the same node just now.
                if is_last:
                    raise
        return {row.uuid: row.host for row in stored if row.host != host}

    @reads
    def _stored(
        self, connection: sa.Connection, host: str, uuids: Collection[str]
    ) -> Sequence[Any]:
        return _rows_of(connection, _STORED, host, uuids)

    def _change(self, statement: Any, uuids: Collection[str]) -> int:
        """Update or delete the records of these nodes, some in each transaction."""
        pages = (statement.where(_NODE.c.uuid.in_(page)) for page in chunks(sorted(uuids)))
        return sum(self._execute(page) for page in pages)

    @writes
    def _execute(
        self,
        connection: sa.Connection,
        statement: sa.Executable,
        rows: Sequence[Mapping[str, Any]] | None = None,
    ) -> int:
        return connection.execute(statement, rows).rowcount

    def _write(
        self, host: str, reports: Mapping[str, Mapping[str, Any]], stored: Mapping[str, Any]
    ) -> None:
        """Write what is new and what differs; equal changes go together."""
        current_time = self._db.now()
        new: list[dict[str, Any]] = []
        changed: dict[str, tuple[dict[str, Any], list[str]]] = {}
        for uuid, values in reports.items():
            row = stored.get(uuid)
            if row is None:
                new.append({**values, "uuid": uuid, "host": host, "created_at": current_time})
            elif row.host == host:
                old = row._mapping
                changes = {name: value for name, value in values.items() if old[name] != value}
                if changes:
                    changed.setdefault(repr(changes), (changes, []))[1].append(uuid)
        for some in chunks(new, _PAGE):
            self._execute(sa.insert(_NODE), some)
        for changes, uuids in changed.values():
            # Since it was read, the node may have been moved to another service.
            update = sa.update(_NODE).where(_NODE.c.host == host)
            self._change(update.values(**changes, updated_at=current_time), uuids)

    def withdraw(self, host: str, uuids: Collection[str] | None = None) -> int:
        """See that nobody is given a service's nodes until their next report.

        :param uuids: of these nodes; ``None``: of all.
        :returns: how many were offered until now.
        """
        may_be_free = sa.or_(_NODE.c.available == sa.true(), _NODE.c.cleaning == sa.true())
        values = {"available": False, "cleaning": False, "updated_at": self._db.now()}
        update = sa.update(_NODE).where(_NODE.c.host == host, may_be_free).values(values)
        return self._execute(update) if uuids is None else self._change(update, uuids)

    def keep_only(self, host: str, uuids: Collection[str]) -> int:
        """Delete a service's other records, but for those of nodes that an instance has.

        For a service that has pools and needs no records of single nodes any more.

        :returns: how many were deleted.
        """
        mine = (*_UNUSED, _NODE.c.host == host)
        unused = {uuid for (uuid,) in self._rows(sa.select(_NODE.c.uuid).where(*mine))}
        return self._change(sa.delete(_NODE).where(*mine), unused.difference(uuids))

    @writes
    def delete(self, connection: sa.Connection, uuid: str, *, host: str | None = None) -> None:
        """Delete the record of a node that Ironic no longer has.

        :param host: only if the record is this service's.
        :raises ComputeNodeNotFound: there is none.
        :raises ComputeNodeInUse: an instance has the node, or has claimed it.
        """
        node = get(connection, uuid, lock=True)
        if host not in {None, node.host}:
            raise errors.ComputeNodeNotFound(uuid)
        instance = node.instance_uuid or connection.scalar(
            sa.select(tables.instances.c.uuid).where(tables.instances.c.node == uuid)
        )
        if instance is not None:
            raise errors.ComputeNodeInUse(uuid, instance)
        connection.execute(sa.delete(_NODE).where(_NODE.c.uuid == uuid))


def _rows_of(
    connection: sa.Connection,
    columns: Sequence[sa.ColumnElement[Any]],
    host: str,
    uuids: Collection[str],
) -> Sequence[Any]:
    """The rows of these nodes.

    :param host: the service that has most of them: if they are many, it is quicker to list all
        of its nodes than to ask for each.
    """
    statement = sa.select(*columns)
    rows: list[Any] = []
    others = set(uuids)
    if len(others) > SIZE:
        mine = connection.execute(statement.where(_NODE.c.host == host))
        rows = [row for row in mine if row.uuid in others]
        others.difference_update(row.uuid for row in rows)
    return [*rows, *rows_in(connection, statement, _NODE.c.uuid, others)]


def _reported(node: records.NodeReport) -> Mapping[str, Any]:
    """What a service reports of a node, as the columns :data:`_REPORTED`."""
    values = {name: getattr(node, name, None) for name in _REPORTED}
    values["placement_class"] = placement_class(node.resource_class) if node.resource_class else ""
    values["available"] = node.available and not node.in_use
    values["cleaning"] = node.cleaning and not node.in_use
    return values


def get(connection: sa.Connection, uuid: str, *, lock: bool = False) -> records.ComputeNode:
    """One compute node, within a transaction; with ``lock``, nobody changes it until its end.

    :raises ComputeNodeNotFound: there is no record of it.
    """
    statement = sa.select(*COLUMNS).where(_NODE.c.uuid == uuid)
    row = connection.execute(statement.with_for_update() if lock else statement).one_or_none()
    if row is None:
        has_pools = sa.select(sa.exists().where(tables.services.c.pools.is_not(None)))
        raise errors.ComputeNodeNotFound(uuid, _HINT if connection.scalar(has_pools) else "")
    return records.ComputeNode(*row)
