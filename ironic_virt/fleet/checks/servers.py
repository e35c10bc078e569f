# SPDX-License-Identifier: Apache-2.0

"""Checks of servers: whose they are, and which node they are on.

A server with an operation in progress is left out: its records agree when that has ended.
"""

from __future__ import annotations

from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.findings import CRITICAL, ERROR, WARNING, Problems, Table, check

CHECKS: Table = {}


@check(
    *(CHECKS, "host-differs", CRITICAL),
    "nova-manage db ironic_compute_node_move --ironic-node-uuid {node} --destination-host {host} "
    "(while {other} is forced down)",
)
def _find_host_differs(fleet: Deployment) -> Problems:
    for server in fleet.live_servers:
        record = fleet.node_records.get(server.node or "")
        if record is not None and record.host != server.host:
            words = f"it is on host {server.host}, but the record of its node {record.name} is"
            facts = {"node": record.name, "host": server.host or "", "other": record.host}
            yield server.uuid, f"{words} with {record.host}", facts


@check(
    *(CHECKS, "server-without-node", ERROR),
    "if the node was lost: openstack server delete {about}; if only its instance_uuid was "
    "removed: openstack baremetal node set --instance-uuid {about} <node>",
)
def _find_server_without_node(fleet: Deployment) -> Problems:
    for server in fleet.bare_metal_servers:
        if server.uuid not in fleet.node_of_server:
            yield server.uuid, f"no node in Ironic carries it; Nova has it on {server.node}"


@check(
    *(CHECKS, "server-on-another-node", CRITICAL),
    "no command corrects this: ask for help before you do anything with server {about}",
)
def _find_server_on_another_node(fleet: Deployment) -> Problems:
    for server in fleet.live_servers:
        carrier = fleet.node_of_server.get(server.uuid)
        record = fleet.node_records.get(server.node or "")
        if carrier is not None and record is not None and carrier != record.name:
            yield server.uuid, f"Nova has it on {server.node}, but node {carrier} carries it"


@check(
    *(CHECKS, "server-in-another-zone", WARNING),
    "move its node back into {zone} (ironic-virt-fleet plan move), or correct the aggregates of "
    "{host}",
)
def _find_server_in_another_zone(fleet: Deployment) -> Problems:
    for server in fleet.live_servers:
        zone = fleet.hosts.zone(host := server.host or "")
        if host in fleet.bare_metal_hosts and server.zone not in (None, zone):
            words = f"it was built in zone {server.zone}, but its host {host} is in {zone}"
            yield server.uuid, words, {"zone": server.zone or "", "host": host}


@check(
    *(CHECKS, "two-servers-on-a-node", CRITICAL),
    "openstack server delete the one that node {about} does not carry in Ironic",
)
def _find_two_servers_on_a_node(fleet: Deployment) -> Problems:
    for name, servers in fleet.servers_by_place.items():
        if name in fleet.node_records and len(servers) > 1:
            uuids = ", ".join(sorted(server.uuid for server in servers))
            yield name, f"Nova has {len(servers)} servers on it: {uuids}"
