# SPDX-License-Identifier: Apache-2.0

"""Moving nodes from one compute service to another, with the instances that they have.

One transaction checks every guard and changes both records of each node, so a node and its
instance have one owner at any moment, and a move that was cut off can be done again.  A node
that a guard keeps costs the others nothing.

Where Ironic picks the nodes, only one that has an instance is anybody's: then the
instance is moved, and leaves the pool that it had a place in.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_virt.compute import errors
from ironic_virt.compute.db import history, models, records, services
from ironic_virt.compute.db.transactions import SIZE, Part, chunks, rows_in
from ironic_virt.compute.states import VmState

MOVE = "move"
NO_RECORD = "record"
_NODE = models.compute_nodes
_INSTANCE = models.instances


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """What a move did with a node, or would do.

    :param source: the service that has it; ``None``: there is no record of it.
    :param instance: the uuid of the instance that goes with it.
    :param settled: the instance is neither on its way to the node nor off it.
    :param already: the node was the destination's before; nothing was changed.
    :param guard: the short name of the guard that keeps the node; ``None``: none does.
    :param reason: why, a sentence without its full stop.
    """

    node: str
    source: str | None
    destination: str
    instance: str | None = None
    settled: bool = True
    already: bool = False
    guard: str | None = None
    reason: str | None = None

    def refused(self, guard: str, reason: str) -> Move:
        """The same, kept by a guard."""
        return dataclasses.replace(self, guard=guard, reason=reason)


class Moves(Part):
    """Moves of nodes between compute services."""

    def nodes_of(self, host: str) -> Sequence[str]:
        """The uuids of the nodes that a service has, or its instances, sorted."""
        nodes = sa.select(_NODE.c.uuid).where(_NODE.c.deleted == 0, _NODE.c.host == host)
        carriers = sa.select(_INSTANCE.c.node).where(
            _INSTANCE.c.deleted == 0, _INSTANCE.c.host == host, _INSTANCE.c.node.is_not(None)
        )
        statement: sa.CompoundSelect[Any] = sa.union(nodes, carriers)
        return sorted(uuid for (uuid,) in self._rows(statement))

    def check(
        self,
        nodes: Sequence[str],
        destination: str,
        *,
        source: str | None = None,
        force: bool = False,
    ) -> Sequence[Move]:
        """What :meth:`move` would do; the same guards, and nothing changes."""
        return self._transactions.read(
            lambda connection: self._guarded(connection, nodes, destination, source, force, False)
        )

    def move(
        self,
        nodes: Sequence[str],
        destination: str,
        *,
        source: str | None = None,
        force: bool = False,
    ) -> Sequence[Move]:
        """Give nodes, and the instances that they have, to another service.

        :param nodes: uuids; a few hundred at most, since their records are locked.
        :param source: the service that is thought to own them; ``None``: whichever does.
        :param force: also when the source, forced down, has reported just now.
        :returns: one for each node, in their order.
        """

        def work(connection: sa.Connection) -> Sequence[Move]:
            found = self._guarded(connection, nodes, destination, source, force, True)
            moving = [one for one in found if one.guard is None and not one.already]
            if moving:
                self._carry_out(connection, moving, destination)
            return found

        return self._transactions.write(work)

    def _carry_out(
        self, connection: sa.Connection, moving: Sequence[Move], destination: str
    ) -> None:
        now = self._transactions.now()
        moved = {"host": destination, "updated_at": now}
        by_source: dict[str | None, list[str]] = defaultdict(list)
        for one in moving:
            by_source[one.source].append(one.node)
        for source, nodes in sorted(by_source.items(), key=str):
            for some in chunks(nodes):
                connection.execute(
                    sa.update(_NODE)
                    .where(_NODE.c.deleted == 0, _NODE.c.uuid.in_(some), _NODE.c.host == source)
                    .values(moved)
                )
        node_of = {one.instance: one.node for one in moving if one.instance is not None}
        for some in chunks(list(node_of), SIZE // 3):
            # Where the node has a record, too, from before or after it had pools.
            carrier = sa.select(_INSTANCE.c.uuid).where(
                _INSTANCE.c.uuid.in_(some),
                _INSTANCE.c.node == _NODE.c.uuid,
                _INSTANCE.c.pool.is_not(None),
            )
            connection.execute(
                sa.update(_NODE)
                .where(_NODE.c.deleted == 0, _NODE.c.instance_uuid.is_(None), carrier.exists())
                .where(_NODE.c.uuid.in_([node_of[uuid] for uuid in some]))
                .values(instance_uuid=carrier.scalar_subquery())
            )
            connection.execute(
                sa.update(_INSTANCE)
                .where(_INSTANCE.c.deleted == 0, _INSTANCE.c.uuid.in_(some))
                .values(**moved, pool=None)
            )
        rows = [history.action(uuid, MOVE, now, finished=True) for uuid in node_of]
        history.write_actions(connection, rows)

    def _guarded(
        self,
        connection: sa.Connection,
        nodes: Sequence[str],
        destination: str,
        source: str | None,
        force: bool,
        lock: bool,
    ) -> Sequence[Move]:
        owned = _owned(connection, nodes, lock)
        carried = _carried(connection, nodes, lock)
        hosts = {row.host for row in owned.values()}
        hosts |= {row.host for rows in carried.values() for row in rows if row.host is not None}
        # In one order, so that two moves in opposite directions wait for each other.
        found = {host: _service(connection, host, lock) for host in sorted({*hosts, destination})}
        return [
            self._decide(
                _move(node, destination, owned.get(node), carried.get(node, ())),
                *(owned.get(node), carried.get(node, ()), source, found, force),
            )
            for node in nodes
        ]

    def _decide(
        self,
        move: Move,
        record: sa.Row[*tuple[Any, ...]] | None,
        carried: Sequence[sa.Row[*tuple[Any, ...]]],
        source: str | None,
        found: Mapping[str, records.ComputeService | None],
        force: bool,
    ) -> Move:
        """The move, or the first guard that keeps the node."""
        if move.source is None:
            return move.refused(NO_RECORD, str(errors.ComputeNodeNotFound(move.node)))
        if move.source == move.destination:
            return dataclasses.replace(move, already=True)
        if source not in {None, move.source}:
            return move.refused(
                "owner", f"it belongs to compute service {move.source!r}, not to {source!r}"
            )
        for host in (move.source, move.destination):
            if found[host] is None:
                return move.refused("service", f"there is no compute service {host!r}")
        owner, taker = found[move.source], found[move.destination]
        assert owner is not None
        assert taker is not None
        if why := self._why_source_keeps(owner, force):
            return move.refused("source", why)
        if not self._is_up(taker):
            state = "forced down" if taker.forced_down else "down"
            return move.refused(
                "destination", f"compute service {taker.host!r} is {state}; it must be up"
            )
        if why := _why_instances_keep(record, carried):
            return move.refused("server", why)
        return move

    def _is_up(self, service: records.ComputeService) -> bool:
        return service.is_up(self._transactions.now(), self._transactions.down_time)

    def _why_source_keeps(self, service: records.ComputeService, force: bool) -> str | None:
        if service.forced_down:
            now, down_time = self._transactions.now(), self._transactions.down_time
            if force or not service.reports(now, down_time):
                return None
            return (
                f"its compute service {service.host!r} is forced down and has reported in the "
                f"last {down_time:.0f} s, so it may still act; stop it, or if its host is "
                "fenced, use --force"
            )
        if self._is_up(service):
            return (
                f"its compute service {service.host!r} is up; stop it and disable it, or force it "
                "down"
            )
        if not service.disabled:
            return (
                f"its compute service {service.host!r} is down but not disabled, so it might come "
                "back; disable it, or force it down"
            )
        return None


def _owned(
    connection: sa.Connection, nodes: Sequence[str], lock: bool
) -> dict[str, sa.Row[*tuple[Any, ...]]]:
    """The nodes' records by uuid; a node without one is left out."""
    statement = sa.select(_NODE.c.uuid, _NODE.c.host, _NODE.c.instance_uuid)
    statement = statement.where(_NODE.c.deleted == 0).order_by(_NODE.c.uuid)
    statement = statement.with_for_update() if lock else statement
    return {row.uuid: row for row in rows_in(connection, statement, _NODE.c.uuid, nodes)}


