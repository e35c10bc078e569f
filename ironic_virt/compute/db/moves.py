# SPDX-License-Identifier: Apache-2.0

"""Moving a node from one compute service to another, with the instance that it has.

One transaction checks every guard and changes both records, so a node and its
instance have one owner at any moment, and a move that was cut off can be done
again.

Where Ironic picks the nodes, only one that has an instance is anybody's: then the
instance is moved, and leaves the pool that it had a place in.
"""

from __future__ import annotations

import dataclasses

import sqlalchemy as sa

from ironic_virt.compute import errors
from ironic_virt.compute.db import claims, compute_nodes, history, models, records, services
from ironic_virt.compute.db.transactions import Transactions

MOVE = "move"
_NODE = models.ComputeNode
_INSTANCE = models.Instance


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """What a move did, or would do.

    :param instance: the uuid of the instance that goes with the node.
    :param already: the node was the destination's before; nothing was changed.
    """

    node: str
    source: str
    destination: str
    instance: str | None
    already: bool = False


class Moves:
    """Moves of nodes between compute services.

    :param down_time: seconds after its last report until a service counts as down.
    """

    def __init__(self, transactions: Transactions, down_time: float) -> None:
        self._transactions = transactions
        self._down_time = down_time

    def check(self, node_uuid: str, source: str | None, destination: str) -> Move:
        """What :meth:`move` would do; the same guards, and nothing changes."""
        return self._transactions.read(
            lambda connection: self._guarded(connection, node_uuid, source, destination, False)
        )

    def move(self, node_uuid: str, source: str | None, destination: str) -> Move:
        """Give a node, and the instance that it has, to another service.

        :param source: the service that is thought to own it; ``None``: whichever does.
        :raises ComputeNodeNotFound: there is no record of the node.
        :raises MoveRefused: a guard holds; nothing was changed.
        """

        def work(connection: sa.Connection) -> Move:
            found = self._guarded(connection, node_uuid, source, destination, True)
            if not found.already:
                self._carry_out(connection, found)
            return found

        return self._transactions.write(work)

    def _carry_out(self, connection: sa.Connection, move: Move) -> None:
        now = self._transactions.now()
        connection.execute(
            sa.update(_NODE)
            .where(_NODE.deleted == 0, _NODE.uuid == move.node, _NODE.host == move.source)
            .values(host=move.destination, updated_at=now)
        )
        if move.instance is not None:
            connection.execute(
                sa.update(_INSTANCE)
                .where(_INSTANCE.deleted == 0, _INSTANCE.uuid == move.instance)
                .values(host=move.destination, updated_at=now)
            )
            if claims.release_place(connection, move.instance):
                # Where the node has a record, too, from before or after it had pools.
                connection.execute(
                    sa.update(_NODE)
                    .where(_NODE.deleted == 0, _NODE.uuid == move.node)
                    .values(instance_uuid=move.instance)
                )
            history.begin_action(connection, move.instance, MOVE, now, finished=True)

    def _guarded(
        self,
        connection: sa.Connection,
        node_uuid: str,
        source: str | None,
        destination: str,
        lock: bool,
    ) -> Move:
        try:
            node = compute_nodes.get(connection, node_uuid, lock=lock)
        except errors.ComputeNodeNotFound:
            if (found := _in_pool(connection, node_uuid, lock)) is None:
                raise
            return self._between(connection, node_uuid, *found, source, destination, lock)
        if node.hypervisor_type != records.IRONIC:
            raise errors.MoveRefused(
                node_uuid,
                "type",
                f"its record is of type {node.hypervisor_type!r}, and only ironic nodes move",
            )
        owner = node.host
        if owner == destination:
            return Move(node_uuid, owner, destination, node.instance_uuid, already=True)
        self._between(connection, node_uuid, owner, None, source, destination, lock)
        return Move(
            node_uuid, owner, destination, _instance(connection, node_uuid, owner, node, lock)
        )

    def _between(
        self,
        connection: sa.Connection,
        node_uuid: str,
        owner: str,
        instance: str | None,
        source: str | None,
        destination: str,
        lock: bool,
    ) -> Move:
        """See that the services are as they have to be."""
        if owner == destination:
            return Move(node_uuid, owner, destination, instance, already=True)
        if source not in {None, owner}:
            raise errors.MoveRefused(
                node_uuid, "owner", f"it belongs to compute service {owner!r}, not to {source!r}"
            )
        # In one order, so that two moves in opposite directions wait for each other.
        found = {
            host: self._service(connection, node_uuid, host, lock)
            for host in sorted({owner, destination})
        }
        self._check_source(node_uuid, owner, found[owner])
        self._check_destination(node_uuid, destination, found[destination])
        return Move(node_uuid, owner, destination, instance)

    def _service(
        self, connection: sa.Connection, node: str, host: str, lock: bool
    ) -> records.Service:
        try:
            return services.get(connection, host, lock=lock)
        except errors.ServiceNotFound as exc:
            raise errors.MoveRefused(
                node, "service", f"there is no compute service {host!r}"
            ) from exc

    def _is_up(self, service: records.Service) -> bool:
        return service.is_up(self._transactions.now(), self._down_time)

    def _check_source(self, node: str, host: str, service: records.Service) -> None:
        if service.forced_down:
            return
        if self._is_up(service):
            raise errors.MoveRefused(
                node,
                "source",
                f"its compute service {host!r} is up; stop it and disable it, or force it down",
            )
        if not service.disabled:
            raise errors.MoveRefused(
                node,
                "source",
                f"its compute service {host!r} is down but not disabled, so it might come back; "
                "disable it, or force it down",
            )

    def _check_destination(self, node: str, host: str, service: records.Service) -> None:
        if not self._is_up(service):
            why = "forced down" if service.forced_down else "down"
            raise errors.MoveRefused(
                node, "destination", f"compute service {host!r} is {why}; it must be up"
            )


def _in_pool(connection: sa.Connection, uuid: str, lock: bool) -> tuple[str, str] | None:
    """Whose a node without a record is, and which instance has it; ``None``: nobody's."""
    statement = sa.select(_INSTANCE.host, _INSTANCE.uuid).where(
        _INSTANCE.deleted == 0, _INSTANCE.node == uuid, _INSTANCE.host.is_not(None)
    )
    if lock:
        statement = statement.with_for_update()
    row = connection.execute(statement).one_or_none()
    return None if row is None else (row.host, row.uuid)


def _instance(
    connection: sa.Connection, uuid: str, owner: str, node: records.ComputeNode, lock: bool
) -> str | None:
    """The one instance on a node, or the guard's refusal."""
    statement = sa.select(_INSTANCE.uuid, _INSTANCE.host).where(
        _INSTANCE.deleted == 0, _INSTANCE.node == uuid
    )
    if lock:
        statement = statement.with_for_update()
    found = connection.execute(statement).all()
    if len(found) > 1:
        raise errors.MoveRefused(
            uuid,
            "instances",
            f"{len(found)} instances are on it ({', '.join(sorted(row.uuid for row in found))}); "
            "there may be one at most",
        )
    for row in found:
        if row.host != owner:
            raise errors.MoveRefused(
                uuid,
                "instances",
                f"its instance {row.uuid} belongs to compute service {row.host!r}, "
                f"not to {owner!r}",
            )
    on_it = found[0].uuid if found else None
    if node.instance_uuid not in {None, on_it}:
        raise errors.MoveRefused(
            uuid,
            "instances",
            f"it is claimed for instance {node.instance_uuid}, which has no record on it",
        )
    return on_it
