# SPDX-License-Identifier: Apache-2.0

"""Writes what became of instances' tasks.

Each write begins with one conditional UPDATE of the instance's row: if something else is wanted
by now, such as a delete, it changes no row, nothing is written and the caller is informed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import records, tables
from ironic_virt.compute.db.compute_nodes import Place, claim_all, release_nodes
from ironic_virt.compute.db.database import Part, writes
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.compute.verbs import BY_TASK

if TYPE_CHECKING:
    from ironic_virt.compute.actions import Settled

_INSTANCE = tables.instances
_SERVICE = tables.services.c
_PORT = tables.instance_ports
# Made once: SQLAlchemy takes longer to read the rows of a statement that is made for each call.
_BY_UUID = sa.select(*tables.columns(_INSTANCE, records.Instance)).where(
    _INSTANCE.c.uuid == sa.bindparam("instance")
)
_LOCKED = _BY_UUID.with_for_update()
_LONGEST = 255
NO_TASK: Mapping[str, Any] = {
    "task_state": None,
    "arguments": {},
    "progress_step": None,
    "progress_detail": None,
}
"""The columns of an instance without a task."""


class Outcomes(Part):
    """What a service writes about its instances.

    In each method, ``began`` is the instance as it was read when its task began, or without a
    task.  If another task is wanted by now, or the instance has another service or is at another
    attempt, or ``incarnation`` is no longer the service's process, nothing is changed, and the
    method returns ``False``.  ``incarnation`` ``None``: any process.
    """

    @writes
    def progress_of_all(
        self, connection: sa.Connection, reports: Mapping[str, tuple[str, str]]
    ) -> None:
        """Write the progress of tasks, for display only.

        :param reports: by the instance's uuid, step and detail.
        """
        statement = (
            sa.update(_INSTANCE)
            .where(_INSTANCE.c.uuid == sa.bindparam("which"), _INSTANCE.c.task_state.is_not(None))
            .values(progress_step=sa.bindparam("step"), progress_detail=sa.bindparam("detail"))
        )
        rows = [
            {"which": uuid, "step": step[:_LONGEST], "detail": detail[:_LONGEST]}
            # In one order, so that services don't wait for each other in a circle.
            for uuid, (step, detail) in sorted(reports.items())
        ]
        connection.execute(statement, rows)

    @writes
    def settle(
        self,
        connection: sa.Connection,
        began: records.Instance,
        settled: Settled,
        incarnation: str | None = None,
    ) -> bool:
        """Write what an instance is when its task has ended, or as it was found without one.

        The record of an instance that is deleted is removed.  Its node can be claimed again
        after the next refresh, as one that is released.
        """
        current_time = self._db.now()
        values: dict[str, Any] = {"vm_state": settled.vm_state, **NO_TASK}
        if settled.power_state is not None:
            values["power_state"] = settled.power_state
        if began.task_state is not None:
            verb = BY_TASK[TaskState(began.task_state)]
            values |= verb.changes(began) if settled.applied else {}
            if verb.launches and settled.fault is None:
                values["launched_at"] = current_time
        if settled.fault is not None:
            # Without a task, the fault belongs to no request.
            request_id = began.request_id if began.task_state else None
            values["fault"] = settled.fault.at(current_time, request_id)
        if settled.released:
            values |= {"host": None, "node": None, "pool": None}
        if not self._swap(connection, began, incarnation, values):
            return False
        if settled.vm_state is VmState.DELETED:
            remove(connection, began.uuid)
        elif settled.released:
            release_nodes(connection, began.uuid)
            release_ports(connection, began.uuid)
        elif "vif" in began.arguments:
            # Give up the port that did not come, or is gone.
            ports = values.get("ports", began.ports)
            release_ports(connection, began.uuid, keep=[port.id for port in ports])
        return True

    @writes
    def reschedule(
        self,
        connection: sa.Connection,
        began: records.Instance,
        place: Place,
        fault: records.Fault,
        incarnation: str | None = None,
        *,
        tried: str | None = None,
        refused: bool = False,
    ) -> bool:
        """Give up the node of an instance that is being built, and try another one.

        Nothing of the instance may be left on its present node.

        :param place: the next node, or a pool to get a place in; may be the one that it has.
        :param fault: why the last attempt failed.
        :param tried: the node that is not to be tried again; by default its present one.
        :param refused: the guard has refused the node, and nothing was changed there.
        :raises ClaimLost: the next node isn't free any more; nothing was changed.
        """
        given_up = tried or began.node
        values = {
            "host": place.host,
            "node": None,
            "pool": None,
            "progress_step": None,
            "progress_detail": None,
            # The request goes on.
            "fault": fault.at(self._db.now(), None),
            "attempts": began.attempts + 1,
            "refusals": began.refusals + refused,
            "tried_nodes": (*began.tried_nodes, *([given_up] if given_up else [])),
        }
        if not self._swap(connection, began, incarnation, values):
            return False
        release_nodes(connection, began.uuid)
        claim_all(connection, [(began.uuid, place)])
        row = sa.update(_INSTANCE).where(_INSTANCE.c.uuid == began.uuid)
        connection.execute(row.values(place_values(place)))
        return True

    @writes
    def placed(
        self,
        connection: sa.Connection,
        began: records.Instance,
        node: str,
        incarnation: str | None = None,
    ) -> bool:
        """Write down which node was picked for an instance that is being built.

        :raises ClaimLost: the records have another instance on it; nothing was changed.
        """
        try:
            if not self._swap(connection, began, incarnation, {"node": node}):
                return False
        except db_exception.DBDuplicateEntry as exc:
            raise errors.ClaimLost(node, began.uuid) from exc
        # A claim from before [ironic] node_selection was changed.
        release_nodes(connection, began.uuid, but=node)
        return True

    def _swap(
        self,
        connection: sa.Connection,
        began: records.Instance,
        incarnation: str | None,
        values: Mapping[str, Any],
    ) -> bool:
        """Change an instance's row if it is still as ``began``."""
        if incarnation is not None:
            same = (_SERVICE.host == began.host, _SERVICE.incarnation == incarnation)
            # A new process of the service can't register before this transaction has ended.
            locked = sa.select(_SERVICE.host).where(*same).with_for_update(read=True)
            if connection.execute(locked).first() is None:
                return False
        names = ["uuid", "task_state", "host", "attempts"]
        if began.task_state is None:
            # It may have had a task since it was read.
            names.append("updated_at")
        same_row = [_INSTANCE.c[name] == getattr(began, name) for name in names]
        row = sa.update(_INSTANCE).where(*same_row).values(**values, updated_at=self._db.now())
        return bool(connection.execute(row).rowcount)


