# SPDX-License-Identifier: Apache-2.0

"""Checks of nodes: records, target sets, and what they carry."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.fleet.deployment import Deployment, is_pool
from ironic_virt.fleet.findings import CRITICAL, ERROR, WARNING, Problems, Table, check, each

CHECKS: Table = {}


def _list_nodes(fleet: Deployment) -> Iterable[tuple[str, Node]]:
    return fleet.nodes.items()


@check(
    *(CHECKS, "node-without-record", ERROR),
    "start the service whose shard and conductor group it is in, or give the node a shard that a "
    "service serves: openstack baremetal node set --shard <shard> {about}",
)
def _find_node_without_record(fleet: Deployment) -> Problems:
    for node in fleet.nodes.values() if fleet.whole else ():
        if node.uuid not in fleet.node_records and not fleet.is_in_pool(node):
            yield node.uuid, "no compute service has a record of it"


@check(
    *(CHECKS, "record-without-node", ERROR),
    "nova-compute on {host} deletes the record at its next refresh if it is running; if it is "
    "gone for good: openstack compute service delete <id of {host}>",
)
def _find_record_without_node(fleet: Deployment) -> Problems:
    for record in fleet.records:
        if not is_pool(record) and record.name not in fleet.nodes:
            servers = len(fleet.servers_by_place.get(record.name, ()))
            carries = f"; Nova has {servers} servers on it" if servers else ""
            words = f"host {record.host} has a record of it, but Ironic has no such node{carries}"
            yield record.name, words, {"host": record.host}


@check(
    *(CHECKS, "node-in-two-records", CRITICAL),
    "stop the service that should not have it, and delete it with its records: openstack compute "
    "service delete <id of the service>; or correct its shard and have it refresh",
)
def _find_node_in_two_records(fleet: Deployment) -> Problems:
    for name, records in fleet.records_by_name.items():
        if len(records) > 1:
            hosts = ", ".join(sorted(record.host for record in records))
            yield name, f"{len(records)} hosts have a record of it: {hosts}"


@check(
    *(CHECKS, "node-in-no-target-set", ERROR),
    "openstack baremetal node set --shard <shard> {about}",
)
@each(_list_nodes)
def _find_node_in_no_target_set(fleet: Deployment, node: Node) -> str | None:
    if not fleet.options or fleet.bare_metal_hosts - fleet.options.keys() or not fleet.whole:
        return None
    if any(options.serves(node) for options in fleet.options.values()):
        return None
    group = node.conductor_group or ""
    return f"no service serves shard {node.shard!r} in conductor group {group!r}"


@check(
    *(CHECKS, "node-in-two-target-sets", ERROR),
    "give each service its own shard: [ironic] shard_key",
)
def _find_node_in_two_target_sets(fleet: Deployment) -> Problems:
    services = sorted(fleet.options.values(), key=lambda options: options.host)
    apart = [(a, b) for a, b in itertools.combinations(services, 2) if not a.shares_with(b)]
    for node in fleet.nodes.values():
        pair = next(((a, b) for a, b in apart if a.serves(node) and b.serves(node)), None)
        if pair is not None:
            yield node.uuid, f"it is in the target sets of both {pair[0].host} and {pair[1].host}"


@check(
    *(CHECKS, "node-outside-its-service", ERROR),
    "nova-manage db ironic_compute_node_move --ironic-node-uuid {about} --destination-host {to} "
    "(while {host} is forced down), or set the node's shard back",
)
def _find_node_outside_its_service(fleet: Deployment) -> Problems:
    for uuid, record in fleet.node_records.items():
        node, options = fleet.nodes.get(uuid), fleet.options.get(record.host)
        if node is None or options is None or options.serves(node):
            continue
        serving = (other.host for other in fleet.options.values() if other.serves(node))
        words = f"its record is with {record.host}, but {options.target.why_outside(node)}"
        yield uuid, words, {"host": record.host, "to": next(serving, "<its host>")}


@check(
    *(CHECKS, "node-with-unknown-instance", ERROR),
    "if nobody uses it: openstack baremetal node undeploy {about}",
)
@each(_list_nodes)
def _find_node_with_unknown_instance(fleet: Deployment, node: Node) -> str | None:
    if fleet.whole and node.instance_uuid and node.instance_uuid not in fleet.servers:
        return f"Nova does not know its instance {node.instance_uuid}"
    return None


@check(
    *(CHECKS, "node-with-deleted-instance", ERROR),
    "a service with this driver tears it down within [DEFAULT] "
    "running_deleted_instance_poll_interval; or: openstack baremetal node undeploy {about}",
)
@each(_list_nodes)
def _find_node_with_deleted_instance(fleet: Deployment, node: Node) -> str | None:
    server = fleet.servers.get(node.instance_uuid or "")
    return f"Nova has deleted its instance {server.uuid}" if server and server.deleted else None


@check(CHECKS, "node-protected", ERROR, "ironic-virt-fleet unprotect {host}")
def _find_node_protected(fleet: Deployment) -> Problems:
    for node in fleet.nodes.values():
        options = fleet.options.get(host := fleet.host_of(node))
        if options is not None and options.is_in_tree and resources.is_protected_here(node):
            words = f"while it is protected, {host} can't delete server {node.instance_uuid}"
            yield node.uuid, words, {"host": host}


@check(
    *(CHECKS, "node-unhealthy", WARNING),
    "openstack baremetal node maintenance set {about}, and check the hardware",
)
@each(_list_nodes)
def _find_node_unhealthy(_: Deployment, node: Node) -> str | None:
    is_critical = (node.health or "").lower() == "critical"
    return f"its health is {node.health}" if is_critical else None


@check(
    *(CHECKS, "node-unreadable", WARNING),
    "openstack baremetal node show {about}, and correct the field",
)
@each(_list_nodes)
def _find_node_unreadable(_: Deployment, node: Node) -> str | None:
    fields = (*node.malformed, *node.properties.malformed)
    return f"fields that can't be read: {', '.join(fields)}" if fields else None


@check(
    *(CHECKS, "node-without-class", WARNING),
    "openstack baremetal node set --resource-class <class> {about}",
)
@each(_list_nodes)
def _find_node_without_class(_: Deployment, node: Node) -> str | None:
    return None if node.resource_class else "it has no resource class"
