# SPDX-License-Identifier: Apache-2.0

"""Checks of servers: whose they are, and which node they are on.

A server to which something is being done is left out: its records agree when that has ended.
"""

from __future__ import annotations

from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.findings import CRITICAL, ERROR, WARNING, Problems, Table


def _host(fleet: Deployment) -> Problems:
    for server in fleet.live_servers:
        record = fleet.node_records.get(server.node or "")
        if record is not None and record.host != server.host:
            words = (
                f"it is on host {server.host}, the record of its node {record.name} is with "
                f"{record.host}"
            )
            facts = {"node": record.name, "host": server.host or "", "other": record.host}
            yield server.uuid, words, facts


def _without_node(fleet: Deployment) -> Problems:
    for server in fleet.bare_metal_servers:
        if server.uuid not in fleet.node_of_server:
            yield server.uuid, f"no node carries it; its record names {server.node}"


def _another_node(fleet: Deployment) -> Problems:
    for server in fleet.live_servers:
        carrier = fleet.node_of_server.get(server.uuid)
        named = fleet.node_records.get(server.node or "")
        if carrier is not None and named is not None and carrier != named.name:
            yield server.uuid, f"its record names {server.node}, node {carrier} carries it"


def _another_zone(fleet: Deployment) -> Problems:
    for server in fleet.live_servers:
        zone = fleet.hosts.zone(host := server.host or "")
        if host in fleet.bare_metal_hosts and server.zone not in (None, zone):
            words = f"it was built in zone {server.zone}, and is on {host} in {zone}"
            yield server.uuid, words, {"zone": server.zone or "", "host": host}


def _two(fleet: Deployment) -> Problems:
    for name, servers in fleet.servers_by_place.items():
        if name in fleet.node_records and len(servers) > 1:
            uuids = ", ".join(sorted(server.uuid for server in servers))
            yield name, f"Nova has {len(servers)} servers on it: {uuids}"


CHECKS: Table = {
    "host-differs": (
        CRITICAL,
        "nova-manage db ironic_compute_node_move --ironic-node-uuid {node} "
        "--destination-host {host} (while {other} is forced down)",
        _host,
    ),
    "server-without-node": (
        ERROR,
        "if the node was lost: openstack server delete {about}; if its instance_uuid was taken "
        "off: openstack baremetal node set --instance-uuid {about} <node>",
        _without_node,
    ),
    "server-on-another-node": (
        CRITICAL,
        "correct the record's node: nothing does that by itself; ask before acting on {about}",
        _another_node,
    ),
    "server-in-another-zone": (
        WARNING,
        "move its node back into {zone} (ironic-virt-fleet plan move), or correct the aggregates "
        "of {host}",
        _another_zone,
    ),
    "two-servers-on-a-node": (
        CRITICAL,
        "openstack server delete the one that node {about} does not carry in Ironic",
        _two,
    ),
}
