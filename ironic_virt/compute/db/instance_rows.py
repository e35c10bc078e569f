# SPDX-License-Identifier: Apache-2.0

"""Reading instances."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_virt import virt
from ironic_virt.compute import errors
from ironic_virt.compute.db import models, records
from ironic_virt.compute.db.transactions import Part, rows_in
from ironic_virt.compute.networks import Network

_INSTANCE = models.instances
_COLUMNS = models.columns(
    _INSTANCE, records.Instance, arguments=_INSTANCE.c.task_args.label("arguments")
)
_PAGE = 500
# Made once: SQLAlchemy takes longer to read the rows of a statement that is made for each call.
_BY_UUID = sa.select(*_COLUMNS).where(_INSTANCE.c.uuid == sa.bindparam("wanted"))
_LOCKED = _BY_UUID.with_for_update()
# More uuids than these nobody reads.
_BY_NAME = (
    sa.select(*_COLUMNS)
    .where(_INSTANCE.c.display_name == sa.bindparam("wanted"))
    .order_by(_INSTANCE.c.id)
    .limit(10)
)


class InstanceRows(Part):
    """What can be asked about instances."""

    def get(self, instance: str) -> records.Instance:
        """One instance.

        :param instance: its uuid, or its name if no other has that.
        :raises NoSuchInstance: there is none.
        :raises AmbiguousName: several have this name.
        """
        wanted = {"wanted": instance}

        def work(connection: sa.Connection) -> list[records.Instance]:
            rows = connection.execute(_BY_UUID, wanted).all()
            return [record(row) for row in rows or connection.execute(_BY_NAME, wanted).all()]

        found = self._transactions.read(work)
        if not found:
            raise errors.NoSuchInstance(instance)
        if len(found) > 1:
            raise errors.AmbiguousName(instance, [each.uuid for each in found])
        return found[0]

    def list(
        self,
        host: str | None = None,
        node: str | None = None,
        *,
        name: str | None = None,
        vm_state: str | None = None,
        tasks: Collection[str] | None = None,
        no_tasks: Collection[str] = (),
        limit: int | None = None,
    ) -> Sequence[records.Instance]:
        """Instances, the newest first.

        :param tasks: only those of which one of these is wanted; ``no_tasks``: only those of
            which none of these is wanted.
        """
        task = _INSTANCE.c.task_state
        statement = sa.select(*_COLUMNS).order_by(_INSTANCE.c.id.desc()).limit(limit)
        if host is not None:
            statement = statement.where(_INSTANCE.c.host == host)
        if node is not None:
            statement = statement.where(_INSTANCE.c.node == node)
        if name is not None:
            statement = statement.where(_INSTANCE.c.display_name == name)
        if vm_state is not None:
            statement = statement.where(_INSTANCE.c.vm_state == vm_state)
        if tasks is not None:
            statement = statement.where(task.in_(tasks))
        if no_tasks:
            statement = statement.where(sa.or_(task.is_(None), task.not_in(no_tasks)))
        return [record(row) for row in self._rows(statement)]

    def wanted(self, host: str) -> Sequence[records.Wanted]:
        """What is wanted of a service's instances, the oldest instance first."""
        rows = self._rows(
            sa.select(_INSTANCE.c.uuid, _INSTANCE.c.task_state, _INSTANCE.c.node)
            .where(_INSTANCE.c.host == host, _INSTANCE.c.task_state.is_not(None))
            .order_by(_INSTANCE.c.id)
        )
        return [records.Wanted(*row) for row in rows]

    def settled(
        self, host: str, vm_states: Collection[str], *, page: int = _PAGE
    ) -> Iterator[records.Instance]:
        """A service's instances in these states of which nothing is wanted.

        One after the other, the oldest first; what changes meanwhile may or may not be seen.

        :param page: how many are read at a time.
        """
        last = 0
        while True:
            statement = (
                sa.select(_INSTANCE.c.id, *_COLUMNS)
                .where(_INSTANCE.c.host == host, _INSTANCE.c.task_state.is_(None))
                .where(_INSTANCE.c.vm_state.in_(vm_states), _INSTANCE.c.id > last)
                .order_by(_INSTANCE.c.id)
                .limit(page)
            )
            rows = self._rows(statement)
            for row in rows:
                yield record(row)
            if len(rows) < page:
                return
            last = rows[-1].id

    def places(self, host: str) -> Mapping[str, str]:
        """Where each of a service's instances is: its pool, else its node, else ``""``."""
        statement = sa.select(_INSTANCE.c.uuid, _INSTANCE.c.pool, _INSTANCE.c.node).where(
            _INSTANCE.c.host == host
        )
        return {row.uuid: row.pool or row.node or "" for row in self._rows(statement)}

    def hosts(self, uuids: Collection[str]) -> Mapping[str, str | None]:
        """The services that instances belong to, by uuid; one that isn't known is left out."""
        statement = sa.select(_INSTANCE.c.uuid, _INSTANCE.c.host)
        rows = self._transactions.read(
            lambda connection: rows_in(connection, statement, _INSTANCE.c.uuid, uuids)
        )
        return {row.uuid: row.host for row in rows}

    def task_state(self, uuid: str) -> str | None:
        """What is wanted of an instance now; quick.

        :raises NoSuchInstance: there is none.
        """
        statement = sa.select(_INSTANCE.c.task_state).where(_INSTANCE.c.uuid == uuid)
        rows = self._rows(statement)
        if not rows:
            raise errors.NoSuchInstance(uuid)
        task_state: str | None = rows[0].task_state
        return task_state


def get(connection: sa.Connection, uuid: str, *, lock: bool = False) -> records.Instance:
    """One instance, within a transaction.

    :param lock: nobody else changes it until the transaction's end.
    :raises NoSuchInstance: there is none.
    """
    row = connection.execute(_LOCKED if lock else _BY_UUID, {"wanted": uuid}).one_or_none()
    if row is None:
        raise errors.NoSuchInstance(uuid)
    return record(row)


def get_all(connection: sa.Connection, uuids: Sequence[str]) -> Sequence[records.Instance]:
    """Several instances within a transaction, in the order of their uuids here.

    One that isn't there is left out.
    """
    rows = rows_in(connection, sa.select(*_COLUMNS), _INSTANCE.c.uuid, uuids)
    found = {one.uuid: one for one in map(record, rows)}
    return [found[uuid] for uuid in uuids if uuid in found]


def unchanged(seen: records.Instance) -> tuple[sa.ColumnElement[bool], ...]:
    """That an instance's row is still what a record was made of, but for its progress."""
    return (_INSTANCE.c.vm_state == seen.vm_state, _INSTANCE.c.updated_at == seen.updated_at)


def record(row: sa.Row[*tuple[Any, ...]]) -> records.Instance:
    """A row as the value that leaves this room."""
    values = dict(row._mapping)
    values.pop("id", None)
    values["flavor"] = virt.Flavor(**values["flavor"])
    values["image"] = virt.ImageMeta(**values["image"])
    values["ports"] = tuple(virt.Vif(**port) for port in values["ports"])
    values["networks"] = tuple(
        Network(**one | {"dns": tuple(one["dns"])}) for one in values["networks"] or ()
    )
    values["arguments"] = values["arguments"] or {}
    values["fault"] = values["fault"] and records.Fault(**values["fault"])
    values["tried_nodes"] = tuple(values["tried_nodes"])
    return records.Instance(**values)
