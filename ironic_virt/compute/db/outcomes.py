# SPDX-License-Identifier: Apache-2.0

"""Writes the results of instances' tasks.

Each write is a compare and swap on the task, under the lock of the instance's row: if a delete has
come in meanwhile, nothing is written and the caller is informed.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import claims, records, tables
from ironic_virt.compute.db.claims import Place
from ironic_virt.compute.db.database import Part, writes
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.compute.verbs import BY_TASK
from ironic_virt.virt import PowerState

_INSTANCE = tables.instances
_SERVICE = tables.services.c
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

    In each method, ``fence`` is what must not have changed; ``None``: only the task.  A method
    returns ``False`` if the task has changed, or the fence doesn't hold; nothing was changed then.
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
    def finish(
        self,
        connection: sa.Connection,
        uuid: str,
        expected_task_state: TaskState,
        *,
        vm_state: VmState,
        power_state: PowerState | None = None,
        fence: records.Fence | None = None,
    ) -> bool:
        """Write that a task has succeeded."""
        instance = _locked(connection, uuid, expected_task_state, fence)
        if instance is None:
            return False
        verb = BY_TASK[expected_task_state]
        values = {"vm_state": vm_state, **verb.changes(instance)}
        if power_state is not None:
            values["power_state"] = power_state
        if verb.launches:
            values["launched_at"] = self._db.now()
        self._end_task(connection, instance, values)
        return True

    @writes
    def fail(
        self,
        connection: sa.Connection,
        uuid: str,
        expected_task_state: TaskState | None,
        fault: records.Fault,
        *,
        vm_state: VmState = VmState.ERROR,
        release: bool = False,
        applied: bool = False,
        fence: records.Fence | None = None,
    ) -> bool:
        """Write that a task has failed.

        :param expected_task_state: ``None``: the failure was found without a task.
        :param release: nothing of the instance is on the node any more: it loses
            claim, node and host.
        :param applied: the request took effect all the same, such as a rebuild's image;
            ``False``: it changed nothing.
        """
        instance = _locked(connection, uuid, expected_task_state, fence)
        if instance is None:
            return False
        current_time = self._db.now()
        # Without a task, the fault belongs to no request.
        request_id = instance.request_id if expected_task_state else None
        fault = fault.at(instance.host, current_time, request_id)
        values: dict[str, Any] = {"vm_state": vm_state, "fault": fault}
        if applied and expected_task_state is not None:
            values.update(BY_TASK[expected_task_state].changes(instance))
        if release:
            values.update(host=None, node=None)
        self._end_task(connection, instance, values)
        if release:
            claims.release(connection, uuid, current_time)
            claims.release_ports(connection, uuid)
        return True

    @writes
    def reschedule(
        self,
        connection: sa.Connection,
        uuid: str,
        node: Place,
        fault: records.Fault | None = None,
        *,
        tried: str | None = None,
        refused: bool = False,
        fence: records.Fence | None = None,
    ) -> bool:
        """Give up the node of an instance that is being built, and try another one.

        Nothing of the instance may be left on its present node.

        :param node: the next node, or a pool to get a place in; may be the one that it has.
        :param fault: why the last attempt failed.
        :param tried: the node that is not to be tried again; by default its present one.
        :param refused: the guard has refused the node, and nothing was changed there.
        :raises ClaimLost: the next node isn't free any more; nothing was changed.
        """
        instance = _locked(connection, uuid, TaskState.SPAWNING, fence)
        if instance is None:
            return False
        current_time = self._db.now()
        claims.release(connection, uuid, current_time)
        if not all(claims.claim_all(connection, [(uuid, node)], current_time)):
            raise errors.ClaimLost(node.uuid, uuid)
        given_up = tried or instance.node
        values = {
            **place_values(node),
            "progress_step": None,
            "progress_detail": None,
            "attempts": instance.attempts + 1,
            "refusals": instance.refusals + refused,
            "tried_nodes": (*instance.tried_nodes, *([given_up] if given_up else [])),
        }
        if fault is not None:
            values["fault"] = fault.at(instance.host, current_time, None)
        self._update(connection, uuid, values)
        return True

    @writes
    def placed(
        self,
        connection: sa.Connection,
        uuid: str,
        node: str,
        fence: records.Fence | None = None,
    ) -> bool:
        """Write down which node was picked for an instance that is being built.

        :raises ClaimLost: the records have another instance on it; nothing was changed.
        """
        if _locked(connection, uuid, TaskState.SPAWNING, fence) is None:
            return False
        try:
            self._update(connection, uuid, {"node": node})
        except db_exception.DBDuplicateEntry as exc:
            raise errors.ClaimLost(node, uuid) from exc
        # A claim from before [ironic] node_selection was changed.
        claims.release_nodes(connection, uuid, self._db.now(), but=node)
        return True

    @writes
    def deleted(
        self, connection: sa.Connection, uuid: str, fence: records.Fence | None = None
    ) -> bool:
        """Remove the record of an instance that has left nothing behind.

        Its node can be claimed again after the next refresh.
        """
        if _locked(connection, uuid, TaskState.DELETING, fence) is None:
            return False
        remove(connection, uuid, self._db.now())
        return True

    @writes
    def power_seen(
        self,
        connection: sa.Connection,
        seen: records.Instance,
        power_state: PowerState,
        *,
        vm_state: VmState,
    ) -> bool:
        """Write the power state of an instance without a task.

        :param seen: its record as it was before the power state was read; nothing is written
            if it has had a task since then.
        """
        instance = _locked(connection, seen.uuid, None)
        if instance is None or instance.updated_at != seen.updated_at:
            return False
        self._update(connection, seen.uuid, {"power_state": power_state, "vm_state": vm_state})
        return True

    def _end_task(
        self, connection: sa.Connection, before: records.Instance, values: Mapping[str, Any]
    ) -> None:
        """Write an instance's state at the end of its task."""
        self._update(connection, before.uuid, {**values, **NO_TASK})
        if "vif" in before.arguments:
            # Give up the port that did not come, or is gone.
            ports = values.get("ports", before.ports)
            claims.release_ports(connection, before.uuid, keep=[port.id for port in ports])

    def _update(self, connection: sa.Connection, uuid: str, values: Mapping[str, Any]) -> None:
        row = sa.update(_INSTANCE).where(_INSTANCE.c.uuid == uuid)
        connection.execute(row.values({**values, "updated_at": self._db.now()}))


