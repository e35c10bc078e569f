# SPDX-License-Identifier: Apache-2.0

"""A plan in numbers and words: before and after, and what has to be done by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.plans.plan import Plan, estimate


class Row(NamedTuple):
    """A service's nodes of one class in one conductor group.

    :ivar before: how many records it has; nodes without a record count for no service.
    :ivar moving_in: how many records it gets from other services.
    :ivar moving_out: how many records it gives to others.
    :ivar with_servers: how many of these carry a server.
    """

    service: str
    shard: str
    resource_class: str
    conductor_group: str
    before: int
    after: int
    moving_in: int
    moving_out: int
    with_servers: int


def rows(deployment: Deployment, plan: Plan) -> list[Row]:
    """The plan by service, class and group."""
    changes = {change.node: change for change in plan.changes}
    shards = {host: service.shard for host, service in plan.services.items()}
    keys: dict[tuple[str, str, str], Counter[str]] = {}
    for node in deployment.nodes.values():
        kind = (node.resource_class or "", node.conductor_group or "")
        record = deployment.node_records.get(node.uuid)
        before = record.host if record is not None else None
        change = changes.get(node.uuid)
        after = change.host[1] if change is not None else before
        for host, name in ((before, "before"), (after, "after")):
            if host is not None:
                keys.setdefault((host, *kind), Counter())[name] += 1
        if change is not None and change.moves_record:
            keys[change.host[1], *kind]["in"] += 1
            keys[change.host[0] or "", *kind]["out"] += 1
            for host in (change.host[1], change.host[0] or ""):
                keys[host, *kind]["servers"] += change.server is not None
    return [
        Row(
            *(host, shards.get(host, ""), name, group),
            *(count["before"], count["after"], count["in"], count["out"], count["servers"]),
        )
        for (host, name, group), count in sorted(keys.items())
    ]


def instructions(plan: Plan, deployment: Deployment, path: str) -> Iterator[str]:
    """What is to be done, in order."""
    moved = plan.moved
    servers = sum(change.server is not None for change in moved)
    shards = sum(change.shard[0] != change.shard[1] for change in plan.changes)
    yield (
        f"{shards:,} nodes get another shard; {len(moved):,} records move, {servers:,} of them "
        f"with a server"
    )
    for number, step in enumerate(plan.steps(), start=1):
        yield (
            f"{number}. Stop nova-compute on {step.host} and force it down (openstack compute "
            f"service set --down {step.host} nova-compute); then: ironic-virt-fleet apply {path}. "
            f"{step.nodes:,} records leave it; it is down for about {step.seconds:.0f} s"
        )
    if not moved:
        seconds = estimate(shards, 0)
        yield f"No record moves: ironic-virt-fleet apply {path} (about {seconds:.0f} s)"
    for host, service in sorted(plan.services.items()):
        if deployment.options[host].shard != service.shard:
            yield (
                f"The file of {host}: [ironic] shard = {service.shard}, and no peer_list; then "
                "restart it"
            )
