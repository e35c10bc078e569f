# SPDX-License-Identifier: Apache-2.0

"""What it takes to bring a service's servers into pools of nodes, or back onto single nodes.

Pure functions of a deployment as it was read.  The records themselves say how far a
conversion has come, so one that was cut off is planned again from what is there.
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
    is_pool,
    pool_name,
    pools,
)
from ironic_virt.fleet.plans.apply import Outcome
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
    """A compute node record and a resource provider that there are to be.

    :ivar formers: uuids of the providers whose place it takes.
    """

    resource: NodeResource
    inventory: NodeInventory
    formers: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The record's and the provider's."""
        return self.resource.hypervisor_hostname

    @property
    def uuid(self) -> str:
        """The record's and the provider's."""
        return self.resource.uuid


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """A server, and the record that it goes to.

    :ivar former: the uuid of the provider that it comes from.
    :ivar node: the uuid of the node that carries it.
    :ivar target: the name of the record; ``None``: it stays where it is.
    :ivar outcome: ``WOULD``, or why it can't be done.
    """

    server: Server
    former: str
    node: str | None
    target: str | None
    outcome: Outcome = Outcome.WOULD
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Conversion:
    """All that is to be done for a service.

    :ivar blocked: what has to be done before anything may be changed; empty: nothing.
    :ivar targets: by name; each comes before the servers that go there.
    :ivar emptied: the records without a server, once the moves are done.
    """

    direction: Direction
    service: Service
    blocked: str = ""
    targets: Mapping[str, Target] = dataclasses.field(default_factory=dict)
    moves: Sequence[Move] = ()
    emptied: Sequence[Record] = ()


def plan(deployment: Deployment, host: str, direction: Direction, watched: Watched) -> Conversion:
    """What is to be done for the service of a host.

    :param watched: which services are stopped.
    :raises InvalidConfiguration: there is no such service.
    """
    service = deployment.service_of.get(host)
    if service is None:
        raise exceptions.InvalidConfiguration(host, "no nova-compute has this name")
    blocked = watched.why_running(host, service) or ""
    servers = [server for server in deployment.live_servers if server.host == host]
    moves = list(_moves(deployment, host, servers, direction))
    if direction is Direction.ENTER:
        targets = _pools(deployment, host, servers, moves)
    else:
        targets = _nodes(deployment, moves)
    kept = {*targets, *_places(servers, moves).values()}
    emptied = [
        record
        for record in deployment.records
        if record.host == host
        and record.name not in kept
        and is_pool(record) is (direction is Direction.LEAVE)
    ]
    return Conversion(direction, service, blocked, targets, moves, emptied)


def _places(servers: Sequence[Server], moves: Sequence[Move]) -> dict[str, str]:
    """By server, the name of the record that it has when the moves are done."""
    there = {server.uuid: server.node or "" for server in servers}
    return there | {move.server.uuid: move.target for move in moves if move.target}


def _moves(
    deployment: Deployment, host: str, servers: Sequence[Server], direction: Direction
) -> Iterator[Move]:
    for server in servers:
        place = server.node or ""
        is_in_pool = names.class_of(place, host) is not None
        if is_in_pool is (direction is Direction.ENTER):
            continue
        former = names.pool_uuid(place) if is_in_pool else place
        carrier = deployment.node_of_server.get(server.uuid)
        target = _target(deployment, host, server, direction)
        if isinstance(target, str):
            yield Move(server, former, carrier, target)
        else:
            yield Move(server, former, carrier, None, *target)


def _target(
    deployment: Deployment, host: str, server: Server, direction: Direction
) -> str | tuple[Outcome, str]:
    """The name of the record that a server goes to, or why it can't go anywhere."""
    if server.task_state is not None or server.vm_state == "building":
        return Outcome.WAITS, f"it is {server.task_state or server.vm_state}"
    carrier = deployment.node_of_server.get(server.uuid)
    if carrier is None:
        return Outcome.REFUSED, "no node in Ironic carries it; delete it, or mend that"
    if direction is Direction.LEAVE:
        record = deployment.node_records.get(carrier)
        if record is not None and record.host != host:
            return Outcome.REFUSED, f"the record of its node is with {record.host}"
        return carrier
    if carrier != server.node:
        return Outcome.REFUSED, f"its record names another node than carries it: {carrier}"
    if not deployment.nodes[carrier].resource_class:
        return Outcome.REFUSED, "its node has no resource class, and so no pool"
    return pool_name(host, deployment.nodes[carrier])


def _pools(
    deployment: Deployment, host: str, servers: Sequence[Server], moves: Sequence[Move]
) -> dict[str, Target]:
    """The pools that get a server, or are not there yet, with their numbers afterwards."""
    carriers = {deployment.node_of_server.get(server.uuid) for server in servers}
    recorded = {uuid for uuid, owner in deployment.owner_of.items() if owner == host}
    nodes = [node for node in deployment.nodes.values() if node.uuid in carriers | recorded]
    formers: dict[str, list[str]] = {}
    for node in nodes:
        if node.uuid in recorded:
            formers.setdefault(pool_name(host, node), []).append(node.uuid)
    wanted = {move.target for move in moves}
    return {
        name: Target(
            pool_records.resource(pool), pool_records.inventory(pool), formers.get(name, ())
        )
        for name, pool in pools(host, nodes, _places(servers, moves)).items()
        if name in wanted or name not in deployment.records_by_name
    }


def _nodes(deployment: Deployment, moves: Sequence[Move]) -> dict[str, Target]:
    """The nodes with a server; the others get their records from the service when it starts."""
    return {
        move.target: Target(
            resources.node_resource(node), resources.node_inventory(node), (move.former,)
        )
        for move in moves
        if move.target is not None and (node := deployment.nodes[move.target])
    }
