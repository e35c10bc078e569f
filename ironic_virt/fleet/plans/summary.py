# SPDX-License-Identifier: Apache-2.0

"""A plan in numbers and words: before and after, and what has to be done by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.plans.plan import Plan


class Row(NamedTuple):
    """How many records of nodes a service has and gets, and how many that move have a server."""

    service: str
    shard: str
    before: int
    after: int
    moving_in: int
    moving_out: int
    with_servers: int


def rows(deployment: Deployment, plan: Plan) -> list[Row]:
    """The plan by service."""
    before = Counter(deployment.owner_of.values())
    new = Counter(change.host[1] for change in plan.changes if change.host[0] is None)
    joining = Counter(change.host[1] for change in plan.moved)
    leaving = Counter(change.host[0] or "" for change in plan.moved)
    servers = Counter(host for change in plan.moved if change.server for host in change.host)
    shards = {host: service.shard for host, service in plan.services.items()}
    return [
        Row(
            *(host, shards.get(host, ""), before[host]),
            before[host] + new[host] + joining[host] - leaving[host],
            *(joining[host], leaving[host], servers[host]),
        )
        for host in sorted(before.keys() | shards.keys())
    ]


def instructions(plan: Plan, deployment: Deployment, path: str) -> Iterator[str]:
    """What is to be done, in order."""
    steps = plan.steps()
    servers = sum(step.servers for step in steps)
    shards = sum(change.shard[0] != change.shard[1] for change in plan.changes)
    yield (
        f"{shards:,} nodes get another shard; {len(plan.moved):,} records move, {servers:,} of "
        "them with a server"
    )
    for number, step in enumerate(steps, start=1):
        yield (
            f"{number}. Stop nova-compute on {step.host} and force it down (openstack compute "
            f"service set --down {step.host} nova-compute); then: ironic-virt-fleet apply {path}. "
            f"{step.nodes:,} records leave it"
        )
    if not steps:
        yield f"No record moves: ironic-virt-fleet apply {path}"
    for host, service in sorted(plan.services.items()):
        if deployment.options[host].shard != service.shard:
            yield (
                f"The file of {host}: [ironic] shard = {service.shard}, and no peer_list; then "
                "restart it"
            )
