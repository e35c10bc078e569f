# SPDX-License-Identifier: Apache-2.0

"""Nova's cell databases: services, compute node records and servers, a few columns of each.

Read with SQL on Nova's own tables, since its objects take 2 kB and near 1 ms for each record.
The columns are those of every release from 2024.1 on.
"""

from __future__ import annotations

import contextlib
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
from ironic_virt.fleet import nova_conf
from ironic_virt.fleet.deployment import Record, Server, Service

_CHUNK = 500
"""Values in one ``IN``."""

_SERVER = ("uuid", "host", "node", "vm_state", "task_state", "project_id", "user_id")
_SERVER_COLUMNS = (
    *(getattr(models.Instance, name) for name in _SERVER),
    models.Instance.availability_zone,
    models.Instance.deleted != 0,
)
"""In the order of what :class:`Server` has."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A cell of Nova: two may have one name; the context is an administrator's."""

    uuid: str
    name: str
    context: Any = dataclasses.field(repr=False)
    is_cell0: bool = False


def cells(names: Collection[str] = ()) -> list[Cell]:
    """These cells by name or uuid, or all, with the one for servers without a host at the end."""
    read, unknown = [], set(names)
    with nova_conf.asking():
        mappings = objects.CellMappingList.get_all(nova_context.get_admin_context())
    for mapping in mappings:
        uuid = str(mapping.uuid)
        if names and not mapping.is_cell0() and not {mapping.name, uuid} & set(names):
            continue
        unknown -= {mapping.name, uuid}
        context = nova_context.get_admin_context()
        nova_context.set_target_cell(context, mapping)
        read.append(Cell(uuid, mapping.name or uuid, context, mapping.is_cell0()))
    if unknown:
        raise exceptions.InvalidConfiguration("--cell", f"no cell {', '.join(sorted(unknown))}")
    return sorted(read, key=lambda cell: (cell.is_cell0, cell.name, cell.uuid))


@contextlib.contextmanager
def _reading(cell: Cell) -> Iterator[Any]:
    reader = main_db.get_context_manager(cell.context).reader
    name = f"The database of cell {cell.name}"
    with nova_conf.asking(name, Exception), reader.using(cell.context) as session:
        yield session


def _select_rows(cell: Cell, statement: Any) -> Sequence[Any]:
    with _reading(cell) as session:
        return list(session.execute(statement))


def services(cell: Cell, down_time: float, now: datetime.datetime) -> Iterator[Service]:
    """The services of nova-compute; ``now`` is used if the database has no clock."""
    rows = _select_rows(cell, _select_services())
    read_at = clock(cell) or now
    for row in rows:
        service = _make_service(cell.uuid, row)
        since = service.last_seen or service.created
        is_fresh = since is not None and abs((read_at - since).total_seconds()) <= down_time
        yield dataclasses.replace(service, up=is_fresh and not service.forced_down)


def locked_service(session: Any, host: str) -> Service | None:
    """A host's service, whose row stays as it is until the transaction ends."""
    statement = _select_services().where(models.Service.host == host)
    row = session.execute(statement.with_for_update(read=True)).first()
    return None if row is None else _make_service("", row)


def _select_services() -> Any:
    table = models.Service
    return sa.select(
        *(table.id, table.host, table.forced_down, table.disabled),
        *(table.last_seen_up, table.created_at, table.report_count),
    ).where(table.deleted == 0, table.binary == "nova-compute")


def _make_service(cell: str, row: Any) -> Service:
    return Service(
        cell,
        row.id,
        row.host,
        forced_down=bool(row.forced_down),
        last_seen=row.last_seen_up and row.last_seen_up.replace(tzinfo=datetime.UTC),
        disabled=bool(row.disabled),
        reports=row.report_count,
        created=row.created_at and row.created_at.replace(tzinfo=datetime.UTC),
    )


def records(cell: Cell, uuids: Collection[str] | None = None) -> Iterator[Record]:
    """The compute node records of bare metal, or of these those with one of the uuids."""
    table = models.ComputeNode
    name = table.hypervisor_hostname.label("name")
    statement = sa.select(table.id, table.uuid, table.host, name).where(
        table.deleted == 0, table.hypervisor_type == HYPERVISOR_TYPE
    )
    for part in _split_values(statement, table.uuid, uuids):
        for row in _select_rows(cell, part):
            yield Record(cell.uuid, row.id, row.uuid, row.host or "", row.name or "")


def servers_of(cell: Cell, column: str, names: Collection[str]) -> Iterator[Server]:
    """The servers that are not deleted, by their ``host`` or by their ``node``."""
    table = models.Instance
    return _read_servers(cell, getattr(table, column), names, table.deleted == 0)


def servers(cell: Cell, uuids: Collection[str]) -> Iterator[Server]:
    """These servers, deleted ones too."""
    return _read_servers(cell, models.Instance.uuid, uuids)


def _read_servers(
    cell: Cell, column: Any, names: Collection[str], *conditions: Any
) -> Iterator[Server]:
    for part in _split_values(sa.select(*_SERVER_COLUMNS).where(*conditions), column, names):
        yield from (Server(cell.uuid, *row) for row in _select_rows(cell, part))


def migrations(cell: Cell, uuids: Collection[str]) -> Iterator[str]:
    """The uuids that are migrations': a running migration holds an allocation."""
    table = models.Migration
    for part in _split_values(sa.select(table.uuid), table.uuid, uuids):
        yield from (row.uuid for row in _select_rows(cell, part))


def being_built(uuids: Collection[str]) -> list[str]:
    """The uuids of servers that the scheduler has, and no cell yet."""
    admin, servers = nova_context.get_admin_context(), []
    for uuid in uuids:
        with contextlib.suppress(exception.BuildRequestNotFound), nova_conf.asking():
            objects.BuildRequest.get_by_instance_uuid(admin, uuid)
            servers.append(uuid)
    return servers


def clock(cell: Cell) -> datetime.datetime | None:
    """The time of the cell's database, in UTC; ``None``: it has no clock."""
    with _reading(cell) as session:
        if session.get_bind().dialect.name not in ("mysql", "mariadb"):
            return None
        time: datetime.datetime = session.execute(sa.select(sa.func.utc_timestamp())).scalar_one()
    return time.replace(tzinfo=datetime.UTC)


def _split_values(statement: Any, column: Any, values: Collection[str] | None) -> Iterator[Any]:
    """A statement for each chunk of the values; one for all if there is no condition."""
    if values is None:
        yield statement
        return
    ordered = sorted(values)
    for begin in range(0, len(ordered), _CHUNK):
        yield statement.where(column.in_(ordered[begin : begin + _CHUNK]))
