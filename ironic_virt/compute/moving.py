# SPDX-License-Identifier: Apache-2.0

"""Moving nodes from compute services that are down to one that is up.

Each node goes by itself: Ironic is asked whether the records and the destination
fit what it has, then one transaction checks every guard and gives the node, and
the instance on it, to the destination.  A node that is there already is left as
it is, so a move of many that was cut off is simply done again.

Ironic is only read.
"""

from __future__ import annotations

import dataclasses
import enum

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.compute import errors
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.moves import Move
from ironic_virt.compute.states import VmState
from ironic_virt.sharding.selector import TargetSet, same_shard


class Outcome(enum.StrEnum):
    """What became of a node."""

    MOVED = "moved"
    WOULD_MOVE = "would move"
    ALREADY_THERE = "already there"
    NO_RECORD = "no record"
    REFUSED = "refused"
    FAILED = "failed"


GOOD = frozenset({Outcome.MOVED, Outcome.WOULD_MOVE, Outcome.ALREADY_THERE})


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What became of a node, and why.

    :param source: the service that had it; ``None`` if that isn't known.
    :param instance: the uuid of the instance that goes with it.
    :param guard: the guard that refused, by its short name.
    :param reason: why it was not moved.
    """

    node: str
    outcome: Outcome
    destination: str
    source: str | None = None
    instance: str | None = None
    guard: str | None = None
    reason: str | None = None

    @property
    def is_good(self) -> bool:
        """Whether the node is, or would be, the destination's."""
        return self.outcome in GOOD

    @property
    def needs_no_move(self) -> bool:
        """Whether no service has it, so that whoever serves it just takes it."""
        return self.outcome is Outcome.NO_RECORD


class Mover:
    """Moves nodes to one service.

    :param client: of the Ironic whose nodes they are; ``None``: don't ask Ironic.
    :param destination: the service's name.
    :param dry_run: check everything and change nothing.
    """

    def __init__(
        self,
        database: Database,
        client: IronicClient | None,
        destination: str,
        *,
        dry_run: bool = False,
    ) -> None:
        self._database = database
        self._client = client
        self._destination = destination
        self._dry_run = dry_run

    def check(self, shard: str | None = None) -> None:
        """See that the destination can take any node at all.

        :param shard: the shard that is to be moved, if it is a whole one.
        :raises ServiceNotFound: there is no such service.
        :raises NoDestination: it is down, or serves another shard.
        """
        service = self._database.services.get(self._destination)
        if not self._database.services.is_up(service):
            state = "forced down" if service.forced_down else "down"
            raise errors.NoDestination(
                self._destination, f"it is {state}; start it, or see why it doesn't report"
            )
        serves = service.shard_key
        if shard is not None and serves is not None and not same_shard(serves, shard):
            raise errors.NoDestination(
                self._destination,
                f"it serves shard {serves!r}, not {shard!r} ([ironic] shard_key)",
            )

    def nodes_of_shard(self, shard: str) -> list[str]:
        """The uuids of a shard's nodes in Ironic, sorted.

        :raises MicroversionNotSupported: the server knows no shards.
        :raises IronicError: it could not be asked.
        """
        if self._client is None:
            raise ValueError("a shard's nodes are known by Ironic only")
        found = self._client.list_nodes(NodeFilter(shard=shard), fields=("uuid",))
        return sorted(node.uuid for node in found)

    def move(self, uuid: str) -> Report:
        """Move one node, or say why not; errors are in the report.

        Only what concerns every node is raised: the database or Ironic can't
        be reached.

        :raises DatabaseUnreachable: the database; whether this node moved is not
            known, and another run will tell.
        :raises IronicUnreachable: Ironic; this node was not moved.
        """
        planned: Move | None = None
        try:
            planned = self._database.moves.check(uuid, None, self._destination)
            if planned.already:
                return self._report(Outcome.ALREADY_THERE, planned)
            self._ask_ironic(planned)
            if self._dry_run:
                return self._report(Outcome.WOULD_MOVE, planned)
            done = self._database.moves.move(uuid, planned.source, self._destination)
        except errors.ComputeNodeNotFound as exc:
            return Report(uuid, Outcome.NO_RECORD, self._destination, reason=str(exc))
        except errors.MoveRefused as exc:
            return Report(
                uuid,
                Outcome.REFUSED,
                self._destination,
                source=planned.source if planned else None,
                instance=planned.instance if planned else None,
                guard=exc.guard,
                reason=exc.reason,
            )
        except (errors.DatabaseUnreachable, exceptions.IronicUnreachable):
            raise
        except exceptions.IronicVirtError as exc:
            return Report(
                uuid,
                Outcome.FAILED,
                self._destination,
                source=planned.source if planned else None,
                instance=planned.instance if planned else None,
                reason=str(exc),
            )
        return self._report(Outcome.ALREADY_THERE if done.already else Outcome.MOVED, done)

    def _report(self, outcome: Outcome, move: Move) -> Report:
        return Report(
            move.node,
            outcome,
            self._destination,
            source=move.source,
            instance=move.instance,
        )

    def _ask_ironic(self, move: Move) -> None:
        """:raises MoveRefused: Ironic has it otherwise than the records or the destination."""
        if self._client is None:
            return
        try:
            node = self._client.get_node(move.node)
        except exceptions.NodeNotFound as exc:
            raise errors.MoveRefused(
                move.node, "ironic-node", "Ironic has no such node; check the uuid"
            ) from exc
        service = self._database.services.get(move.destination)
        target = TargetSet(
            None if service.conductor_group is None else service.conductor_group.lower(),
            service.shard_key,
        )
        if why := target.why_outside(node):
            raise errors.MoveRefused(
                move.node,
                "ironic-target",
                f"compute service {move.destination!r} would not serve it: {why}",
            )
        if why := self._disagreement(move, node):
            raise errors.MoveRefused(move.node, "ironic-instance", why)

    def _disagreement(self, move: Move, node: Node) -> str | None:
        """How Ironic and the records differ about who has the node."""
        if node.instance_uuid == move.instance:
            return None
        if node.instance_uuid is not None:
            said = f"instance {move.instance}" if move.instance else "no instance"
            return (
                f"Ironic has instance {node.instance_uuid} on it, the records have {said}; find "
                "out whose it is first"
            )
        assert move.instance is not None
        instance = self._database.instances.get(move.instance)
        # On its way to the node, or off it; the destination carries on.
        if instance.task_state is not None or instance.vm_state == VmState.ERROR:
            return None
        return (
            f"the records have instance {move.instance} on it ({instance.vm_state}), Ironic has "
            "none; find out what became of it first"
        )
