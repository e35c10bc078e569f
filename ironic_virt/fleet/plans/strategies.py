# SPDX-License-Identifier: Apache-2.0

"""From what is to a plan: pure functions of a deployment.

No host is a source or a target that was not named, by its file or by hand, and no node goes
where it can't be: :mod:`ironic_virt.fleet.plans.conditions` says so.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ironic_virt.baremetal.states import AVAILABLE
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.options import ServiceOptions
from ironic_virt.fleet.plans import conditions
from ironic_virt.fleet.plans.plan import Assumed, Change, Plan, PlanRefused
from ironic_virt.sharding.selector import same_shard


def keep(deployment: Deployment, *, accepted: Collection[str] = (), new: bool = False) -> Plan:
    """Each node of the services that are named gets the shard of its service: no record moves.

    :param accepted: codes of findings that don't matter.
    :param new: whether nodes without a record go to the service that has fewest.
    :raises PlanRefused: a node's owner is not clear, or something is wrong with it.
    """
    known, nodes = deployment.options, deployment.nodes
    placed = {
        uuid: host
        for uuid, host in deployment.owner_of.items()
        if host in known and uuid in nodes and not conditions.is_strange(deployment, nodes[uuid])
    }
    for uuid, host in placed.items():
        if why := conditions.why_not_in_group(deployment, nodes[uuid], host):
            raise PlanRefused(f"{why}; ironic-virt-fleet check says what mends it")
    if new:
        placed |= _dealt(deployment, _new(deployment), sorted(known), accepted)
    return _plan(deployment, "keep", placed, accepted)


def move(
    deployment: Deployment,
    nodes: Collection[str],
    targets: Sequence[str],
    *,
    accepted: Collection[str] = (),
    number: int | None = None,
    strategy: str = "move",
    new: bool = False,
) -> Plan:
    """Nodes go to services, each to the one of these that has fewest.

    :param nodes: their uuids.
    :param accepted: codes of findings that don't matter, and names of zones and aggregates
        that may differ.
    :param number: so many nodes at most, those without a server first.
    :param new: whether nodes without a record may be among them.
    :raises PlanRefused: it can't be done, or something is wrong with what it would touch.
    """
    if strange := sorted(set(nodes) - deployment.nodes.keys()):
        raise PlanRefused(f"Ironic has no node {', '.join(strange)}")
    known = deployment.owner_of
    movable = known.keys() | set(_new(deployment) if new else ())
    chosen = [
        uuid
        for uuid in sorted(nodes, key=lambda uuid: (uuid in deployment.servers_by_place, uuid))
        if uuid in movable and not conditions.is_strange(deployment, deployment.nodes[uuid])
    ]
    if not chosen:
        raise PlanRefused("none of these nodes has a record that could be moved")
    owners = {known[uuid] for uuid in chosen if uuid in known}
    for host in sorted(owners - deployment.options.keys()):
        raise PlanRefused(
            f"some are with {host}, which was not named; give its file with --service-conf "
            f"{host}=<file>"
        )
    placed = _dealt(deployment, chosen, targets, accepted, number)
    loads = Counter(known.values())
    loads.subtract(known[uuid] for uuid in placed if uuid in known)
    for host in sorted({*targets, *owners}):
        keeps = host in targets or loads[host] > 0
        if keeps and not deployment.options[host].shard:
            raise PlanRefused(
                f"{host} has no shard in its file, and would have nodes; give each service one "
                "first: ironic-virt-fleet plan shards"
            )
    return _plan(deployment, strategy, placed, accepted)


def drain(deployment: Deployment, host: str, targets: Sequence[str], **more: Any) -> Plan:
    """What a service has goes to others, and nothing else moves; see :func:`move`."""
    if not (nodes := nodes_of(deployment, host)):
        raise PlanRefused(f"{host} has no nodes")
    if not targets:
        raise PlanRefused(f"no other service is named that could have the nodes of {host}")
    return move(deployment, nodes, targets, strategy=f"drain {host}", **more)


def nodes_of(deployment: Deployment, host: str) -> list[str]:
    """The nodes that a service has a record of."""
    owners = deployment.owner_of.items()
    return [uuid for uuid, owner in owners if owner == host and uuid in deployment.nodes]


def shard_of(options: ServiceOptions) -> str:
    """The shard of a service: what its file says, or its name."""
    return options.shard or options.host


def _new(deployment: Deployment) -> list[str]:
    """Free nodes that no service has a record of, and no other cloud can have for its own."""
    if not deployment.whole:
        return []
    ours = [shard_of(one) for one in deployment.options.values()]
    return [
        node.uuid
        for node in deployment.nodes.values()
        if node.uuid not in deployment.owner_of
        and node.instance_uuid is None
        and node.provision_state == AVAILABLE
        and (node.shard is None or any(same_shard(node.shard, shard) for shard in ours))
    ]


def _dealt(
    deployment: Deployment,
    nodes: Iterable[str],
    targets: Sequence[str],
    accepted: Collection[str],
    number: int | None = None,
) -> dict[str, str]:
    """Each node's service afterwards."""
    for host in targets:
        if why := conditions.why_unfit(deployment, host):
            raise PlanRefused(why)
    loads = Counter(deployment.owner_of.values())
    places = {one.uuid: one.host or "" for one in deployment.live_servers}
    before = dict(places)
    placed: dict[str, str] = {}
    for uuid in nodes:
        if number is not None and len(placed) >= number:
            break
        if deployment.owner_of.get(uuid) in targets:
            continue
        why_not = functools.partial(conditions.why_not_there, deployment, deployment.nodes[uuid])
        reasons = {host: why_not(host, places, accepted) for host in targets}
        able = [host for host, why in reasons.items() if why is None]
        if not able:
            raise PlanRefused(f"node {uuid}: {'; '.join(filter(None, reasons.values()))}")
        host = min(able, key=lambda host: (loads[host], host))
        placed[uuid] = host
        loads[host] += 1
        places |= {one.uuid: host for one in deployment.servers_by_place.get(uuid, ())}
    moved = [uuid for uuid, host in places.items() if before[uuid] != host]
    for group in deployment.hosts.torn(moved, before, places):
        raise PlanRefused(f"the members of server group {group.uuid} would not be together")
    return placed


