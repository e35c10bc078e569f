# SPDX-License-Identifier: Apache-2.0

"""Moving nodes, each with its instance, from services that are out of use to one that is up.

Node by node: the records' guards are checked, then whether Ironic agrees with the records and the
destination would serve the node.  Then one transaction checks the guards again and changes both
records, so a node and its instance have one owner at any moment, and a move that was cut off is
simply done again.  A node that a guard keeps does not hold up the others.

Where Ironic picks the nodes, only one that has an instance is anybody's: then the
instance is moved, and leaves the pool that it had a place in.  One that has no node yet is
moved by its own uuid.

Ironic is only read.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.compute import errors
from ironic_virt.compute.db import Database, records, services, tables
from ironic_virt.compute.db.database import Part, reads, writes
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.sharding.selector import TargetSet

_NODE = tables.compute_nodes
_INSTANCE = tables.instances
_OWNED = (_NODE.c.uuid, _NODE.c.host, _NODE.c.instance_uuid)
_CARRIED = (_INSTANCE.c.uuid, _INSTANCE.c.host, _INSTANCE.c.task_state, _INSTANCE.c.vm_state)


class MoveOutcome(enum.StrEnum):
    """What became of a node."""

    MOVED = "moved"
    WOULD_MOVE = "would move"
    ALREADY_THERE = "already there"
    NO_RECORD = "no record"
    REFUSED = "refused"


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
        return self.outcome not in {MoveOutcome.NO_RECORD, MoveOutcome.REFUSED}

    def refused(self, guard: str, reason: str) -> Move:
        """The move with the result that a guard keeps the node."""
        return dataclasses.replace(self, outcome=MoveOutcome.REFUSED, guard=guard, reason=reason)


class Mover(Part):
    """Moves nodes to one service.

    :param client: of the Ironic whose nodes they are; ``None``: don't ask Ironic.
    :param destination: the service's name.
    :param dry_run: check everything and change nothing.
    :param force: also from a service that is forced down and has reported just now.
    """

    def __init__(
        self,
        database: Database,
        client: IronicClient | None,
        destination: str,
        *,
        dry_run: bool = False,
        force: bool = False,
    ) -> None:
        super().__init__(database)
        self._client = client
        self._destination = destination
        self._dry_run = dry_run
        self._force = force

    def nodes_of_shard(self, shard: str) -> list[str]:
        """The uuids of a shard's nodes in Ironic, sorted.

        :raises MicroversionNotSupported: the server knows no shards.
        :raises IronicError: it could not be asked.
        """
        assert self._client is not None, "only Ironic knows a shard's nodes"
        nodes = self._client.list_nodes(NodeFilter(shard=shard), fields=("uuid",))
        return sorted(node.uuid for node in nodes)

    def nodes_of_service(self, host: str) -> Sequence[str]:
        """The uuids of a service's nodes and of its instances without one, sorted.

        :raises ServiceNotFound: there is no such service.
        """
        self._db.services.get(host)
        carriers = {each.node or each.uuid for each in self._db.instances.list(host)}
        return sorted(carriers.union(self._db.compute_nodes.uuids(host)))

    def move(self, nodes: Sequence[str]) -> Iterator[Move]:
        """Move nodes one by one, or say why not; errors of a node are in its row.

        Only what concerns every node is raised.

        :raises DatabaseError: the database; whether this node moved is not
            known, and another run will tell.
        :raises IronicError: Ironic could not be asked; this node was not moved.
        """
        for node in nodes:
            move = self._planned(node)
            if self._client is not None and move.outcome is MoveOutcome.WOULD_MOVE:
                move = self._compared(self._client, move)
            if move.outcome is MoveOutcome.WOULD_MOVE and not self._dry_run:
                move = self._moved(node)
            yield move

    # -- by the records -------------------------------------------------------

    @reads
    def _planned(self, connection: sa.Connection, node: str) -> Move:
        return self._decide(connection, node, lock=False)

    @writes
    def _moved(self, connection: sa.Connection, node: str) -> Move:
        """Give a node and its instance to the destination, unless a guard refuses."""
        move = self._decide(connection, node, lock=True)
        if move.outcome is not MoveOutcome.WOULD_MOVE:
            return move
        values = {"host": self._destination}
        owned = sa.update(_NODE).where(_NODE.c.uuid == node, _NODE.c.host == move.source)
        # The record of a node of a pool may not name the instance yet.
        connection.execute(owned.values({**values, "instance_uuid": move.instance}))
        carried = sa.update(_INSTANCE).where(_carried_by(node))
        connection.execute(carried.values({**values, "pool": None, "updated_at": self._db.now()}))
        return dataclasses.replace(move, outcome=MoveOutcome.MOVED)

    def _decide(self, connection: sa.Connection, node: str, *, lock: bool) -> Move:
        """What is to become of a node by the records, which ``lock`` keeps as they are."""
        known = {row.host: row for row in services.select_all(connection, lock=lock)}
        owned = sa.select(*_OWNED).where(_NODE.c.uuid == node)
        carried = sa.select(*_CARRIED).where(_carried_by(node))
        if lock:
            owned, carried = owned.with_for_update(), carried.with_for_update()
        record: Any = connection.execute(owned).one_or_none()
        instance: Any = connection.execute(carried).one_or_none()
        # Where Ironic picks the nodes, one without a record belongs to its instance's service.
        source = (record or instance).host if record or instance else None
        if source is None:
            missing = str(errors.ComputeNodeNotFound(node, ""))
            return Move(node, MoveOutcome.NO_RECORD, self._destination, reason=missing)
        is_there = source == self._destination
        move = Move(
            node,
            MoveOutcome.ALREADY_THERE if is_there else MoveOutcome.WOULD_MOVE,
            self._destination,
            source=source,
            instance=instance.uuid if instance else record.instance_uuid,
            settled=instance is not None
            and instance.task_state is None
            and instance.vm_state != VmState.ERROR,
        )
        if is_there:
            return move
        for host in (source, self._destination):
            if host not in known:
                return move.refused("service", f"there is no compute service {host!r}")
        if reason := self._source_keeps(known[source]):
            return move.refused("source", reason)
        destination = known[self._destination]
        if not self._db.services.is_up(destination):
            state = "forced down" if destination.forced_down else "down"
            reason = f"compute service {self._destination!r} is {state}; it must be up"
            return move.refused("destination", reason)
        awaits_node = move.instance == node and instance.task_state == TaskState.SPAWNING
        if awaits_node and not services.pools_of(connection, [self._destination]):
            reason = f"compute service {self._destination!r} has no pools to take a node from"
            return move.refused("destination", reason)
        if record is not None and instance is not None and instance.host != record.host:
            return move.refused(
                "server",
                f"its server {instance.uuid} belongs to compute service {instance.host!r}, "
                f"not to {record.host!r}",
            )
        if record is not None and record.instance_uuid not in {None, instance and instance.uuid}:
            reason = f"it is claimed for server {record.instance_uuid}, which has no record on it"
            return move.refused("server", reason)
        return move

    def _source_keeps(self, service: records.ComputeService) -> str | None:
        subject = f"its compute service {service.host!r}"
        if service.forced_down:
            if self._force or not self._db.services.reports(service):
                return None
            return (
                f"{subject} is forced down and has reported in the last "
                f"{self._db.down_time.total_seconds():.0f} s, so it may still act; stop it, or if "
                "its host is fenced, use --force"
            )
        if self._db.services.is_up(service):
            return f"{subject} is up; stop it and disable it, or force it down"
        if not service.disabled:
            return (
                f"{subject} is down but not disabled, so it might come back; disable it, or force "
                "it down"
            )
        return None

    # -- by Ironic ------------------------------------------------------------

    def _compared(self, client: IronicClient, move: Move) -> Move:
        """The move, refused if Ironic has it otherwise than the records or the destination."""
        try:
            look_up = client.node_of_instance if move.node == move.instance else client.get_node
            node = look_up(move.node)
        except exceptions.IronicUnreachable:
            raise
        except exceptions.IronicVirtError as exc:
            return move.refused("ironic-node", str(exc))
        if node is None:
            return move
        service = self._db.services.get(move.destination)
        group = service.conductor_group and service.conductor_group.lower()
        if why := TargetSet(group, service.shard_key).why_outside(node):
            return move.refused(
                "ironic-target",
                f"compute service {move.destination!r} would not serve it: {why}",
            )
        if why := _disagreement(move, node):
            return move.refused("ironic-server", why)
        return move


def _carried_by(node: str) -> sa.ColumnElement[bool]:
    """The instance on a node, or by its own uuid one that has none yet."""
    waits = sa.and_(_INSTANCE.c.uuid == node, _INSTANCE.c.node.is_(None))
    return sa.or_(_INSTANCE.c.node == node, waits)


def _disagreement(move: Move, node: Node) -> str | None:
    """How Ironic and the records differ about who has the node."""
    recorded = f"the records have {f'server {move.instance}' if move.instance else 'no server'}"
    if node.instance_uuid not in {None, move.instance}:
        return (
            f"Ironic has server {node.instance_uuid} on it, {recorded}; find out whose it is first"
        )
    # One that is on its way to the node, or off it, is carried on by the destination.
    if node.instance_uuid is None and move.settled:
        return f"{recorded} on it, Ironic has none; find out what became of it first"
    return None
