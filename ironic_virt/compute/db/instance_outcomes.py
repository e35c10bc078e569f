# SPDX-License-Identifier: Apache-2.0

"""Writing down what became of what was wanted of an instance.

Every outcome is a compare and swap on the task that it is the outcome of: when a
delete has come in meanwhile, nothing is written and the caller learns so.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import claims, instance_rows, models, ports, records
from ironic_virt.compute.db.transactions import Part
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.compute.verbs import BY_TASK
from ironic_virt.virt import PowerState

_INSTANCE = models.instances
_NO_PROGRESS: dict[str, Any] = {
    "progress_step": None,
    "progress_detail": None,
    "progress_at": None,
}
_STEP_LENGTH = 64
_DETAIL_LENGTH = 255


class _NotOurs(Exception):
    """The fence does not hold: the transaction is undone."""


class InstanceOutcomes(Part):
    """What a service writes about its instances."""

    def progress_of_all(self, reports: Mapping[str, tuple[str, str]]) -> None:
        """Say how far tasks have come; of no consequence for anything else.

        :param reports: by the instance's uuid, step and detail.
        """
        now = self._transactions.now()
        statement = (
            sa.update(_INSTANCE)
            .where(_INSTANCE.c.uuid == sa.bindparam("which"), _INSTANCE.c.task_state.is_not(None))
            .values(
                progress_step=sa.bindparam("step"),
                progress_detail=sa.bindparam("detail"),
                progress_at=now,
            )
        )
        rows = [
            {"which": uuid, "step": step[:_STEP_LENGTH], "detail": detail[:_DETAIL_LENGTH]}
            # In one order, so that services don't wait for each other in a circle.
            for uuid, (step, detail) in sorted(reports.items())
        ]
        self._transactions.write(lambda connection: connection.execute(statement, rows))

    def finish(
        self,
        uuid: str,
        expected_task_state: TaskState,
        *,
        vm_state: VmState,
        power_state: PowerState | None = None,
        fence: records.Fence | None = None,
    ) -> bool:
        """Write down that what was wanted is so.

        :param fence: what has to hold still; ``None``: nothing more than the task.
        :returns: ``False`` if something else is wanted by now, or the fence doesn't hold;
            nothing was changed.
        """
        verb = BY_TASK[expected_task_state]

        def work(connection: sa.Connection) -> bool:
            now = self._transactions.now()
            values: dict[str, Any] = {"vm_state": vm_state}
            if power_state is not None:
                values["power_state"] = power_state
            if verb.launches:
                values["launched_at"] = now
            found = (
                _wanting(connection, uuid, expected_task_state) if verb.changes_record else None
            )
            if found is not None:
                values.update(verb.changes(found))
            if not _swap(connection, uuid, expected_task_state, now, values, fence=fence):
                return False
            if found is not None:
                _settle_ports(connection, found, values)
            return True

        return self._transactions.write(work)

    def fail(
        self,
        uuid: str,
        expected_task_state: TaskState | None,
        fault: records.FaultReport,
        *,
        vm_state: VmState = VmState.ERROR,
        release: bool = False,
        applied: bool = False,
        fence: records.Fence | None = None,
    ) -> bool:
        """Write down that what was wanted can't be done.

        :param expected_task_state: ``None``: nothing was wanted, and yet something
            went wrong.
        :param release: nothing of the instance is on the node any more: it loses
            claim, node and host.
        :param applied: what was asked for holds all the same, such as a rebuild's image;
            ``False``: it has changed nothing.
        :param fence: what has to hold still; ``None``: nothing more than the task.
        :returns: ``False`` if something else is wanted by now, or the fence doesn't hold;
            nothing was changed.
        """

        def work(connection: sa.Connection) -> bool:
            now = self._transactions.now()
            found = _wanting(connection, uuid, expected_task_state)
            if found is None:
                return False
            # Of no request, if nothing was wanted.
            request_id = found.request_id if expected_task_state else None
            values: dict[str, Any] = {
                "vm_state": vm_state,
                "fault": fault.row(found.host, now, request_id),
            }
            if applied and expected_task_state is not None:
                values.update(BY_TASK[expected_task_state].changes(found))
            if release:
                values.update(host=None, node=None)
            if not _swap(connection, uuid, expected_task_state, now, values, fence=fence):
                return False
            _settle_ports(connection, found, values)
            if release:
                claims.release(connection, uuid, now)
                ports.release(connection, uuid)
            return True

        return self._transactions.write(work)

    def reschedule(
        self,
        uuid: str,
        expected_task_state: TaskState,
        node: claims.Chosen,
        fault: records.FaultReport | None = None,
        *,
        attempts: int | None = None,
        tried: str | None = None,
        refused: bool = False,
        fence: records.Fence | None = None,
    ) -> bool:
        """Give up on the instance's node and try another one.

        Nothing of the instance may be left on the node that it has.

        :param node: the next node, or a pool, of which it gets a place; that may be the one
            that it has.
        :param fault: why the last attempt failed.
        :param attempts: how many there were before, for a pool.
        :param tried: what is not to be tried again; the node that it has by default.
        :param refused: the guard has refused the node, and nothing was changed there.
        :returns: ``False`` if something else is wanted by now; nothing was changed.
        :raises ClaimLost: the next node isn't free any more; nothing was changed.
        """

        in_pool = isinstance(node, records.NodePool)

        def work(connection: sa.Connection) -> bool:
            now = self._transactions.now()
            found = instance_rows.get(connection, uuid, lock=True)
            if found.attempts != attempts if in_pool else found.node == node.uuid:
                # Tried before, and its answer was lost.
                return found.task_state == expected_task_state
            if found.task_state != expected_task_state:
                return False
            claims.release(connection, uuid, now)
            given_up = tried or found.node
            values: dict[str, Any] = {
                "host": node.host,
                "node": None if in_pool else node.uuid,
                "pool": node.uuid if in_pool else None,
                "attempts": found.attempts + 1,
                "refusals": found.refusals + refused,
                "tried_nodes": [*found.tried_nodes, *([given_up] if given_up else [])],
            }
            if fault is not None:
                values["fault"] = fault.row(found.host, now, None)
            if not all(claims.claim_all(connection, [(uuid, node)], now)):
                raise errors.ClaimLost(node.uuid, uuid)
            wanted = expected_task_state
            if not _swap(connection, uuid, wanted, now, values, wanted, fence=fence):
                raise _NotOurs
            return True

        try:
            return self._transactions.write(work)
        except db_exception.DBDuplicateEntry as exc:
            raise errors.ClaimLost(node.uuid, uuid) from exc
        except (errors.NoSuchInstance, _NotOurs):
            return False

    def placed(self, uuid: str, node: str, fence: records.Fence | None = None) -> bool:
        """Write down which node was picked for an instance that is being built.

        :returns: ``False`` if something else is wanted by now; nothing was changed.
        :raises ClaimLost: the records have another instance on it; nothing was changed.
        """

        def work(connection: sa.Connection) -> bool:
            now = self._transactions.now()
            placed = connection.execute(
                sa.update(_INSTANCE)
                .where(_INSTANCE.c.uuid == uuid, _INSTANCE.c.task_state == TaskState.SPAWNING)
                .where(*(() if fence is None else _holds(fence)))
                .values(node=node, updated_at=now)
            )
            if placed.rowcount:
                # From before the option was changed.
                claims.release_nodes(connection, uuid, now, but=node)
            return bool(placed.rowcount)

        try:
            return self._transactions.write(work)
        except db_exception.DBDuplicateEntry as exc:
            raise errors.ClaimLost(node, uuid) from exc

    def deleted(self, uuid: str, fence: records.Fence | None = None) -> bool:
        """Remove the record of an instance of which nothing is left.

        Its node can be claimed again after the next refresh.

        :returns: ``False`` if its delete isn't wanted, or was done before, or the fence
            doesn't hold.
        """

        def work(connection: sa.Connection) -> bool:
            if _wanting(connection, uuid, TaskState.DELETING) is None:
                return False
            if fence is not None and not connection.scalar(
                sa.select(sa.exists().where(_INSTANCE.c.uuid == uuid, *_holds(fence)))
            ):
                return False
            remove(connection, uuid, self._transactions.now())
            return True

        return self._transactions.write(work)

    def power_seen(
        self, seen: records.Instance, power_state: PowerState, *, vm_state: VmState | None = None
    ) -> bool:
        """Write down what power state an instance has that nothing is wanted of.

        :param seen: its record as it was before the power state was read.
        :returns: ``False`` if something is wanted of it or has been since then; nothing was
            changed.
        """
        values: dict[str, Any] = {"power_state": power_state}
        if vm_state is not None:
            values["vm_state"] = vm_state
        return self._transactions.write(
            lambda connection: _swap(
                connection, seen.uuid, None, self._transactions.now(), values, seen=seen
            )
        )


def remove(
    connection: sa.Connection, uuid: str, now: datetime.datetime, request_id: str | None = None
) -> records.Instance:
    """Remove an instance's record within a transaction.

    :param request_id: of the delete, where it is done at once.
    :returns: the instance as it was, deleted.
    """
    instance = instance_rows.get(connection, uuid, lock=True)
    claims.release(connection, uuid, now)
    ports.release(connection, uuid)
    connection.execute(sa.delete(_INSTANCE).where(_INSTANCE.c.uuid == uuid))
    return instance.as_deleted(request_id)


def _wanting(
    connection: sa.Connection, uuid: str, task_state: TaskState | None
) -> records.Instance | None:
    """An instance of which just this is wanted; nobody changes it until the transaction's end."""
    try:
        found = instance_rows.get(connection, uuid, lock=True)
    except errors.NoSuchInstance:
        return None
    return found if found.task_state == task_state else None