def get(connection: sa.Connection, uuid: str, *, lock: bool = False) -> records.Instance:
    """One instance, within a transaction; with ``lock``, nobody changes it until its end.

    :raises NoSuchInstance: there is none.
    """
    statement = _LOCKED if lock else _BY_UUID
    row = connection.execute(statement, {"instance": uuid}).one_or_none()
    if row is None:
        raise errors.NoSuchInstance(uuid)
    return records.Instance(**row._mapping)


def place_values(place: Place) -> dict[str, Any]:
    """The columns that say on which node an instance is, or in which pool."""
    if isinstance(place, records.NodePool):
        return {"host": place.host, "node": None, "pool": place.uuid}
    return {"host": place.host, "node": place.uuid, "pool": None}


def remove(connection: sa.Connection, uuid: str) -> None:
    """Remove an instance's record within a transaction, with what the instance has claimed."""
    release_nodes(connection, uuid)
    release_ports(connection, uuid)
    connection.execute(sa.delete(_INSTANCE).where(_INSTANCE.c.uuid == uuid))


# -- ports, within a transaction ----------------------------------------------
#
# Ironic attaches a port to a node even if another node has it; the other one loses its network.
# So there is a row for each port that an instance has or is being given, with a unique key: its
# id in small letters, since Neutron on MariaDB finds a port by its id in capitals, too.


def port_holder(connection: sa.Connection, port: str) -> str | None:
    """The uuid of the instance that has a port or is being given it; ``None``: none."""
    query = sa.select(_PORT.c.instance_uuid).where(_PORT.c.port_id == port.lower())
    return connection.scalar(query)


def take_ports(connection: sa.Connection, instance: str, ports: Iterable[str]) -> None:
    """Give an instance ports that no other has; it keeps those that it has.

    :raises PortTaken: another instance has one of them.
    """
    for port in ports:
        insert = sa.insert(_PORT).values(port_id=port.lower(), instance_uuid=instance)
        try:
            # If an instance has it, only this is undone.
            with connection.begin_nested():
                connection.execute(insert)
        except db_exception.DBDuplicateEntry as exc:
            holder = port_holder(connection, port)
            if holder != instance:
                raise errors.PortTaken(holder or "another one", port) from exc


def release_ports(connection: sa.Connection, instance: str, keep: Iterable[str] = ()) -> None:
    """Take an instance's ports away from it.

    :param keep: the ids of those that it keeps.
    """
    gone = sa.func.lower(_PORT.c.port_id).not_in([port.lower() for port in keep])
    connection.execute(sa.delete(_PORT).where(_PORT.c.instance_uuid == instance, gone))
