# SPDX-License-Identifier: Apache-2.0

"""A plan in numbers and words: before and after, and the steps by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.plans.plan import Plan
from ironic_virt.sharding.selector import same_shard


class ServiceSummary(NamedTuple):
    """A service's records before and after, those that move, and how many of these are taken."""

    service: str
    shard: str
    before: int
    after: int
    moving_in: int
    moving_out: int
    with_servers: int


def rows(deployment: Deployment, plan: Plan) -> list[ServiceSummary]:
    """The plan by service."""
    before = Counter(deployment.owner_of.values())
    after = Counter({**deployment.owner_of, **{c.node: c.host[1] for c in plan.changes}}.values())
    joining = Counter(change.host[1] for change in plan.moved)
    leaving = Counter(change.host[0] or "" for change in plan.moved)
    servers = Counter(host for change in plan.moved if change.server for host in change.host)
    shards = {host: service.shard for host, service in plan.services.items()}
    counts = before, after, joining, leaving, servers
    return [
        ServiceSummary(host, shards.get(host, ""), *(count[host] for count in counts))
        for host in sorted(before.keys() | shards.keys())
    ]


def instructions(plan: Plan, deployment: Deployment, path: str) -> Iterator[str]:
    """What to do, in order."""
    steps = plan.steps()
    shards = sum(not same_shard(*change.shard) for change in plan.changes)
    yield (
        f"{shards:,} nodes get another shard; {len(plan.moved):,} records move, "
        f"{sum(step.servers for step in steps):,} of them with a server"
    )
    for number, step in enumerate(steps, start=1):
        yield (
            f"{number}. Stop nova-compute on {step.host} and force it down (openstack compute "
            f"service set --down {step.host} nova-compute); then run: ironic-virt-fleet apply "
            f"{path}. {step.nodes:,} records leave it"
        )
    if not steps:
        yield f"No record moves; run: ironic-virt-fleet apply {path}"
    for host, service in sorted(plan.services.items()):
        if deployment.options[host].shard != service.shard:
            yield (
                f"Set [ironic] shard = {service.shard} in the file of {host}, remove peer_list, "
                "and restart it"
            )
