# SPDX-License-Identifier: Apache-2.0

"""Deployments made by hand: a sound one, and what it takes to spoil it."""

import dataclasses
import datetime
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.fleet.deployment import (
    Deployment,
    Placement,
    Provider,
    Record,
    Server,
    Service,
    Stock,
)
from ironic_virt.fleet.hosts import Hosts
from ironic_virt.fleet.options import ServiceOptions

NOW = datetime.datetime(2026, 5, 4, 12, 0, tzinfo=datetime.UTC)
GOLD = "CUSTOM_GOLD"


def node_uuid(number: int) -> str:
    return str(uuid.UUID(int=number))


def server_uuid(number: int) -> str:
    return str(uuid.UUID(int=1_000_000 + number))


def node(number: int, **fields: Any) -> Node:
    """A free node of class gold."""
    given = {
        "uuid": node_uuid(number),
        "resource_class": "gold",
        "provision_state": "available",
        "power_state": "power off",
        **fields,
    }
    return Node(**given)


def fleet(
    hosts: Mapping[str, int], *, taken: int = 2, shards: bool = True, **node_fields: Any
) -> Deployment:
    """A sound deployment.

    :param hosts: how many nodes each host has.
    :param taken: every so many-th node has a server.
    :param shards: whether each service has a shard of the same name.
    :param node_fields: of all nodes.
    """
    nodes, records, servers = {}, [], {}
    allocations: dict[str, dict[str, dict[str, int]]] = {}
    number = 0
    for host, count in hosts.items():
        for _ in range(count):
            number += 1
            made = node(number, shard=host if shards else None, **node_fields)
            if number % taken == 0:
                server = Server("cell1", server_uuid(number), host, made.uuid)
                servers[server.uuid] = server
                made = with_server(made, server.uuid)
                allocations[made.uuid] = {server.uuid: {GOLD: 1}}
            nodes[made.uuid] = made
            records.append(Record("cell1", number, made.uuid, host, made.uuid))
    return Deployment(
        read_at=NOW,
        services=[
            Service("cell1", number, host, last_seen=NOW)
            for number, host in enumerate(hosts, start=1)
        ],
        records=records,
        servers=servers,
        nodes=nodes,
        placement=placement_of(nodes, allocations),
        hosts=Hosts(dict.fromkeys(hosts, "cell1")),
        options={
            host: ServiceOptions(host, written={"shard_key": host} if shards else {})
            for host in hosts
        },
    )


def with_server(node: Node, server: str) -> Node:
    return changed(node, instance_uuid=server, provision_state="active", power_state="power on")


def placement_of(
    nodes: Mapping[str, Node], allocations: Mapping[str, Mapping[str, Mapping[str, int]]]
) -> Placement:
    """What Placement says of nodes when it is right."""
    free = {one.uuid for one in nodes.values() if resources.why_not_free(one) is None}
    traits = {trait for one in nodes.values() for trait in one.traits}
    classes = {resources.node_inventory(one).placement_class for one in nodes.values()}
    return Placement(
        providers={uuid: Provider(uuid, uuid) for uuid in nodes},
        room={
            name: frozenset(
                one for one in free if resources.node_inventory(nodes[one]).placement_class == name
            )
            for name in classes
        },
        traits={
            trait: frozenset(one.uuid for one in nodes.values() if trait in one.traits)
            for trait in traits
        },
        allocations={uuid: allocations.get(uuid, {}) for uuid in nodes if uuid not in free},
        stocks={
            uuid: {resources.node_inventory(one).placement_class: Stock(1, 1)}
            for uuid, one in nodes.items()
            if uuid not in free and not allocations.get(uuid)
        },
    )


def changed(value: Any, **fields: Any) -> Any:
    """A value with other fields."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **fields)
    return dataclasses.replace(value, **fields)


def with_node(deployment: Deployment, uuid: str, **fields: Any) -> Deployment:
    """The deployment with a node that Ironic shows otherwise."""
    other = changed(deployment.nodes[uuid], **fields)
    return changed(deployment, nodes={**deployment.nodes, uuid: other})


def with_placement(deployment: Deployment, **fields: Any) -> Deployment:
    """The deployment with a Placement that says otherwise."""
    return changed(deployment, placement=changed(deployment.placement, **fields))


def with_service(deployment: Deployment, host: str, **fields: Any) -> Deployment:
    """The deployment with a service that Nova shows otherwise."""
    services = [changed(one, **fields) if one.host == host else one for one in deployment.services]
    return changed(deployment, services=services)


def with_hosts(deployment: Deployment, **fields: Any) -> Deployment:
    """The deployment with an API database of Nova that says otherwise."""
    return changed(deployment, hosts=changed(deployment.hosts, **fields))


def with_options(deployment: Deployment, host: str, **written: str) -> Deployment:
    """The deployment in which the file of a service says just this in ``[ironic]``."""
    options = {**deployment.options, host: ServiceOptions(host, written)}
    return changed(deployment, options=options)
