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
import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_virt.compute import errors
from ironic_virt.compute.db import models, records, services
from ironic_virt.compute.db.transactions import SIZE, Part, chunks, rows_in
from ironic_virt.compute.states import VmState

_NODE = models.compute_nodes
_INSTANCE = models.instances


class Outcome(enum.StrEnum):
    """What became of a node."""

    MOVED = "moved"
    WOULD_MOVE = "would move"
    ALREADY_THERE = "already there"
    NO_RECORD = "no record"
    REFUSED = "refused"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """What became of a node that was to be moved, and why.

    :param source: the service that had it; ``None``: there is no record of it.
    :param instance: the uuid of the instance that goes with it.
    :param guard: the short name of the guard that keeps the node.
    :param reason: why it was not moved, a sentence without its full stop.
    :param settled: the instance is neither on its way to the node nor off it.
    """

    node: str
    outcome: Outcome
    destination: str
    source: str | None = None
    instance: str | None = None
    guard: str | None = None
    reason: str | None = None
    settled: bool = dataclasses.field(default=False, compare=False)

    @property
    def is_good(self) -> bool:
        """Whether the node is, or would be, the destination's."""
        return self.outcome in {Outcome.MOVED, Outcome.WOULD_MOVE, Outcome.ALREADY_THERE}

    @property
    def needs_no_move(self) -> bool:
        """Whether no service has the node: the one that serves it takes it at a refresh."""
        return self.outcome is Outcome.NO_RECORD

    def refused(self, guard: str, reason: str) -> Move:
        """The same, kept by a guard."""
        return dataclasses.replace(self, outcome=Outcome.REFUSED, guard=guard, reason=reason)


class Moves(Part):
    """Moves of nodes between compute services."""

    def nodes_of(self, host: str) -> Sequence[str]:
        """The uuids of the nodes that a service has, or its instances, sorted."""
        nodes = sa.select(_NODE.c.uuid).where(_NODE.c.host == host)
        carriers = sa.select(_INSTANCE.c.node).where(
            _INSTANCE.c.host == host, _INSTANCE.c.node.is_not(None)
        )
        statement: sa.CompoundSelect[Any] = sa.union(nodes, carriers)
        return sorted(uuid for (uuid,) in self._rows(statement))

    def move(
        self,
        nodes: Sequence[str],
        destination: str,
        *,
        force: bool = False,
        dry_run: bool = False,
    ) -> Sequence[Move]:
        """Give nodes, and the instances that they have, to another service.

        :param nodes: uuids; a few hundred at most, since their records are locked.
        :param force: also when the source, forced down, has reported just now.
        :param dry_run: check the same guards, and change nothing.
        :returns: one for each node, in their order.
        """

        def work(connection: sa.Connection) -> Sequence[Move]:
            found = self._guarded(connection, nodes, destination, force, lock=not dry_run)
            moving = [one for one in found if one.outcome is Outcome.WOULD_MOVE]
            if dry_run or not moving:
                return found
            self._carry_out(connection, moving, destination)
            done = {one.node: dataclasses.replace(one, outcome=Outcome.MOVED) for one in moving}
            return [done.get(one.node, one) for one in found]

        return self._transactions.read(work) if dry_run else self._transactions.write(work)

    def _carry_out(
        self, connection: sa.Connection, moving: Sequence[Move], destination: str
    ) -> None:
        now = self._transactions.now()
        moved = {"host": destination, "updated_at": now}
        sources = sorted({str(one.source) for one in moving})
        for some in chunks([one.node for one in moving]):
            connection.execute(
                sa.update(_NODE)
                .where(_NODE.c.uuid.in_(some), _NODE.c.host.in_(sources))
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
                .where(_NODE.c.instance_uuid.is_(None), carrier.exists())
                .where(_NODE.c.uuid.in_([node_of[uuid] for uuid in some]))
                .values(instance_uuid=carrier.scalar_subquery())
            )
            connection.execute(
                sa.update(_INSTANCE).where(_INSTANCE.c.uuid.in_(some)).values(**moved, pool=None)
            )

    def _guarded(
        self,
        connection: sa.Connection,
        nodes: Sequence[str],
        destination: str,
        force: bool,
        lock: bool,
    ) -> Sequence[Move]:
        """What a move would do with each node."""
        owned = _owned(connection, nodes, lock)
        carried = _carried(connection, nodes, lock)
        hosts = {row.host for row in owned.values()}
        hosts |= {row.host for rows in carried.values() for row in rows if row.host is not None}
        # In one order, so that two moves in opposite directions wait for each other.
        found = {host: _service(connection, host, lock) for host in sorted({*hosts, destination})}
        moves = []
        for node in nodes:
            move = _move(node, destination, owned.get(node), carried.get(node, ()))
            if move.outcome is Outcome.WOULD_MOVE:
                why = self._why_kept(move, found, force)
                why = why or _why_instances_keep(owned.get(node), carried.get(node, ()))
                move = move.refused(*why) if why else move
            moves.append(move)
        return moves

    def _why_kept(
        self, move: Move, found: Mapping[str, records.ComputeService | None], force: bool
    ) -> tuple[str, str] | None:
        """The first guard by which the services keep a node, and what it says."""
        owner, taker = found[str(move.source)], found[move.destination]
        if owner is None or taker is None:
            missing = move.source if owner is None else move.destination
            return "service", f"there is no compute service {missing!r}"
        if why := self._why_source_keeps(owner, force):
            return "source", why
        if not self._is_up(taker):
            state = "forced down" if taker.forced_down else "down"
            return "destination", f"compute service {taker.host!r} is {state}; it must be up"
        return None

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
    statement = statement.order_by(_NODE.c.uuid)
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
    statement = statement.order_by(_INSTANCE.c.uuid)
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
    if owner is None:
        missing = str(errors.ComputeNodeNotFound(node))
        return Move(node, Outcome.NO_RECORD, destination, reason=missing)
    instance = carried[0] if carried else None
    return Move(
        node,
        Outcome.ALREADY_THERE if owner == destination else Outcome.WOULD_MOVE,
        destination,
        source=owner,
        instance=instance.uuid if instance else record.instance_uuid if record else None,
        settled=instance is not None
        and instance.task_state is None
        and instance.vm_state != VmState.ERROR,
    )


def _why_instances_keep(
    record: sa.Row[*tuple[Any, ...]] | None,
    carried: Sequence[sa.Row[*tuple[Any, ...]]],
) -> tuple[str, str] | None:
    """The guard by which a node stays because of the instances on it, and what it says."""
    if record is None:
        return None
    for row in carried:
        if row.host != record.host:
            return (
                "server",
                f"its server {row.uuid} belongs to compute service {row.host!r}, "
                f"not to {record.host!r}",
            )
    on_it = carried[0].uuid if carried else None
    if record.instance_uuid not in {None, on_it}:
        claimed = f"it is claimed for server {record.instance_uuid}, which has no record on it"
        return "server", claimed
    return None
