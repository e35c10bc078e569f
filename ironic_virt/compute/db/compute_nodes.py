# SPDX-License-Identifier: Apache-2.0

"""Compute nodes: which service has which Ironic node, and what the node is like.

A service writes what it sees of its nodes.  It never writes claims.  It takes a
record from another service only on request, and only if nothing is on the node.

A claim of a node is written to the node's own row by one conditional UPDATE, so two instances
can't have one node; a unique key keeps an instance from having two.  A place in a pool is
written to the instance's row, and Ironic's allocation decides about the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import records, services, tables
from ironic_virt.compute.db.database import Part, chunks, insert_or_retry, reads, rows_in, writes
from ironic_virt.request.spec import placement_class

_NODE = tables.compute_nodes
_HINT = ": where Ironic picks the nodes, there are pools of them ('ironic-virt node list --pools')"
COLUMNS = tables.columns(_NODE, records.ComputeNode)
# What a service's refresh writes, as :func:`_report_values` has it.
_REPORTED = (
    *("name", "vcpus", "memory_mb", "local_gb", "cpu_arch", "resource_class", "placement_class"),
    *("traits", "stats", "in_use", "available", "cleaning"),
)
_STORED = (_NODE.c.uuid, _NODE.c.host, *(_NODE.c[name] for name in _REPORTED))
# Since a refresh began, the node may have been moved to another service.
_UPDATE = sa.update(_NODE).where(
    _NODE.c.uuid == sa.bindparam("of_node"), _NODE.c.host == sa.bindparam("of_host")
)
_HAS_INSTANCE = sa.exists().where(tables.instances.c.node == _NODE.c.uuid).correlate(_NODE)
UNUSED = (_NODE.c.instance_uuid.is_(None), ~_HAS_INSTANCE)
"""No instance has claimed the node, and none has it by a pool, perhaps in the records alone."""

Place = records.ComputeNode | records.NodePool
"""The node or pool that was picked, with the service that is thought to own it."""


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
    def owners(self, connection: sa.Connection, uuids: Collection[str]) -> Mapping[str, str]:
        """The services that have nodes, by the node's uuid; without a record it is left out."""
        rows = rows_in(connection, sa.select(_NODE.c.uuid, _NODE.c.host), _NODE.c.uuid, uuids)
        return {row.uuid: row.host for row in rows}

    def save(
        self, host: str, nodes: Iterable[records.ComputeNode], *, take_over: bool = False
    ) -> Mapping[str, str]:
        """Write down how a service's nodes are, some in each transaction; only what differs.

        :param take_over: take nodes from other services too, unless an instance has
            the node or has claimed it.
        :returns: the nodes that another service has, with its name; they were left alone.
        """
        foreign: dict[str, str] = {}
        for page in chunks(sorted(nodes, key=lambda node: node.uuid)):
            reports = {node.uuid: _report_values(node) for node in page}
            foreign |= self._save(host, reports, take_over)
        return foreign

    @writes
    def _save(
        self,
        connection: sa.Connection,
        host: str,
        reports: Mapping[str, Mapping[str, Any]],
        take_over: bool,
    ) -> Mapping[str, str]:
        of_them = _NODE.c.uuid.in_(sorted(reports))
        if take_over:
            take = sa.update(_NODE).where(of_them, _NODE.c.host != host, *UNUSED)
            connection.execute(take.values(host=host))
        stored = {row.uuid: row for row in connection.execute(sa.select(*_STORED).where(of_them))}
        new = [
            {**values, "uuid": uuid, "host": host}
            for uuid, values in reports.items()
            if uuid not in stored
        ]
        if new:
            insert_or_retry(connection, sa.insert(_NODE), new)
        changed = [
            {**values, "of_node": uuid, "of_host": host}
            for uuid, values in reports.items()
            if uuid in stored
            and stored[uuid].host == host
            and any(stored[uuid]._mapping[name] != value for name, value in values.items())
        ]
        if changed:
            connection.execute(_UPDATE, changed)
        return {row.uuid: row.host for row in stored.values() if row.host != host}

    @writes
    def withdraw(
        self, connection: sa.Connection, host: str, uuids: Collection[str] | None = None
    ) -> int:
        """See that nobody is given a service's nodes until their next report.

        :param uuids: of these nodes; ``None``: of all.
        :returns: how many were offered until now.
        """
        may_be_free = sa.or_(_NODE.c.available == sa.true(), _NODE.c.cleaning == sa.true())
        update = sa.update(_NODE).where(_NODE.c.host == host, may_be_free)
        update = update.values(available=False, cleaning=False)
        pages = [update]
        if uuids is not None:
            pages = [update.where(_NODE.c.uuid.in_(page)) for page in chunks(sorted(uuids))]
        return sum(connection.execute(page).rowcount for page in pages)

    @writes
    def keep_only(self, connection: sa.Connection, host: str, uuids: Collection[str]) -> int:
        """Delete a service's other records, but for those of nodes that an instance has.

        For a service that has pools and needs no records of single nodes any more.

        :returns: how many were deleted.
        """
        unused = (*UNUSED, _NODE.c.host == host)
        others = set(connection.scalars(sa.select(_NODE.c.uuid).where(*unused))).difference(uuids)
        delete = sa.delete(_NODE).where(*unused)
        pages = (delete.where(_NODE.c.uuid.in_(page)) for page in chunks(sorted(others)))
        return sum(connection.execute(page).rowcount for page in pages)

    @writes
    def delete(self, connection: sa.Connection, host: str, uuid: str) -> None:
        """Delete the record of a service's node that Ironic no longer has.

        :raises ComputeNodeNotFound: the service has none.
        :raises ComputeNodeInUse: an instance has the node, or has claimed it.
        """
        node = get(connection, uuid, lock=True)
        if node.host != host:
            raise errors.ComputeNodeNotFound(uuid, "")
        check_unused(connection, node)
        connection.execute(sa.delete(_NODE).where(_NODE.c.uuid == uuid))


