# SPDX-License-Identifier: Apache-2.0

"""What must be so when all has settled; the numbers are those of the invariants."""

import collections
from collections.abc import Mapping, Sequence
from typing import Any

from ironic_virt.compute.db import Database, records
from tests.chaos.nodes import Nodes
from tests.chaos.users import Users
from tests.functional.compute.processes import ComputeProcess

_STATES = {"active": "active", "stopped": "active", "rescued": "rescue"}


def settled(db: Database, nodes: Nodes, users: Users) -> list[str]:
    """Each server is where its record says, and in that state (1, 3, 4).

    :returns: what is broken, in sentences.
    """
    found = []
    every = nodes.all()
    carriers = {one["instance_uuid"]: one for one in every if one["instance_uuid"]}
    if len(carriers) < sum(1 for one in every if one["instance_uuid"]):
        found.append("1 one node: a server is on two nodes")
    rows = {one.uuid: one for one in db.instances.list()}
    for uuid in users.created - rows.keys() - users.given_up:
        found.append(f"1 lost: there is no record of {uuid}, which nobody asked to delete")
    shared = collections.Counter(row.node for row in rows.values() if row.node)
    for node, count in shared.items():
        if count > 1:
            found.append(f"1 one node: {count} servers are on {node} in the records")
    for row in rows.values():
        found += _server(row, carriers.get(row.uuid), db)
    for uuid, node in carriers.items():
        row = rows.get(uuid)
        # Of a build that was given up, Ironic may keep a part until the server is deleted.
        if row is None:
            found.append(f"4 leaked: {_seen(node)}, and {uuid} is no server")
    return found


def _server(row: records.Instance, node: Mapping[str, Any] | None, db: Database) -> list[str]:
    who = f"{row.uuid} ({row.vm_state}, {row.task_state}, on {row.node} of {row.host})"
    if row.task_state is not None:
        return [f"13 liveness: {who} is still wanted"]
    if row.vm_state == "error":
        return [] if db.instances.get(row.uuid).fault else [f"4 converges: {who} without a fault"]
    if node is None:
        return [f"1 lost: no node has {who}"]
    if node["uuid"] != row.node or node["provision_state"] != _STATES.get(row.vm_state):
        return [f"4 converges: {who}: {_seen(node)}"]
    if row.vm_state == "stopped" and node["power_state"] != "power off":
        return [f"4 converges: {who}: {_seen(node)}"]
    return []


def _seen(node: Mapping[str, Any]) -> str:
    return (
        f"node {node['uuid']} is {node['provision_state']}, {node['power_state']},"
        f" with {node['instance_uuid']}, maintenance {node['maintenance']},"
        f" last error {node['last_error']}"
    )


def nothing_is_left(
    db: Database, nodes: Nodes, pristine: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """All servers are deleted: nothing of them is left (4, 6, 7, 12)."""
    found = []
    for row in db.instances.list():
        fault = db.instances.get(row.uuid).fault
        found.append(f"13 liveness: {row.uuid} can't be deleted: {fault and fault.message}")
    after = {uuid: dict(traces) for uuid, traces in nodes.traces().items()}
    for uuid, before in pristine.items():
        if set(after[uuid]["instance_info"]) == {"traits"}:
            # Ironic writes them with a reservation; the driver logs that they stay.
            after[uuid]["instance_info"] = {}
        left = {key: value for key, value in after[uuid].items() if value != before[key]}
        if left:
            found.append(f"4 leaked: node {uuid} has kept {left}")
    if kept := nodes.allocations():
        found.append(f"4 leaked: allocations of {kept}")
    return found


def free(db: Database) -> int:
    """How many nodes are offered by the records (3)."""
    pools = sum(pool.free for pool in db.pools.list())
    nodes = db.compute_nodes.list()
    return pools or sum(one.available and not one.in_use for one in nodes)


def logs(services: Sequence[ComputeProcess]) -> list[str]:
    """No service has met what it did not expect."""
    found = []
    for one in services:
        lines = one.text().splitlines()
        for number, line in enumerate(lines):
            if "Traceback (most recent call last)" in line:
                shown = "\n    ".join(lines[max(0, number - 1) : number + 60])
                found.append(f"log: a traceback of {one.host}:\n    {shown}")
                break
    return found
