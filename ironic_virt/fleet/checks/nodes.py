# SPDX-License-Identifier: Apache-2.0

"""Checks of nodes: records, target sets, and what they carry."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.fleet.deployment import Deployment, is_pool, pool_name
from ironic_virt.fleet.findings import CRITICAL, ERROR, WARNING, Problems, Table, each


def _nodes(fleet: Deployment) -> Iterable[tuple[str, Node]]:
    return fleet.nodes.items()


def _without_record(fleet: Deployment) -> Problems:
    pools = {record.name for record in fleet.pool_records}
    hosts = {record.host for record in fleet.pool_records}
    for node in fleet.nodes.values():
        if node.uuid not in fleet.node_records and not any(
            pool_name(host, node) in pools for host in hosts
        ):
            yield node.uuid, "no compute service has a record of it"


def _of_no_node(fleet: Deployment) -> Problems:
    for record in fleet.records:
        if not is_pool(record) and record.name not in fleet.nodes:
            servers = len(fleet.servers_by_place.get(record.name, ()))
            carries = f", and {servers} servers are on it by the records" if servers else ""
            words = f"host {record.host} has a record of it, Ironic has no such node{carries}"
            yield record.name, words, {"host": record.host}


def _in_two_records(fleet: Deployment) -> Problems:
    for name, records in fleet.records_by_name.items():
        if len(records) > 1:
            hosts = ", ".join(sorted(record.host for record in records))
            yield name, f"{len(records)} records name it, of the hosts {hosts}"


def _in_no_target_set(fleet: Deployment, node: Node) -> str | None:
    if not fleet.options or fleet.hosts_not_told:
        return None
    if any(options.serves(node) for options in fleet.options.values()):
        return None
    group = node.conductor_group or ""
    return f"shard {node.shard!r} and conductor group {group!r} are no service's"


def _in_two_target_sets(fleet: Deployment) -> Problems:
    options = sorted(fleet.options.values(), key=lambda one: one.host)
    apart = [(a, b) for a, b in itertools.combinations(options, 2) if not a.shares_with(b)]
    for node in fleet.nodes.values():
        pair = next(((a, b) for a, b in apart if a.serves(node) and b.serves(node)), None)
        if pair is not None:
            yield node.uuid, f"it is in the target sets of {pair[0].host} and {pair[1].host}"


def _outside_its_service(fleet: Deployment) -> Problems:
    for uuid, record in fleet.node_records.items():
        node, options = fleet.nodes.get(uuid), fleet.options.get(record.host)
        if node is None or options is None or options.serves(node):
            continue
        serving = (one.host for one in fleet.options.values() if one.serves(node))
        words = f"its record is with {record.host}, and {options.target.why_outside(node)}"
        yield uuid, words, {"host": record.host, "to": next(serving, "<its host>")}


def _with_unknown_instance(fleet: Deployment, node: Node) -> str | None:
    if fleet.whole and node.instance_uuid and node.instance_uuid not in fleet.servers:
        return f"Nova does not know its instance {node.instance_uuid}"
    return None


def _with_deleted_instance(fleet: Deployment, node: Node) -> str | None:
    server = fleet.servers.get(node.instance_uuid or "")
    return f"Nova has deleted its instance {server.uuid}" if server and server.deleted else None


def _protected(fleet: Deployment) -> Problems:
    for node in fleet.nodes.values():
        options = fleet.options.get(host := fleet.host_of(node))
        if options is not None and options.is_in_tree and resources.is_protected_here(node):
            yield node.uuid, f"{host} can't delete server {node.instance_uuid}", {"host": host}


def _unhealthy(_: Deployment, node: Node) -> str | None:
    is_critical = (node.health or "").lower() == "critical"
    return f"its health is {node.health}" if is_critical else None


def _unreadable(fleet: Deployment, node: Node) -> str | None:
    fields = (*node.malformed, *node.properties.malformed)
    return f"can't be read: {', '.join(fields)}" if fields else None


CHECKS: Table = {
    "node-without-record": (
        ERROR,
        "start the service whose shard and conductor group it is in, or give the node a shard "
        "that a service serves: openstack baremetal node set --shard <shard> {about}",
        _without_record,
    ),
    "record-without-node": (
        ERROR,
        "the service {host} deletes the record at its next refresh if it is up; if it is gone "
        "for good: openstack compute service delete <id of {host}>",
        _of_no_node,
    ),
    "node-in-two-records": (
        CRITICAL,
        "stop the service that should not have it, and delete its record: openstack compute "
        "service delete <id of the service>; or have it refresh once its shard is right",
        _in_two_records,
    ),
    "node-in-no-target-set": (
        ERROR,
        "openstack baremetal node set --shard <shard> {about}",
        each(_nodes, _in_no_target_set),
    ),
    "node-in-two-target-sets": (
        ERROR,
        "give each service its own shard: [ironic] shard_key",
        _in_two_target_sets,
    ),
    "node-outside-its-service": (
        ERROR,
        "nova-manage db ironic_compute_node_move --ironic-node-uuid {about} --destination-host "
        "{to} (while {host} is forced down), or set the node's shard back",
        _outside_its_service,
    ),
    "node-with-unknown-instance": (
        ERROR,
        "if nobody uses it: openstack baremetal node undeploy {about}",
        each(_nodes, _with_unknown_instance),
    ),
    "node-with-deleted-instance": (
        ERROR,
        "a service with this driver tears it down within [DEFAULT] "
        "running_deleted_instance_poll_interval; or: openstack baremetal node undeploy {about}",
        each(_nodes, _with_deleted_instance),
    ),
    "node-protected": (ERROR, "ironic-virt-fleet unprotect {host}", _protected),
    "node-unhealthy": (
        WARNING,
        "openstack baremetal node maintenance set {about}, and look at the hardware",
        each(_nodes, _unhealthy),
    ),
    "node-unreadable": (
        WARNING,
        "openstack baremetal node show {about}, and correct the field",
        each(_nodes, _unreadable),
    ),
    "node-without-class": (
        WARNING,
        "openstack baremetal node set --resource-class <class> {about}",
        each(_nodes, lambda _, node: None if node.resource_class else "it has no resource class"),
    ),
}
