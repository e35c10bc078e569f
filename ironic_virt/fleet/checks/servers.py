# SPDX-License-Identifier: Apache-2.0

"""Checks of servers: whose they are, and which node they are on.

A server to which something is being done is left out: its records agree when that has ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.findings import Finding, Found, Severity, check


@check(
    "host-differs",
    Severity.CRITICAL,
    meaning="The server is one host's and its node's record another host's: nobody can act on "
    "the server, and the other host may take the node for its own.",
    mend="nova-manage db ironic_compute_node_move --ironic-node-uuid {node} "
    "--destination-host {host} (while {other} is forced down)",
    provoke="change the host of a node's compute node record, and not that of its server",
)
def host_differs(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for server in deployment.live_servers:
        record = deployment.node_records.get(server.node or "")
        if record is not None and record.host != server.host:
            yield found(
                server.uuid,
                f"it is on host {server.host}, the record of its node {record.name} is with "
                f"{record.host}",
                node=record.name,
                host=str(server.host),
                other=record.host,
            )


@check(
    "server-without-node",
    Severity.ERROR,
    meaning="Nova has the server, and no node in Ironic carries it.",
    mend="if the node was lost: openstack server delete {about}; if its instance_uuid was taken "
    "off: openstack baremetal node set --instance-uuid {about} <node>",
    provoke="take the instance_uuid off a node in maintenance",
)
def server_without_node(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for server in deployment.live_servers:
        if not server.is_on_a_node or server.host not in deployment.bare_metal_hosts:
            continue
        if server.uuid not in deployment.node_of_server:
            yield found(server.uuid, f"no node carries it; its record names {server.node}")


@check(
    "server-on-another-node",
    Severity.CRITICAL,
    meaning="Nova's record of the server names one node, and in Ironic another one carries it.",
    mend="correct the record's node: nothing does that by itself; ask before acting on {about}",
    provoke="set a server's instance_uuid on another node than the one that it is on",
)
def server_on_another_node(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for server in deployment.live_servers:
        carrier = deployment.node_of_server.get(server.uuid)
        named = deployment.node_records.get(server.node or "")
        if carrier is not None and named is not None and carrier != named.name:
            yield found(server.uuid, f"its record names {server.node}, node {carrier} carries it")


@check(
    "server-in-another-zone",
    Severity.WARNING,
    meaning="The server was built in one availability zone, and its host is in another one.",
    mend="move its node back into {zone} (ironic-virt-fleet plan move), or correct the aggregates "
    "of {host}",
    provoke="move a node with a server to a service in another availability zone",
)
def server_in_another_zone(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for server in deployment.live_servers:
        zone = deployment.hosts.zone(host := server.host or "")
        if host in deployment.bare_metal_hosts and server.zone not in (None, zone):
            yield found(
                server.uuid,
                f"it was built in zone {server.zone}, and is on {host} in {zone}",
                zone=server.zone or "",
                host=host,
            )


@check(
    "two-servers-on-a-node",
    Severity.CRITICAL,
    meaning="Nova has two servers on one node; at most one of them can be there.",
    mend="openstack server delete the one that node {about} does not carry in Ironic",
    provoke="set the node of two servers to the same one",
)
def two_servers_on_a_node(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for name, servers in deployment.servers_by_place.items():
        if name in deployment.node_records and len(servers) > 1:
            uuids = ", ".join(sorted(server.uuid for server in servers))
            yield found(name, f"Nova has {len(servers)} servers on it: {uuids}")
