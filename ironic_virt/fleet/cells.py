# SPDX-License-Identifier: Apache-2.0

"""Nova's cell databases: services, compute node records and servers, a few columns of each.

Read with SQL on Nova's own tables, since its objects take 2 kB and near 1 ms for each record.
The columns are those of every release from 2024.1 on.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from nova import context as nova_context
from nova import exception, objects
from nova.db.main import api as main_db
from nova.db.main import models

from ironic_virt import exceptions
from ironic_virt.driver.resources import HYPERVISOR_TYPE
from ironic_virt.fleet.deployment import Record, Server, Service

_CHUNK = 500
"""Values in one ``IN``."""

_SERVER_COLUMNS = (
    models.Instance.uuid,
    models.Instance.host,
    models.Instance.node,
    models.Instance.vm_state,
    models.Instance.task_state,
    models.Instance.project_id,
    models.Instance.user_id,
    models.Instance.deleted,
)


class CellFailed(exceptions.IronicVirtError):
    """A cell's database did not answer, or refused."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A cell of Nova.

    :ivar name: its name, or its uuid if it has none.
    :ivar context: an administrator's, aimed at the cell's database.
    :ivar is_cell0: whether it is the one of servers that no host was found for.
    """

    name: str
    context: Any = dataclasses.field(repr=False)
    is_cell0: bool = False


def cells(names: Collection[str] = ()) -> list[Cell]:
    """The cells, with the one for servers without a host at the end.

    :param names: names or uuids of cells; none: all.
    :raises InvalidConfiguration: there is no cell of one of the names.
    """
    admin = nova_context.get_admin_context()
    found, left = [], set(names)
    for mapping in objects.CellMappingList.get_all(admin):
        called = {mapping.name, str(mapping.uuid)}
        if names and not mapping.is_cell0() and not called & set(names):
            continue
        left -= called
        context = nova_context.get_admin_context()
        nova_context.set_target_cell(context, mapping)
        found.append(Cell(mapping.name or str(mapping.uuid), context, mapping.is_cell0()))
    if left:
        raise exceptions.InvalidConfiguration("--cell", f"no cell {', '.join(sorted(left))}")
    return sorted(found, key=lambda cell: (cell.is_cell0, cell.name))


def _rows(cell: Cell, statement: Any) -> Sequence[Any]:
    manager = main_db.get_context_manager(cell.context)
    try:
        with manager.reader.using(cell.context) as session:
            return list(session.execute(statement))
    except Exception as exc:
        raise CellFailed(f"cell {cell.name}: its database: {exc}") from exc


def services(cell: Cell, down_time: float, now: datetime.datetime) -> Iterator[Service]:
    """The services of nova-compute.

    :param down_time: Nova's ``service_down_time``, in seconds.
    :param now: in UTC.
    """
    table = models.Service
    statement = sa.select(
        *(table.id, table.host, table.disabled, table.forced_down),
        *(table.last_seen_up, table.created_at, table.version),
    ).where(table.deleted == 0, table.binary == "nova-compute")
    for row in _rows(cell, statement):
        seen = (row.last_seen_up or row.created_at).replace(tzinfo=datetime.UTC)
        fresh = abs((now - seen).total_seconds()) <= down_time
        forced = bool(row.forced_down)
        yield Service(
            cell=cell.name,
            id=row.id,
            host=row.host,
            up=fresh and not forced,
            disabled=bool(row.disabled),
            forced_down=forced,
            last_seen=seen,
            version=row.version or 0,
        )


def records(cell: Cell, uuids: Collection[str] | None = None) -> Iterator[Record]:
    """The compute node records of bare metal.

    :param uuids: only these; ``None``: all.
    """
    table = models.ComputeNode
    statement = sa.select(
        table.id, table.uuid, table.host, table.hypervisor_hostname, table.service_id
    ).where(table.deleted == 0, table.hypervisor_type == HYPERVISOR_TYPE)
    for part in _parts(statement, table.uuid, uuids):
        for row in _rows(cell, part):
            yield Record(
                cell=cell.name,
                id=row.id,
                uuid=row.uuid,
                host=row.host or "",
                name=row.hypervisor_hostname or "",
                service_id=row.service_id,
            )


def servers_of(cell: Cell, hosts: Collection[str]) -> Iterator[Server]:
    """The servers of hosts that are not deleted."""
    table = models.Instance
    statement = sa.select(*_SERVER_COLUMNS).where(table.deleted == 0)
    for part in _parts(statement, table.host, hosts):
        yield from (_server(cell, row) for row in _rows(cell, part))


def servers_on(cell: Cell, names: Collection[str]) -> Iterator[Server]:
    """The servers that are not deleted, on compute nodes of these names."""
    table = models.Instance
    statement = sa.select(*_SERVER_COLUMNS).where(table.deleted == 0)
    for part in _parts(statement, table.node, names):
        yield from (_server(cell, row) for row in _rows(cell, part))


def servers(cell: Cell, uuids: Collection[str]) -> Iterator[Server]:
    """These servers, deleted ones too."""
    for part in _parts(sa.select(*_SERVER_COLUMNS), models.Instance.uuid, uuids):
        yield from (_server(cell, row) for row in _rows(cell, part))


def migrations(cell: Cell, uuids: Collection[str]) -> Iterator[str]:
    """Those of these uuids that are migrations': while one goes on, it holds an allocation."""
    table = models.Migration
    for part in _parts(sa.select(table.uuid), table.uuid, uuids):
        yield from (row.uuid for row in _rows(cell, part))


def being_built(uuids: Collection[str]) -> list[str]:
    """Those of these uuids that are servers which the scheduler has, and no cell yet."""
    admin = nova_context.get_admin_context()
    found = []
    for uuid in uuids:
        try:
            objects.BuildRequest.get_by_instance_uuid(admin, uuid)
        except exception.BuildRequestNotFound:
            continue
        found.append(uuid)
    return found


def clock(cell: Cell) -> datetime.datetime | None:
    """What time the cell's database has, in UTC; ``None``: it has no clock of its own."""
    manager = main_db.get_context_manager(cell.context)
    with manager.reader.using(cell.context) as session:
        if session.get_bind().dialect.name not in ("mysql", "mariadb"):
            return None
        told: datetime.datetime = session.execute(sa.select(sa.func.utc_timestamp())).scalar_one()
    return told.replace(tzinfo=datetime.UTC)


def _server(cell: Cell, row: Any) -> Server:
    return Server(
        cell=cell.name,
        uuid=row.uuid,
        host=row.host,
        node=row.node,
        vm_state=row.vm_state,
        task_state=row.task_state,
        project_id=row.project_id,
        user_id=row.user_id,
        deleted=bool(row.deleted),
    )


def _parts(statement: Any, column: Any, values: Collection[str] | None) -> Iterator[Any]:
    """A statement for each chunk of the values; one for all if there is no condition."""
    if values is None:
        yield statement
        return
    wanted = sorted(values)
    for begin in range(0, len(wanted), _CHUNK):
        yield statement.where(column.in_(wanted[begin : begin + _CHUNK]))
