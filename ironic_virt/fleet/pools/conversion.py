# SPDX-License-Identifier: Apache-2.0

"""Plans how a service's servers move into pools of nodes, or back onto single nodes.

Pure functions of a deployment as it was read.  The records say how far a conversion has come,
so an interrupted one is planned again from them.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence

from ironic_virt import exceptions
from ironic_virt.driver import resources
from ironic_virt.driver.pools import names
from ironic_virt.driver.pools import records as pool_records
from ironic_virt.fleet.deployment import (
    Deployment,
    Record,
    Server,
    Service,
    grouped,
    is_pool,
    pool_name,
    pools,
)
from ironic_virt.fleet.plans.apply import Effect
from ironic_virt.fleet.stopped import Watched
from ironic_virt.virt import NodeInventory, NodeResource


class Direction(enum.Enum):
    """Where the servers go."""

    ENTER = "enter"
    """From compute node records of single nodes to those of pools."""
    LEAVE = "leave"
    """Back."""


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A record and a provider to create, in place of the providers that are replaced."""

    resource: NodeResource
    inventory: NodeInventory
    replaced: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The record's and the provider's."""
        return self.resource.hypervisor_hostname


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """A server on a node, and the record that it goes to; ``None``: it stays, and why.

    :ivar source: the uuid of the provider that it comes from.
    """

    server: Server
    source: str
    node: str | None
    target: str | None
    outcome: Effect = Effect.WOULD
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Conversion:
    """All changes for a service.

    :ivar blocked: what has to be done before anything may be changed; empty: nothing.
    :ivar targets: by name; each comes before the servers that go there.
    :ivar emptied: the records without a server, once the moves are done.
    """

    service: Service
    blocked: str = ""
    targets: Mapping[str, Target] = dataclasses.field(default_factory=dict)
    moves: Sequence[Move] = ()
    emptied: Sequence[Record] = ()


def plan(deployment: Deployment, host: str, direction: Direction, watched: Watched) -> Conversion:
    """Plan the conversion of a host's service, given which services are stopped."""
    service = deployment.service_of.get(host)
    if service is None:
        raise exceptions.InvalidConfiguration(host, "there is no nova-compute of this name")
    if deployment.is_in_two_cells(host):
        raise exceptions.InvalidConfiguration(host, "is in two cells; name its own with --cell")
    blocked = watched.why_running(host, service) or ""
    servers = [server for server in deployment.live_servers if server.host == host]
    moves = list(_plan_moves(deployment, host, servers, direction))
    if direction is Direction.ENTER:
        targets = _plan_pools(deployment, host, servers, moves)
    else:
        targets = _plan_nodes(deployment, moves)
    kept = {*targets, *_final_places(servers, moves).values()}
    emptied = [
        record
        for record in deployment.records
        if record.host == host
        and record.name not in kept
        and is_pool(record) is (direction is Direction.LEAVE)
    ]
    return Conversion(service, blocked, targets, moves, emptied)


def _final_places(servers: Sequence[Server], moves: Sequence[Move]) -> dict[str, str]:
    """By server, the name of the record that it has when the moves are done."""
    there = {server.uuid: server.node or "" for server in servers}
    return there | {move.server.uuid: move.target for move in moves if move.target}


def _plan_moves(
    deployment: Deployment, host: str, servers: Sequence[Server], direction: Direction
) -> Iterator[Move]:
    for server in servers:
        place = server.node or ""
        is_in_pool = names.class_of(place, host) is not None
        if is_in_pool is (direction is Direction.ENTER):
            continue
        source = names.pool_uuid(place) if is_in_pool else place
        carrier = deployment.node_of_server.get(server.uuid)
        target = _find_target(deployment, host, server, direction)
        goal = (target,) if isinstance(target, str) else (None, *target)
        yield Move(server, source, carrier, *goal)


def _find_target(
    deployment: Deployment, host: str, server: Server, direction: Direction
) -> str | tuple[Effect, str]:
    """The name of the record that a server goes to, or why it can't go anywhere."""
    if server.task_state is not None or server.vm_state == "building":
        return Effect.WAITS, f"it is {server.task_state or server.vm_state}"
    carrier = deployment.node_of_server.get(server.uuid)
    if carrier is None:
        return Effect.REFUSED, "no node in Ironic carries it; delete it, or correct that"
    if direction is Direction.LEAVE:
        record = deployment.node_records.get(carrier)
        if record is not None and record.host != host:
            return Effect.REFUSED, f"the record of its node is with {record.host}"
        return carrier
    if carrier != server.node:
        return Effect.REFUSED, f"Nova has it on {server.node}, but node {carrier} carries it"
    if not deployment.nodes[carrier].resource_class:
        return Effect.REFUSED, "its node has no resource class, so it is in no pool"
    return pool_name(host, deployment.nodes[carrier])


def _plan_pools(
    deployment: Deployment, host: str, servers: Sequence[Server], moves: Sequence[Move]
) -> dict[str, Target]:
    """The pools that get a server or don't exist yet, with their numbers afterwards."""
    carriers = {deployment.node_of_server.get(server.uuid) for server in servers}
    recorded = {uuid for uuid, owner in deployment.owner_of.items() if owner == host}
    nodes = [node for node in deployment.nodes.values() if node.uuid in carriers | recorded]
    replaced = grouped(
        (pool_name(host, node), node.uuid) for node in nodes if node.uuid in recorded
    )
    entered = {move.target for move in moves}
    return {
        name: Target(
            pool_records.resource_of(pool), pool_records.inventory_of(pool), replaced.get(name, ())
        )
        for name, pool in pools(host, nodes, _final_places(servers, moves)).items()
        if name in entered or name not in deployment.records_by_name
    }


def _plan_nodes(deployment: Deployment, moves: Sequence[Move]) -> dict[str, Target]:
    """The nodes with a server; the service creates the records of others when it starts."""
    return {
        move.target: Target(
            resources.node_resource(node), resources.node_inventory(node), (move.source,)
        )
        for move in moves
        if move.target is not None and (node := deployment.nodes[move.target])
    }
