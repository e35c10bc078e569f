# SPDX-License-Identifier: Apache-2.0

"""Checks of nodes: records, target sets, and what they carry."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ironic_virt.driver import resources
from ironic_virt.fleet.deployment import Deployment, pool_name
from ironic_virt.fleet.findings import Finding, Found, Severity, check

_MOVE = (
    "nova-manage db ironic_compute_node_move --ironic-node-uuid {about} --destination-host {to}"
)


@check(
    "node-without-record",
    Severity.ERROR,
    meaning="Ironic has a node that no compute service has reported: nothing is scheduled to it.",
    mend="start the service whose shard and conductor group it is in, or give the node a shard "
    "that a service serves: openstack baremetal node set --shard <shard> {about}",
    provoke="create a node in a shard that no service serves",
)
def node_without_record(deployment: Deployment, found: Found) -> Iterator[Finding]:
    pools = {record.name for record in deployment.pool_records}
    hosts = {record.host for record in deployment.pool_records}
    for node in deployment.nodes.values():
        if node.uuid in deployment.node_records:
            continue
        if not any(pool_name(host, node) in pools for host in hosts):
            yield found(node.uuid, "no compute service has a record of it")


@check(
    "record-without-node",
    Severity.ERROR,
    meaning="A compute node record names a node that Ironic does not have.",
    mend="the service {host} deletes the record at its next refresh if it is up; if it is gone "
    "for good: openstack compute service delete <id of {host}>",
    provoke="delete a node from Ironic while its service is down",
)
def record_without_node(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for record in deployment.records:
        if not deployment.is_pool(record) and record.name not in deployment.nodes:
            servers = len(deployment.servers_by_place.get(record.name, ()))
            carries = f", and {servers} servers are on it by the records" if servers else ""
            yield found(
                record.name,
                f"host {record.host} has a record of it, Ironic has no such node{carries}",
                host=record.host,
            )


@check(
    "node-in-two-records",
    Severity.CRITICAL,
    meaning="Two hosts have a record of one node, and either may put a server on it.",
    mend="stop the service that should not have it, and delete its record: openstack compute "
    "service delete <id of the service>; or have it refresh once its shard is right",
    provoke="copy a node's compute node record to another host",
)
def node_in_two_records(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for name, records in deployment.records_by_name.items():
        if len(records) > 1:
            hosts = ", ".join(sorted(record.host for record in records))
            yield found(name, f"{len(records)} records name it, of the hosts {hosts}")


@check(
    "node-in-no-target-set",
    Severity.ERROR,
    meaning="No service's shard and conductor group have the node: nobody looks after it.",
    mend="openstack baremetal node set --shard <shard> {about}",
    provoke="set a node's shard to one that no service serves",
)
def node_in_no_target_set(deployment: Deployment, found: Found) -> Iterator[Finding]:
    if not deployment.options or deployment.hosts_not_told:
        return
    for node in deployment.nodes.values():
        if not any(options.serves(node) for options in deployment.options.values()):
            yield found(
                node.uuid,
                f"shard {node.shard!r} and conductor group {node.conductor_group or ''!r} are "
                "no service's",
            )


@check(
    "node-in-two-target-sets",
    Severity.ERROR,
    meaning="Two services that don't share nodes are both for the node. Its record decides, but "
    "a new node goes to whichever comes first.",
    mend="give each service its own shard: [ironic] shard_key",
    provoke="start two services with the same shard",
)
def node_in_two_target_sets(deployment: Deployment, found: Found) -> Iterator[Finding]:
    told = sorted(deployment.options.values(), key=lambda options: options.host)
    apart = [(a, b) for a, b in itertools.combinations(told, 2) if not a.shares_with(b)]
    for node in deployment.nodes.values():
        pair = next(((a, b) for a, b in apart if a.serves(node) and b.serves(node)), None)
        if pair is not None:
            yield found(
                node.uuid, f"it is in the target sets of {pair[0].host} and {pair[1].host}"
            )


@check(
    "node-outside-its-service",
    Severity.ERROR,
    meaning="The node's record is with a service whose shard or conductor group it is not in: "
    "that service refuses to act on it.",
    mend=_MOVE + " (while {host} is forced down), or set the node's shard back",
    provoke="change a node's shard in Ironic and do not move its record",
)
def node_outside_its_service(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for node in deployment.nodes.values():
        record = deployment.node_records.get(node.uuid)
        options = deployment.options.get(record.host) if record is not None else None
        if record is None or options is None or options.serves(node):
            continue
        serving = [one.host for one in deployment.options.values() if one.serves(node)]
        why = options.target.why_outside(node)
        yield found(
            node.uuid,
            f"its record is with {record.host}, and {why}",
            host=record.host,
            to=serving[0] if serving else "<its host>",
        )


@check(
    "node-with-unknown-instance",
    Severity.ERROR,
    meaning="The node carries an instance that Nova does not know: others use Ironic too, or "
    "Nova's records were restored from a backup.",
    mend="if nobody uses it: openstack baremetal node undeploy {about}",
    provoke="set a node's instance_uuid to one that is nobody's",
)
def node_with_unknown_instance(deployment: Deployment, found: Found) -> Iterator[Finding]:
    if not deployment.whole:
        return
    for node in deployment.nodes.values():
        instance = node.instance_uuid
        if instance is not None and instance not in deployment.servers:
            yield found(node.uuid, f"Nova does not know its instance {instance}")


@check(
    "node-with-deleted-instance",
    Severity.ERROR,
    meaning="The node still carries an instance that Nova has deleted.",
    mend="a service with this driver tears it down within [DEFAULT] "
    "running_deleted_instance_poll_interval; or: openstack baremetal node undeploy {about}",
    provoke="delete a server while its service is down",
)
def node_with_deleted_instance(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for node in deployment.nodes.values():
        server = deployment.servers.get(node.instance_uuid or "")
        if server is not None and server.deleted:
            yield found(node.uuid, f"Nova has deleted its instance {server.uuid}")


@check(
    "node-protected",
    Severity.ERROR,
    meaning="The node is protected by [ironic] protect_instances, and its service has Nova's own "
    "driver, which can neither delete nor rebuild the server on it.",
    mend="ironic-virt-fleet unprotect {host}",
    provoke="build a server with protect_instances, and go back to Nova's own driver",
)
def node_protected(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for node in deployment.nodes.values():
        host = deployment.host_of(node)
        options = deployment.options.get(host)
        if options is not None and options.is_in_tree and resources.is_protected_here(node):
            yield found(node.uuid, f"{host} can't delete server {node.instance_uuid}", host=host)


@check(
    "node-unhealthy",
    Severity.WARNING,
    meaning="Ironic reports the hardware's health as critical (API 1.109).",
    mend="openstack baremetal node maintenance set {about}, and look at the hardware",
    provoke="set health of a node to critical",
)
def node_unhealthy(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for uuid, health in deployment.unhealthy.items():
        yield found(uuid, f"its health is {health}")


@check(
    "node-unreadable",
    Severity.WARNING,
    meaning="A field of the node can't be read, so it never counts as free.",
    mend="openstack baremetal node show {about}, and correct the field",
    provoke="set a node's properties/memory_mb to a text",
)
def node_unreadable(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for node in deployment.nodes.values():
        wrong = (*node.malformed, *node.properties.malformed)
        if wrong:
            yield found(node.uuid, f"can't be read: {', '.join(wrong)}")


@check(
    "node-without-class",
    Severity.WARNING,
    meaning="The node has no resource class, and no flavor can ask for it.",
    mend="openstack baremetal node set --resource-class <class> {about}",
    provoke="create a node without a resource class",
)
def node_without_class(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for node in deployment.nodes.values():
        if not node.resource_class:
            yield found(node.uuid, "it has no resource class")
