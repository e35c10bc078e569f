# SPDX-License-Identifier: Apache-2.0

"""Moving nodes from one compute service to another, with the instances that they have.

One transaction checks every guard and changes both records of each node, so a node and its
instance have one owner at any moment, and a move that was cut off can be done again.  A node
that a guard keeps does not hold up the others.

Where Ironic picks the nodes, only one that has an instance is anybody's: then the
instance is moved, and leaves the pool that it had a place in.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_virt.compute import errors
from ironic_virt.compute.db import records, services, tables
from ironic_virt.compute.db.database import Part
from ironic_virt.compute.states import VmState

_NODE = tables.compute_nodes
_INSTANCE = tables.instances
_OWNED = (_NODE.c.uuid, _NODE.c.host, _NODE.c.instance_uuid)
_CARRIED = (
    *(_INSTANCE.c.uuid, _INSTANCE.c.host, _INSTANCE.c.pool),
    *(_INSTANCE.c.task_state, _INSTANCE.c.vm_state),
)
Guard = tuple[str, str]
"""The short name of what keeps a node, and why, a sentence without its full stop."""


class MoveOutcome(enum.StrEnum):
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
    outcome: MoveOutcome
    destination: str
    source: str | None = None
    instance: str | None = None
    guard: str | None = None
    reason: str | None = None
    settled: bool = dataclasses.field(default=False, compare=False)

    @property
    def is_good(self) -> bool:
        """Whether the node is, or would be, the destination's."""
        return self.outcome in {
            MoveOutcome.MOVED,
            MoveOutcome.WOULD_MOVE,
            MoveOutcome.ALREADY_THERE,
        }

    @property
    def needs_no_move(self) -> bool:
        """Whether no service has the node: the one that serves it takes it at a refresh."""
        return self.outcome is MoveOutcome.NO_RECORD

    def refused(self, guard: str, reason: str) -> Move:
        """The move with the result that a guard keeps the node."""
        return dataclasses.replace(self, outcome=MoveOutcome.REFUSED, guard=guard, reason=reason)


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
            rows = services.select_all(connection, lock=not dry_run)
            known = {row.host: row for row in rows}
            return [
                self._move(connection, node, destination, known, force, dry_run) for node in nodes
            ]

        return self._db.read(work) if dry_run else self._db.write(work)

    def _move(
        self,
        connection: sa.Connection,
        node: str,
        destination: str,
        known: Mapping[str, records.ComputeService],
        force: bool,
        dry_run: bool,
    ) -> Move:
        records_of_node = sa.select(*_OWNED).where(_NODE.c.uuid == node)
        carried = sa.select(*_CARRIED).where(_INSTANCE.c.node == node)
        if not dry_run:
            records_of_node, carried = records_of_node.with_for_update(), carried.with_for_update()
        record: Any = connection.execute(records_of_node).one_or_none()
        instance: Any = connection.execute(carried).one_or_none()
        # Where Ironic picks the nodes, one without a record belongs to its instance's service.
        source = (record or instance).host if record or instance else None
        if source is None:
            missing = str(errors.ComputeNodeNotFound(node))
            return Move(node, MoveOutcome.NO_RECORD, destination, reason=missing)
        move = Move(
            node,
            MoveOutcome.ALREADY_THERE if source == destination else MoveOutcome.WOULD_MOVE,
            destination,
            source=source,
            instance=instance.uuid if instance else record.instance_uuid,
            settled=instance is not None
            and instance.task_state is None
            and instance.vm_state != VmState.ERROR,
        )
        if source == destination:
            return move
        for guard, reason in self._guards(move, known, force, record, instance):
            return move.refused(guard, reason)
        if dry_run:
            return move
        values = {"host": destination, "updated_at": self._db.now()}
        # Where the node has a record, too, from before or after it had pools.
        claim = {"instance_uuid": instance.uuid} if instance and instance.pool is not None else {}
        owned = sa.update(_NODE).where(_NODE.c.uuid == node, _NODE.c.host == source)
        connection.execute(owned.values({**values, **claim}))
        if instance is not None:
            row = sa.update(_INSTANCE).where(_INSTANCE.c.uuid == instance.uuid)
            connection.execute(row.values({**values, "pool": None}))
        return dataclasses.replace(move, outcome=MoveOutcome.MOVED)

    def _guards(
        self,
        move: Move,
        known: Mapping[str, records.ComputeService],
        force: bool,
        record: Any,
        instance: Any,
    ) -> Iterator[Guard]:
        """What keeps a node where it is, by what the records say."""
        source, destination = known.get(str(move.source)), known.get(move.destination)
        if source is None or destination is None:
            missing = move.source if source is None else move.destination
            yield "service", f"there is no compute service {missing!r}"
            return
        if reason := self._source_keeps(source, force):
            yield "source", reason
        if not self._db.services.is_up(destination):
            state = "forced down" if destination.forced_down else "down"
            yield (
                "destination",
                f"compute service {move.destination!r} is {state}; it must be up",
            )
        if record is None:
            return
        if instance is not None and instance.host != record.host:
            yield (
                "server",
                f"its server {instance.uuid} belongs to compute service {instance.host!r}, "
                f"not to {record.host!r}",
            )
        if record.instance_uuid not in {None, instance and instance.uuid}:
            claim = f"it is claimed for server {record.instance_uuid}, which has no record on it"
            yield "server", claim

    def _source_keeps(self, service: records.ComputeService, force: bool) -> str | None:
        subject, down_time = f"its compute service {service.host!r}", self._db.down_time
        if service.forced_down:
            if force or not service.reports(self._db.now(), down_time):
                return None
            return (
                f"{subject} is forced down and has reported in the last {down_time:.0f} s, so it "
                "may still act; stop it, or if its host is fenced, use --force"
            )
        if self._db.services.is_up(service):
            return f"{subject} is up; stop it and disable it, or force it down"
        if not service.disabled:
            return (
                f"{subject} is down but not disabled, so it might come back; disable it, or force "
                "it down"
            )
        return None