def get(
    connection: sa.Connection,
    uuid: str,
    *conditions: sa.ColumnElement[bool],
    lock: bool = False,
) -> records.Instance:
    """One instance, within a transaction.

    :param conditions: on its row.
    :param lock: nobody else changes it until the transaction's end.
    :raises NoSuchInstance: there is none for which the conditions hold.
    """
    statement = (_LOCKED if lock else _BY_UUID).where(*conditions)
    row = connection.execute(statement, {"instance": uuid}).one_or_none()
    if row is None:
        raise errors.NoSuchInstance(uuid)
    return records.Instance(**row._mapping)


def place_values(place: Place) -> dict[str, Any]:
    """The columns that say on which node an instance is, or in which pool."""
    if isinstance(place, records.NodePool):
        return {"host": place.host, "node": None, "pool": place.uuid}
    return {"host": place.host, "node": place.uuid, "pool": None}


def remove(connection: sa.Connection, uuid: str, current_time: datetime.datetime) -> None:
    """Remove an instance's record within a transaction, with what the instance has claimed."""
    claims.release_nodes(connection, uuid, current_time)
    claims.release_ports(connection, uuid)
    connection.execute(sa.delete(_INSTANCE).where(_INSTANCE.c.uuid == uuid))


def _locked(
    connection: sa.Connection,
    uuid: str,
    task_state: TaskState | None,
    fence: records.Fence | None = None,
) -> records.Instance | None:
    """Read an instance with exactly this task, and lock it until the transaction's end.

    The fence checks that host and process have not changed.
    """
    task = _INSTANCE.c.task_state
    conditions = [task == task_state if task_state else task.is_(None)]
    if fence is not None:
        same = (_SERVICE.host == fence.host, _SERVICE.incarnation == fence.incarnation)
        # A new process of the service can't register before this transaction has ended.
        if not connection.execute(
            sa.select(_SERVICE.host).where(*same).with_for_update(read=True)
        ).first():
            return None
        conditions += [_INSTANCE.c.host == fence.host, _INSTANCE.c.attempts == fence.attempts]
        if fence.node is not None:
            conditions.append(_INSTANCE.c.node == fence.node)
    try:
        return get(connection, uuid, *conditions, lock=True)
    except errors.NoSuchInstance:
        return None