def _report_values(node: records.ComputeNode) -> Mapping[str, Any]:
    """What a service reports of a node, as the columns :data:`_REPORTED`."""
    values: dict[str, Any] = {name: getattr(node, name, None) for name in _REPORTED}
    for name in ("name", "cpu_arch", "resource_class"):
        # PostgreSQL refuses zero bytes, and with them the reports of all nodes.
        values[name] = values[name] and values[name].replace("\0", "\ufffd")
    values["placement_class"] = placement_class(node.resource_class) if node.resource_class else ""
    values["available"] = node.available and not node.in_use
    values["cleaning"] = node.cleaning and not node.in_use
    return values


def check_unused(connection: sa.Connection, node: records.ComputeNode) -> None:
    """See that the records have no instance on a node.

    :raises ComputeNodeInUse: they have, or an instance has claimed it.
    """
    instance = node.instance_uuid or connection.scalar(
        sa.select(tables.instances.c.uuid).where(tables.instances.c.node == node.uuid)
    )
    if instance is not None:
        raise errors.ComputeNodeInUse(node.uuid, instance)


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


# -- claims, within a transaction --------------------------------------------


def claim_all(connection: sa.Connection, choices: Iterable[tuple[str, Place]]) -> None:
    """Give each of several instances its node, or its place in a pool.

    :param choices: the instances' uuids, and what was chosen for them; no node twice.
    :raises ClaimLost: one of the nodes is not free any more, or belongs to another service by
        now; the caller's transaction must not be committed.
    :raises InstanceExists: an instance has another node.
    """
    free: dict[str, Counter[str]] = {}
    # In one order, so that two who claim at the same time don't wait for each other in a circle.
    for instance, place in sorted(choices, key=lambda pair: (pair[1].host, pair[1].uuid)):
        if isinstance(place, records.NodePool):
            if place.host not in free:
                free[place.host] = services.free_places(connection, place.host)
            free[place.host][place.name] -= 1
            is_free = free[place.host][place.name] >= 0
        else:
            is_free = _claim_node(connection, instance, place)
        if not is_free:
            raise errors.ClaimLost(place.uuid, instance)


def _claim_node(connection: sa.Connection, instance: str, node: Place) -> bool:
    free = sa.and_(_NODE.c.available == sa.true(), *UNUSED)
    update = sa.update(_NODE).where(_NODE.c.uuid == node.uuid, _NODE.c.host == node.host)
    update = update.where(sa.or_(free, _NODE.c.instance_uuid == instance))
    try:
        return bool(connection.execute(update.values(instance_uuid=instance)).rowcount)
    except db_exception.DBDuplicateEntry as exc:
        raise errors.InstanceExists(instance) from exc


def release_nodes(connection: sa.Connection, instance: str, *, but: str = "") -> None:
    """Release every node that an instance has claimed, to be claimed after its next refresh.

    :param but: the uuid of a node that it keeps.
    """
    # The last refresh saw the node before the instance left it.
    connection.execute(
        sa.update(_NODE)
        .where(_NODE.c.instance_uuid == instance, _NODE.c.uuid != but)
        .values(instance_uuid=None, available=False, cleaning=True)
    )
