# SPDX-License-Identifier: Apache-2.0

"""Writing down what became of what was wanted of an instance.

Every outcome is a compare and swap on the task that it is the outcome of: when a
delete has come in meanwhile, nothing is written and the caller learns so.
"""

from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import claims, history, instance_rows, models, pools, ports, records
from ironic_virt.compute.db.instance_rows import LIVE
from ironic_virt.compute.db.transactions import Transactions
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.virt import PowerState

_INSTANCE = models.Instance
_NO_PROGRESS: dict[str, Any] = {
    "progress_step": None,
    "progress_detail": None,
    "progress_at": None,
}
_INTERFACES = (TaskState.ATTACHING_INTERFACE, TaskState.DETACHING_INTERFACE)
_STEP_LENGTH = 64
_DETAIL_LENGTH = 255


class InstanceOutcomes:
    """What a service writes about its instances."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def progress(self, uuid: str, step: str, detail: str = "") -> None:
        """Say how far something has come; of no consequence for anything else."""
        now = self._transactions.now()
        self._transactions.write(
            lambda connection: connection.execute(
                sa.update(_INSTANCE)
                .where(LIVE, _INSTANCE.uuid == uuid, _INSTANCE.task_state.is_not(None))
                .values(
                    progress_step=step[:_STEP_LENGTH],
                    progress_detail=detail[:_DETAIL_LENGTH],
                    progress_at=now,
                )
            )
        )

    def finish(
        self,
        uuid: str,
        expected_task_state: TaskState,
        *,
        vm_state: VmState,
        power_state: PowerState | None = None,
    ) -> bool:
        """Write down that what was wanted is so.

        :returns: ``False`` if something else is wanted by now; nothing was changed.
        """

        def work(connection: sa.Connection) -> bool:
            now = self._transactions.now()
            values: dict[str, Any] = {"vm_state": vm_state}
            if power_state is not None:
                values["power_state"] = power_state
            if expected_task_state in (TaskState.SPAWNING, TaskState.REBUILDING):
                values["launched_at"] = now
            values.update(_rebuilt(connection, uuid, expected_task_state))
            values.update(_replugged(connection, uuid, expected_task_state))
            if not _swap(connection, uuid, expected_task_state, now, values):
                return False
            _settle_ports(connection, uuid, expected_task_state)
            history.finish_actions(connection, uuid, now)
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
        keep_image: bool = False,
    ) -> bool:
        """Write down that what was wanted can't be done.

        :param expected_task_state: ``None``: nothing was wanted, and yet something
            went wrong.
        :param release: nothing of the instance is on the node any more: it loses
            claim, node and host.
        :param keep_image: a rebuild has changed nothing: the image is what it was.
        :returns: ``False`` if something else is wanted by now; nothing was changed.
        """

        def work(connection: sa.Connection) -> bool:
            now = self._transactions.now()
            values: dict[str, Any] = {"vm_state": vm_state}
            if not keep_image:
                values.update(_rebuilt(connection, uuid, expected_task_state))
            if release:
                values.update(host=None, node=None)
            host = connection.scalar(sa.select(_INSTANCE.host).where(_INSTANCE.uuid == uuid))
            if not _swap(connection, uuid, expected_task_state, now, values):
                return False
            _settle_ports(connection, uuid, expected_task_state)
            if release:
                claims.release(connection, uuid, now)
                ports.release(connection, uuid)
            history.finish_actions(connection, uuid, now, fault.message)
            history.add_fault(connection, uuid, host, fault, now)
            return True

        return self._transactions.write(work)

    def reschedule(
        self,
        uuid: str,
        expected_task_state: TaskState,
        node: str,
        host: str,
        fault: records.FaultReport | None = None,
        *,
        pool: bool = False,
        attempts: int | None = None,
        tried: str | None = None,
    ) -> bool:
        """Give up on the instance's node and try another one.

        Nothing of the instance may be left on the node that it has.

        :param node: the uuid of the next node, ``host`` the service that has it.
        :param fault: why the last attempt failed.
        :param pool: ``node`` is the name of a pool, of which it gets a place; that may be
            the one that it has.
        :param attempts: how many there were before, for a pool.
        :param tried: what is not to be tried again; the node that it has by default.
        :returns: ``False`` if something else is wanted by now; nothing was changed.
        :raises ClaimLost: the next node isn't free any more; nothing was changed.
        """

        def work(connection: sa.Connection) -> bool:
            now = self._transactions.now()
            found = instance_rows.get(connection, uuid, lock=True)
            done = found.attempts != attempts if pool else found.node == node
            if done:
                # Tried before, and its answer was lost.
                return found.task_state == expected_task_state
            if found.task_state != expected_task_state:
                return False
            claims.release(connection, uuid, now)
            given_up = tried or found.node
            values = {
                "host": host,
                "node": None if pool else node,
                "pool": node if pool else None,
                "attempts": found.attempts + 1,
                "tried_nodes": [*found.tried_nodes, *([given_up] if given_up else [])],
            }
            if pool:
                claimed = pools.has_place(connection, node, host)
            else:
                claimed = claims.claim(connection, node, host, uuid, now)
            if not claimed:
                raise errors.ClaimLost(node, uuid)
            _swap(connection, uuid, expected_task_state, now, values, expected_task_state)
            if fault is not None:
                history.add_fault(connection, uuid, found.host, fault, now)
            return True

        try:
            return self._transactions.write(work)
        except db_exception.DBDuplicateEntry as exc:
            raise errors.ClaimLost(node, uuid) from exc
        except errors.NoSuchInstance:
            return False

    def placed(self, uuid: str, node: str) -> bool:
        """Write down which node was picked for an instance that is being built.

        :returns: ``False`` if something else is wanted by now; nothing was changed.
        :raises ClaimLost: the records have another instance on it; nothing was changed.
        """

        def work(connection: sa.Connection) -> bool:
            now = self._transactions.now()
            placed = connection.execute(
                sa.update(_INSTANCE)
                .where(LIVE, _INSTANCE.uuid == uuid, _INSTANCE.task_state == TaskState.SPAWNING)
                .values(node=node, updated_at=now)
            )
            if placed.rowcount:
                # From before the option was changed.
                claims.release_others(connection, uuid, node, now)
            return bool(placed.rowcount)

        try:
            return self._transactions.write(work)
        except db_exception.DBDuplicateEntry as exc:
            raise errors.ClaimLost(node, uuid) from exc

    def deleted(self, uuid: str) -> bool:
        """Write down that nothing of the instance is left: its history stays.

        Its node can be claimed again after the next refresh.

        :returns: ``False`` if its delete isn't wanted, or was done before.
        """

        def work(connection: sa.Connection) -> bool:
            try:
                found = instance_rows.get(connection, uuid, lock=True)
            except errors.NoSuchInstance:
                return False
            if found.task_state != TaskState.DELETING:
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


def remove(connection: sa.Connection, uuid: str, now: datetime.datetime) -> records.Instance:
    """Delete an instance's record within a transaction; what is left is history."""
    claims.release(connection, uuid, now)
    ports.release(connection, uuid)
    connection.execute(
        sa.update(_INSTANCE)
        .where(LIVE, _INSTANCE.uuid == uuid)
        .values(
            vm_state=VmState.DELETED,
            task_state=None,
            power_state=PowerState.NOSTATE,
            terminated_at=now,
            updated_at=now,
            deleted_at=now,
            deleted=_INSTANCE.id,
            **_NO_PROGRESS,
        )
    )
    history.finish_actions(connection, uuid, now)
    return instance_rows.get(connection, uuid, deleted=True)