def _plan(
    deployment: Deployment, strategy: str, placed: Mapping[str, str], accepted: Collection[str]
) -> Plan:
    """The plan, if what it touches is sound."""
    changes = []
    for uuid, host in sorted(placed.items()):
        change = Change(
            uuid,
            (deployment.nodes[uuid].shard, shard_of(deployment.options[host])),
            (deployment.owner_of.get(uuid), host),
            next((one.uuid for one in deployment.servers_by_place.get(uuid, ())), None),
        )
        changes += [change] if change.is_needed else []
    hosts = {host for change in changes for host in change.host if host is not None}
    assumed = {
        host: Assumed(shard_of(one), one.conductor_group, one.number("report_interval", 0))
        for host, one in sorted(deployment.options.items())
    }
    for host, other in itertools.product(sorted(hosts), assumed):
        if host != other and _overlap(assumed[host], assumed[other]):
            raise PlanRefused(f"two services have shard {assumed[host].shard}: {host} and {other}")
    plan = Plan(
        strategy,
        deployment.read_at,
        {host: one for host, one in assumed.items() if host in hosts},
        changes,
        conditions.identity(deployment),
        tuple(sorted(accepted)),
    )
    conditions.refuse_findings(deployment, plan)
    return plan


def _overlap(one: Assumed, other: Assumed) -> bool:
    """Whether two services may be for the same node."""
    groups = {a.conductor_group and a.conductor_group.lower() for a in (one, other)}
    return same_shard(one.shard, other.shard) and (None in groups or len(groups) == 1)