def _settle_ports(
    connection: sa.Connection, before: records.Instance, values: dict[str, Any]
) -> None:
    """Give up the port that did not come, or is gone."""
    if "vif" in before.arguments:
        kept = (
            [port["id"] for port in values["ports"]]
            if "ports" in values
            else [port.id for port in before.ports]
        )
        ports.release(connection, before.uuid, keep=kept)


def _holds(fence: records.Fence) -> list[sa.ColumnElement[bool]]:
    """That an instance is where it was, and its service the process that it was."""
    service = models.services.c
    conditions: list[sa.ColumnElement[bool]] = [
        _INSTANCE.c.host == fence.host,
        _INSTANCE.c.attempts == fence.attempts,
        sa.exists().where(service.host == fence.host, service.incarnation == fence.incarnation),
    ]
    return conditions if fence.node is None else [*conditions, _INSTANCE.c.node == fence.node]


def _swap(
    connection: sa.Connection,
    uuid: str,
    expected: TaskState | None,
    now: datetime.datetime,
    values: dict[str, Any],
    wanted: TaskState | None = None,
    seen: records.Instance | None = None,
    fence: records.Fence | None = None,
) -> bool:
    task = _INSTANCE.c.task_state
    same = () if seen is None else instance_rows.unchanged(seen)
    swapped = connection.execute(
        sa.update(_INSTANCE)
        .where(_INSTANCE.c.uuid == uuid, task == expected if expected else task.is_(None))
        .where(*same, *(() if fence is None else _holds(fence)))
        .values(
            **values,
            task_state=wanted,
            task_args=sa.null() if wanted is None else _INSTANCE.c.task_args,
            updated_at=now,
            **_NO_PROGRESS,
        )
    )
    return bool(swapped.rowcount)