def _carried(
    connection: sa.Connection, nodes: Sequence[str], lock: bool
) -> dict[str, list[sa.Row[*tuple[Any, ...]]]]:
    """The instances on nodes, by the node's uuid."""
    statement = sa.select(
        *(_INSTANCE.c.node, _INSTANCE.c.host, _INSTANCE.c.uuid),
        *(_INSTANCE.c.task_state, _INSTANCE.c.vm_state),
    )
    statement = statement.where(_INSTANCE.c.deleted == 0).order_by(_INSTANCE.c.uuid)
    statement = statement.with_for_update() if lock else statement
    found: dict[str, list[sa.Row[*tuple[Any, ...]]]] = defaultdict(list)
    for row in rows_in(connection, statement, _INSTANCE.c.node, nodes):
        found[str(row.node)].append(row)
    return found


def _service(connection: sa.Connection, host: str, lock: bool) -> records.ComputeService | None:
    try:
        return services.get(connection, host, lock=lock)
    except errors.ServiceNotFound:
        return None


def _move(
    node: str,
    destination: str,
    record: sa.Row[*tuple[Any, ...]] | None,
    carried: Sequence[sa.Row[*tuple[Any, ...]]],
) -> Move:
    """A move that no guard has looked at."""
    # Where Ironic picks the nodes, one without a record belongs to its instance's service.
    owner = record.host if record is not None else next((row.host for row in carried), None)
    instance = carried[0] if carried else None
    return Move(
        node,
        owner,
        destination,
        instance.uuid if instance else record.instance_uuid if record else None,
        settled=instance is not None
        and instance.task_state is None
        and instance.vm_state != VmState.ERROR,
    )


def _why_instances_keep(
    record: sa.Row[*tuple[Any, ...]] | None,
    carried: Sequence[sa.Row[*tuple[Any, ...]]],
) -> str | None:
    """Why a node stays because of the instances on it."""
    if len(carried) > 1:
        listed = ", ".join(row.uuid for row in carried)
        return f"{len(carried)} servers are on it ({listed}); there may be one at most"
    if record is None:
        return None
    for row in carried:
        if row.host != record.host:
            return (
                f"its server {row.uuid} belongs to compute service {row.host!r}, "
                f"not to {record.host!r}"
            )
    on_it = carried[0].uuid if carried else None
    if record.instance_uuid not in {None, on_it}:
        return f"it is claimed for server {record.instance_uuid}, which has no record on it"
    return None
