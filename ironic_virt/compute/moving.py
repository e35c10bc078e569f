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
from collections.abc import Iterator, Mapping, Sequence

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.compute import errors
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.moves import Move, Outcome
from ironic_virt.compute.db.transactions import chunks
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
            raise ValueError("a shard's nodes are known by Ironic only")
        found = self._client.list_nodes(NodeFilter(shard=shard), fields=("uuid",))
        return sorted(node.uuid for node in found)

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
        listed = None
        if self._client is not None and len(nodes) > _FEW:
            found = self._client.list_nodes(NodeFilter(), fields=_FIELDS)
            listed = {node.uuid: node for node in found}
        for batch in chunks(nodes, BATCH):
            yield self._batch(batch, listed)

    def _batch(self, nodes: Sequence[str], listed: Mapping[str, Node] | None) -> Sequence[Move]:
        decide = functools.partial(
            self._database.moves.move, destination=self._destination, force=self._force
        )
        found = {one.node: one for one in decide(nodes, dry_run=True)}
        movable = [one for one in found.values() if one.outcome is Outcome.WOULD_MOVE]
        if self._client is not None and movable:
            target = self._target()
            movable = [self._compared(one, target, listed) for one in movable]
            found |= {one.node: one for one in movable}
        wanted = [one.node for one in movable if one.outcome is Outcome.WOULD_MOVE]
        if wanted and not self._dry_run:
            found |= {one.node: one for one in decide(wanted)}
        return [found[node] for node in nodes]

    def _target(self) -> TargetSet:
        """Which nodes the destination serves."""
        service = self._database.services.get(self._destination)
        group = service.conductor_group
        return TargetSet(None if group is None else group.lower(), service.shard_key)

    def _in_ironic(self, uuid: str, listed: Mapping[str, Node] | None) -> Node | None:
        assert self._client is not None
        if listed is not None:
            return listed.get(uuid)
        try:
            return self._client.get_node(uuid)
        except exceptions.NodeNotFound:
            return None

    def _compared(self, move: Move, target: TargetSet, listed: Mapping[str, Node] | None) -> Move:
        """The move, refused if Ironic has it otherwise than the records or the destination."""
        try:
            node = self._in_ironic(move.node, listed)
        except exceptions.IronicUnreachable:
            raise
        except exceptions.IronicVirtError as exc:
            return dataclasses.replace(move, outcome=Outcome.FAILED, reason=str(exc))
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
    if node.instance_uuid == move.instance:
        return None
    if node.instance_uuid is not None:
        said = f"server {move.instance}" if move.instance else "no server"
        return (
            f"Ironic has server {node.instance_uuid} on it, the records have {said}; find "
            "out whose it is first"
        )
    # On its way to the node, or off it; the destination carries on.
    if not move.settled:
        return None
    return (
        f"the records have server {move.instance} on it, Ironic has none; find out what became "
        "of it first"
    )
