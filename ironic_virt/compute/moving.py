# SPDX-License-Identifier: Apache-2.0

"""Moving nodes from compute services that are out of use to one that is up.

Nodes go in batches: Ironic is asked whether the records and the destination fit what it has,
by one list where there are many nodes, then one transaction checks every guard and gives the
nodes, and the instances on them, to the destination.  A node that is there already is left as
it is, so a move that was cut off is simply done again.

Ironic is only read.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.compute import errors
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.database import chunks
from ironic_virt.compute.db.moves import Move, MoveOutcome
from ironic_virt.sharding.selector import TargetSet, same_shard

BATCH = 500
"""So many nodes are moved by one transaction."""

_FEW = 20
"""So many nodes are asked for one by one; more by one list of all."""

_FIELDS = ("uuid", "instance_uuid", "conductor_group", "shard")


class Mover:
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
        self._database = database
        self._client = client
        self._destination = destination
        self._dry_run = dry_run
        self._force = force

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
            raise ValueError("only Ironic knows a shard's nodes")
        nodes = self._client.list_nodes(NodeFilter(shard=shard), fields=("uuid",))
        return sorted(node.uuid for node in nodes)

    def nodes_of_service(self, host: str) -> Sequence[str]:
        """The uuids of the nodes that a service has in the records, sorted.

        :raises ServiceNotFound: there is no such service.
        """
        self._database.services.get(host)
        return self._database.moves.nodes_of(host)

    def move(self, nodes: Sequence[str]) -> Iterator[Sequence[Move]]:
        """Move nodes, batch by batch, or say why not; errors of a node are in its row.

        Only what concerns every node is raised.

        :returns: what became of each batch, in the order of the nodes.
        :raises DatabaseUnreachable: the database; whether this batch moved is not
            known, and another run will tell.
        :raises IronicError: Ironic could not be asked; this batch was not moved.
        """
        look: Callable[[str], Node | None] | None = None
        if self._client is not None:
            look = self._client.get_node
            if len(nodes) > _FEW:
                every = self._client.list_nodes(NodeFilter(), fields=_FIELDS)
                look = {node.uuid: node for node in every}.get
        decide = functools.partial(
            self._database.moves.move, destination=self._destination, force=self._force
        )
        for batch in chunks(nodes, BATCH):
            moves = {move.node: move for move in decide(batch, dry_run=True)}
            if look is not None and any(
                move.outcome is MoveOutcome.WOULD_MOVE for move in moves.values()
            ):
                service = self._database.services.get(self._destination)
                group = service.conductor_group
                target = TargetSet(None if group is None else group.lower(), service.shard_key)
                moves = {node: _compared(look, target, move) for node, move in moves.items()}
            movable = [
                node for node, move in moves.items() if move.outcome is MoveOutcome.WOULD_MOVE
            ]
            if not self._dry_run:
                moves |= {move.node: move for move in decide(movable)}
            yield [moves[node] for node in batch]


def _compared(look: Callable[[str], Node | None], target: TargetSet, move: Move) -> Move:
    """The move, refused if Ironic has it otherwise than the records or the destination."""
    if move.outcome is not MoveOutcome.WOULD_MOVE:
        return move
    try:
        node = look(move.node)
    except exceptions.NodeNotFound:
        node = None
    except exceptions.IronicUnreachable:
        raise
    except exceptions.IronicVirtError as exc:
        return dataclasses.replace(move, outcome=MoveOutcome.FAILED, reason=str(exc))
    if node is None:
        return move.refused("ironic-node", "Ironic has no such node; check the uuid")
    if why := target.why_outside(node):
        return move.refused(
            "ironic-target",
            f"compute service {move.destination!r} would not serve it: {why}",
        )
    if why := _disagreement(move, node):
        return move.refused("ironic-server", why)
    return move


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