def _rebuilt(connection: sa.Connection, uuid: str, task_state: TaskState | None) -> dict[str, Any]:
    """The image with which an instance was rebuilt, as far as that came."""
    if task_state is not TaskState.REBUILDING:
        return {}
    wanted = connection.scalar(sa.select(_INSTANCE.rebuild).where(LIVE, _INSTANCE.uuid == uuid))
    return {} if wanted is None else {"image": wanted["image"]}


def _replugged(
    connection: sa.Connection, uuid: str, task_state: TaskState | None
) -> dict[str, Any]:
    """The ports of an instance when the one that was wanted has come or gone."""
    if task_state not in _INTERFACES:
        return {}
    statement = sa.select(_INSTANCE.ports, _INSTANCE.interface).where(LIVE, _INSTANCE.uuid == uuid)
    row = connection.execute(statement).one_or_none()
    if row is None or row.interface is None:
        return {}
    others = [port for port in row.ports if port["id"] != row.interface["id"]]
    comes = task_state is TaskState.ATTACHING_INTERFACE
    return {"ports": [*others, row.interface] if comes else others}


def _settle_ports(connection: sa.Connection, uuid: str, task_state: TaskState | None) -> None:
    """Give up the port that did not come, or is gone."""
    if task_state in _INTERFACES:
        has = connection.scalar(sa.select(_INSTANCE.ports).where(LIVE, _INSTANCE.uuid == uuid))
        ports.release(connection, uuid, keep=[port["id"] for port in has or ()])


def _swap(
    connection: sa.Connection,
    uuid: str,
    expected: TaskState | None,
    now: datetime.datetime,
    values: dict[str, Any],
    wanted: TaskState | None = None,
    seen: records.Instance | None = None,
) -> bool:
    task = _INSTANCE.task_state
    same = () if seen is None else instance_rows.unchanged(seen)
    swapped = connection.execute(
        sa.update(_INSTANCE)
        .where(LIVE, _INSTANCE.uuid == uuid, task == expected if expected else task.is_(None))
        .where(*same)
        .values(
            **values,
            task_state=wanted,
            rebuild=sa.null() if wanted is None else _INSTANCE.rebuild,
            interface=sa.null() if wanted is None else _INSTANCE.interface,
            rescue_password=sa.null() if wanted is None else _INSTANCE.rescue_password,
            updated_at=now,
            **_NO_PROGRESS,
        )
    )
    return bool(swapped.rowcount)
