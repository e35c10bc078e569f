# SPDX-License-Identifier: Apache-2.0

"""Writing down what somebody wants of an instance.

A request is complete when its transaction is: an instance comes with its claim,
and its node, or not at all.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid as uuids
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt import virt
from ironic_virt.compute import errors
from ironic_virt.compute.db import claims, instance_rows, models, ports, records
from ironic_virt.compute.db.instance_outcomes import remove
from ironic_virt.compute.db.transactions import Part
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.compute.verbs import BY_TASK

_INSTANCE = models.instances
SUPERSEDED = "superseded by a delete"


class InstanceRequests(Part):
    """What can be wanted of instances."""

    def create_building(self, new: records.NewInstance, node: claims.Chosen) -> records.Instance:
        """Claim a node for a new instance and have it built there.

        :param node: or a pool, to claim one of its places.
        :raises ClaimLost: the node isn't free any more, or has another owner now.
        :raises InstanceExists: the uuid is taken.
        :raises InvalidRequest: another instance has one of its ports.
        """
        return self.create_several([(new, node)], 1)[0]

    def create_several(
        self, wanted: Sequence[tuple[records.NewInstance, claims.Chosen]], least: int
    ) -> Sequence[records.Instance]:
        """Do :meth:`create_building` for several instances, in one transaction.

        :param wanted: with a node each; no node twice.
        :param least: so many must get their node, or nothing is written.
        :returns: the instances that have got their node, in the order of ``wanted``.
        :raises ClaimLost: fewer have; nothing was changed.
        """

        def work(connection: sa.Connection) -> Sequence[records.Instance]:
            now = self._transactions.now()
            chosen = [(new.uuid, node) for new, node in wanted]
            claimed = claims.claim_all(connection, chosen, now)
            if sum(claimed) < least:
                uuid, node = chosen[claimed.index(False)]
                raise errors.ClaimLost(node.uuid, uuid)
            made = [pair for pair, got in zip(wanted, claimed, strict=True) if got]
            if made:
                rows = [_building(new, node, now) for new, node in made]
                connection.execute(sa.insert(_INSTANCE), rows)
            for new, _ in made:
                ports.take(connection, new.uuid, [port.id for port in new.ports], now)
            return instance_rows.get_all(connection, [new.uuid for new, _ in made])

        try:
            return self._transactions.write(work)
        except db_exception.DBDuplicateEntry:
            self._refuse_ports([new for new, _ in wanted])
            return self._earlier(wanted, least)

    def _refuse_ports(self, wanted: Iterable[records.NewInstance]) -> None:
        for new in wanted:
            for port in new.ports:
                if other := self.instance_of_port(port.id, besides=new.uuid):
                    raise errors.InvalidRequest(f"server {other} has the port {port.id}")

    def _earlier(
        self, wanted: Sequence[tuple[records.NewInstance, claims.Chosen]], least: int
    ) -> Sequence[records.Instance]:
        # A commit whose answer was lost is done a second time: then they were ours.
        uuids = [new.uuid for new, _ in wanted]
        made = self._transactions.read(lambda connection: instance_rows.get_all(connection, uuids))
        if len(made) < max(least, 1):
            new, node = wanted[0]
            if self._rows(sa.select(_INSTANCE.c.id).where(_INSTANCE.c.uuid == new.uuid)):
                raise errors.InstanceExists(new.uuid)
            raise errors.ClaimLost(node.uuid, new.uuid)
        nodes = {new.uuid: node for new, node in wanted}
        for found in made:
            node = nodes[found.uuid]
            place = found.pool if isinstance(node, records.NodePool) else found.node
            if place != node.uuid or found.vm_state != VmState.BUILDING:
                raise errors.InstanceExists(found.uuid)
        return made

    def instance_of_port(self, port: str, besides: str | None = None) -> str | None:
        """The uuid of the instance that has a port; ``None``: none has.

        :param besides: the uuid of an instance that doesn't count.
        """
        return self._transactions.read(lambda connection: ports.holder(connection, port, besides))

    def adopt(
        self,
        new: records.NewInstance,
        node: str,
        vm_state: VmState,
        power_state: virt.PowerState,
    ) -> records.Instance:
        """Write down an instance that is on a node already, and give it the node.

        :raises ComputeNodeNotFound: no service has a record of the node.
        :raises ComputeNodeInUse: the records have an instance on the node.
        :raises InstanceExists: the uuid is taken.
        """
        compute_node = models.compute_nodes

        def work(connection: sa.Connection) -> records.Instance:
            now = self._transactions.now()
            row = connection.execute(
                sa.select(compute_node.c.host, compute_node.c.instance_uuid)
                .where(compute_node.c.uuid == node)
                .with_for_update()
            ).one_or_none()
            if row is None:
                raise errors.ComputeNodeNotFound(node)
            if row.instance_uuid is not None:
                raise errors.ComputeNodeInUse(node, row.instance_uuid)
            connection.execute(
                sa.update(compute_node)
                .where(compute_node.c.uuid == node)
                .values(instance_uuid=new.uuid, available=False, updated_at=now)
            )
            adopted = {"host": row.host, "node": node, "attempts": 1, "launched_at": now}
            state = {"vm_state": vm_state, "power_state": power_state, "created_at": now}
            connection.execute(sa.insert(_INSTANCE).values(_values(new) | adopted | state))
            ports.take(connection, new.uuid, [port.id for port in new.ports], now)
            return instance_rows.get(connection, new.uuid)

        try:
            return self._transactions.write(work)
        except db_exception.DBDuplicateEntry as exc:
            self._refuse_ports([new])
            raise errors.InstanceExists(new.uuid) from exc

    def request(
        self,
        uuid: str,
        task_state: TaskState,
        arguments: Mapping[str, Any] | None = None,
        *,
        request_id: str | None = None,
    ) -> records.Instance:
        """Want something of an instance; its service carries it out.

        A delete supersedes whatever else is wanted, and asking for it again changes
        nothing: it has the first one's ``request_id``.  An instance without a host is deleted
        at once, here.

        :param arguments: of the verb, as JSON has them; kept until the task has ended or is
            superseded.
        :returns: the instance as it is now.
        :raises NoSuchInstance: there is none.
        :raises ConflictingRequest: not in its present state.
        """
        verb, arguments = BY_TASK[task_state], dict(arguments or {})
        request_id = request_id or _new_request_id()

        def work(connection: sa.Connection) -> records.Instance:
            now = self._transactions.now()
            found = instance_rows.get(connection, uuid, lock=True)
            if found.task_state == task_state == TaskState.DELETING:
                return found
            reason = verb.refusal(found.vm_state, found.task_state)
            if reason is None and task_state is not TaskState.DELETING and found.host is None:
                reason = "it is on no node; it can only be deleted"
            if reason := reason or verb.objection(found, arguments):
                raise errors.ConflictingRequest(uuid, reason)
            if verb.claims_port:
                ports.take(connection, uuid, [arguments["vif"]], now)
            if task_state is TaskState.DELETING and found.host is None:
                return remove(connection, uuid, now, request_id)
            superseded = {}
            if found.task_state is not None:
                fault = records.FaultReport(SUPERSEDED).row(found.host, now, found.request_id)
                superseded = {"fault": fault}
            connection.execute(
                sa.update(_INSTANCE)
                .where(_INSTANCE.c.uuid == uuid)
                .values(
                    **superseded,
                    request_id=request_id,
                    task_state=task_state,
                    task_args=arguments or None,
                    progress_step=None,
                    progress_detail=None,
                    progress_at=None,
                    updated_at=now,
                )
            )
            return instance_rows.get(connection, uuid)

        try:
            return self._transactions.write(work)
        except db_exception.DBDuplicateEntry as exc:
            port = arguments.get("vif")
            other = self.instance_of_port(str(port))
            raise errors.ConflictingRequest(
                uuid,
                f"{f'server {other}' if other else 'another server'} has the interface {port}",
            ) from exc


def _new_request_id() -> str:
    """A request id of the form that OpenStack's logs have."""
    return f"req-{uuids.uuid4()}"


def _building(
    new: records.NewInstance, node: claims.Chosen, now: datetime.datetime
) -> dict[str, Any]:
    """The row of an instance that is to be built on a node, or in a pool."""
    in_pool = isinstance(node, records.NodePool)
    return {
        **_values(new),
        "host": node.host,
        "node": None if in_pool else node.uuid,
        "pool": node.uuid if in_pool else None,
        "vm_state": VmState.BUILDING,
        "task_state": TaskState.SPAWNING,
        "attempts": 1,
        "created_at": now,
    }


def _values(new: records.NewInstance) -> dict[str, Any]:
    return records.fields(new) | {
        "power_state": virt.PowerState.NOSTATE,
        "flavor": records.plain(new.flavor),
        "image": records.plain(new.image),
        "ports": [records.plain(port) for port in new.ports],
        "networks": [dataclasses.asdict(one) for one in new.networks],
        "properties": dict(new.properties),
        "tried_nodes": [],
        "request_id": new.request_id or _new_request_id(),
    }
