# SPDX-License-Identifier: Apache-2.0

"""Instances: reading them, and writing down what somebody wants of one.

A request is complete when its transaction is: an instance comes with its claim,
and its node, or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_context import context as oslo_context
from oslo_db import exception as db_exception

from ironic_virt import virt
from ironic_virt.compute import errors
from ironic_virt.compute.db import compute_nodes, records, tables
from ironic_virt.compute.db.compute_nodes import Place
from ironic_virt.compute.db.database import insert_or_retry, reads, rows_in, writes
from ironic_virt.compute.db.outcomes import (
    NO_TASK,
    Outcomes,
    get,
    place_values,
    port_holder,
    remove,
    take_ports,
)
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.compute.verbs import BY_TASK, UUID

_INSTANCE = tables.instances
_COLUMNS = tables.columns(_INSTANCE, records.Instance)
_SAME_NAME = 10
"""More uuids than these nobody reads."""


class Instances(Outcomes):
    """The records of instances."""

    @reads
    def get(self, connection: sa.Connection, instance: str) -> records.Instance:
        """One instance.

        :param instance: its uuid, or its name if no other has that and it is not like a uuid.
        :raises NoSuchInstance: there is none.
        :raises AmbiguousName: several have this name.
        """
        with contextlib.suppress(errors.NoSuchInstance):
            return get(connection, instance)
        if UUID.fullmatch(instance):
            # Perhaps in capitals.  It never names another instance.
            return get(connection, instance.lower())
        named = sa.select(_INSTANCE.c.uuid).where(_INSTANCE.c.display_name == instance)
        rows = connection.scalars(named.order_by(_INSTANCE.c.id).limit(_SAME_NAME)).all()
        if len(rows) > 1:
            raise errors.AmbiguousName(len(rows), instance, ", ".join(rows))
        return get(connection, rows[0] if rows else instance)

    def list(
        self,
        host: str | None = None,
        node: str | None = None,
        *,
        name: str | None = None,
        limit: int | None = None,
    ) -> Sequence[records.Instance]:
        """Instances, the newest first."""
        statement = sa.select(*_COLUMNS).order_by(_INSTANCE.c.id.desc()).limit(limit)
        for column, value in {"host": host, "node": node, "display_name": name}.items():
            if value is not None:
                statement = statement.where(_INSTANCE.c[column] == value)
        return [records.Instance(**row._mapping) for row in self._rows(statement)]

    @reads
    def get_several(
        self, connection: sa.Connection, uuids: Collection[str]
    ) -> Mapping[str, records.Instance]:
        """Instances by their uuids; one that isn't known is left out."""
        rows = rows_in(connection, sa.select(*_COLUMNS), _INSTANCE.c.uuid, uuids)
        return {row.uuid: records.Instance(**row._mapping) for row in rows}

    def pending_tasks(self, host: str) -> Mapping[str, str]:
        """What is wanted of a service's instances, by their uuids, the oldest first.

        A task is a :class:`~ironic_virt.compute.states.TaskState`, or one of a newer version.
        """
        statement = sa.select(_INSTANCE.c.uuid, _INSTANCE.c.task_state)
        mine = (_INSTANCE.c.host == host, _INSTANCE.c.task_state.is_not(None))
        rows = self._rows(statement.where(*mine).order_by(_INSTANCE.c.id))
        return dict(tuple(row) for row in rows)

    def places(self, host: str) -> Mapping[str, str]:
        """Where each of a service's instances is: its pool, else its node, else ``""``."""
        statement = sa.select(_INSTANCE.c.uuid, _INSTANCE.c.pool, _INSTANCE.c.node)
        rows = self._rows(statement.where(_INSTANCE.c.host == host))
        return {row.uuid: row.pool or row.node or "" for row in rows}

    @reads
    def hosts(self, connection: sa.Connection, uuids: Collection[str]) -> Mapping[str, str | None]:
        """The services that instances belong to, by uuid; one that isn't known is left out."""
        statement = sa.select(_INSTANCE.c.uuid, _INSTANCE.c.host)
        rows = rows_in(connection, statement, _INSTANCE.c.uuid, uuids)
        return {row.uuid: row.host for row in rows}

    @reads
    def instance_of_port(self, connection: sa.Connection, port: str) -> str | None:
        """The uuid of the instance that has a port; ``None``: none has."""
        return port_holder(connection, port)

    # -- what is wanted of them -----------------------------------------------

    @writes
    def create_several(
        self,
        connection: sa.Connection,
        choices: Sequence[tuple[records.NewInstance, Place]],
    ) -> Sequence[records.Instance]:
        """Claim nodes for new instances and have them built there, in one transaction.

        :param choices: with a node each, or a pool, to claim one of its places; no node twice.
        :raises ClaimLost: a node isn't free any more or has another owner; nothing was written.
        :raises InstanceExists: a uuid is taken.
        :raises PortTaken: another instance has one of their ports.
        """
        places = [(new.uuid, place) for new, place in choices]
        compute_nodes.claim_all(connection, places)
        state = {"vm_state": VmState.BUILDING, "task_state": TaskState.SPAWNING}
        return self._insert(connection, choices, state)

    @writes
    def adopt(
        self,
        connection: sa.Connection,
        new: records.NewInstance,
        node: str,
        vm_state: VmState,
        power_state: virt.PowerState,
    ) -> records.Instance:
        """Write down an instance that is on a node already, and give it the node.

        :raises ComputeNodeNotFound: no service has a record of the node.
        :raises ComputeNodeInUse: the records have an instance on the node.
        :raises InstanceExists: the uuid is taken.
        :raises PortTaken: another instance has one of its ports.
        """
        compute_node = compute_nodes.get(connection, node, lock=True)
        compute_nodes.check_unused(connection, compute_node)
        row = sa.update(tables.compute_nodes).where(tables.compute_nodes.c.uuid == node)
        try:
            connection.execute(row.values(instance_uuid=new.uuid, available=False))
        except db_exception.DBDuplicateEntry as exc:
            raise errors.InstanceExists(new.uuid) from exc
        state = {"vm_state": vm_state, "power_state": power_state, "launched_at": self._db.now()}
        return self._insert(connection, [(new, compute_node)], state)[0]

    def _insert(
        self,
        connection: sa.Connection,
        choices: Sequence[tuple[records.NewInstance, Place]],
        state: Mapping[str, Any],
    ) -> Sequence[records.Instance]:
        current_time = self._db.now()
        instances = []
        for new, place in choices:
            request_id = new.request_id or oslo_context.generate_request_id()
            values = {**records.fields(new), **place_values(place), **state}
            values |= {"request_id": request_id, "created_at": current_time}
            instances.append(records.Instance(**values))
        uuids = [instance.uuid for instance in instances]
        for taken in rows_in(connection, sa.select(_INSTANCE.c.uuid), _INSTANCE.c.uuid, uuids):
            raise errors.InstanceExists(taken.uuid)
        # Else another instance has got the node just now, and who looks again sees that.
        insert_or_retry(connection, sa.insert(_INSTANCE), list(map(records.fields, instances)))
        for new, _ in choices:
            take_ports(connection, new.uuid, [port.id for port in new.ports])
        return instances

    @writes
    def request(
        self,
        connection: sa.Connection,
        uuid: str,
        task_state: TaskState,
        arguments: Mapping[str, Any] | None = None,
        *,
        request_id: str | None = None,
    ) -> records.Instance:
        """Record a request for an instance; its service carries it out.

        A delete supersedes any other request, and repeating it changes nothing: it keeps the
        first one's ``request_id``.  An instance without a host is deleted at once, here.

        :param arguments: of the verb; kept until the task has ended or is superseded.
        :returns: the instance as it is now.
        :raises NoSuchInstance: there is none.
        :raises ConflictingRequest: not in its present state.
        """
        verb, current_time, arguments = BY_TASK[task_state], self._db.now(), dict(arguments or {})
        instance = get(connection, uuid, lock=True)
        if instance.task_state == task_state == TaskState.DELETING:
            return instance
        reason = verb.refusal(instance.vm_state, instance.task_state)
        if reason is None and task_state is not TaskState.DELETING and instance.host is None:
            reason = "it is on no node; it can only be deleted"
        if vif := arguments.get("vif"):
            # Neutron takes capitals for the same, and Ironic doesn't.
            ids = {port.id.lower(): port.id for port in instance.ports}
            arguments["vif"] = ids.get(vif.lower(), vif)
        if reason := reason or verb.objection(instance, arguments):
            raise errors.ConflictingRequest(uuid, reason)
        request_id = request_id or oslo_context.generate_request_id()
        if task_state is TaskState.DELETING and instance.host is None:
            remove(connection, uuid)
            return instance.as_deleted(request_id)
        wish: dict[str, Any] = {
            "task_state": task_state,
            "arguments": arguments,
            "request_id": request_id,
        }
        if instance.task_state is not None:
            superseded = records.Fault("superseded by a delete")
            wish["fault"] = superseded.at(current_time, instance.request_id)
        row = sa.update(_INSTANCE).where(_INSTANCE.c.uuid == uuid)
        connection.execute(row.values({**NO_TASK, **wish, "updated_at": current_time}))
        if verb.claims_port:
            try:
                take_ports(connection, uuid, [arguments["vif"]])
            except errors.PortTaken as exc:
                taken = f"server {exc.holder} has the interface {exc.port}"
                raise errors.ConflictingRequest(uuid, taken) from exc
        return get(connection, uuid)
