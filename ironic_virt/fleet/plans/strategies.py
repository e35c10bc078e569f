# SPDX-License-Identifier: Apache-2.0

"""Makes plans: pure functions of a deployment.

Only hosts that were named, by a file or by hand, are sources or targets, and a node goes only
where :mod:`ironic_virt.fleet.plans.conditions` lets it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ironic_virt.baremetal.states import AVAILABLE
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.options import ServiceOptions
from ironic_virt.fleet.plans import conditions
from ironic_virt.fleet.plans.plan import Assumed, Change, Cloud, Plan, PlanRefused
from ironic_virt.sharding.selector import same_shard


def keep(deployment: Deployment, *, accepted: Collection[str] = (), new: bool = False) -> Plan:
    """Each node of the named services gets the shard of its service: no record moves.

    :param new: whether nodes without a record go to the service with the fewest nodes.
    """
    known, nodes = deployment.options, deployment.nodes
    placed: dict[str, tuple[str | None, str]] = {
        uuid: (host, host)
        for uuid, host in deployment.owner_of.items()
        if host in known and uuid in nodes and not conditions.is_strange(deployment, nodes[uuid])
    }
    for uuid, (_, host) in placed.items():
        if reason := conditions.why_not_in_group(deployment, nodes[uuid], host):
            raise PlanRefused(f"{reason}; ironic-virt-fleet check suggests a fix")
    if new:
        placed |= _deal_nodes(deployment, _list_new_nodes(deployment), sorted(known), accepted)
    return _make_plan(deployment, "keep", placed, accepted)


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
    """Each node goes to the target with the fewest nodes; else :class:`PlanRefused`.

    :param accepted: codes of findings, and names of zones and aggregates that may differ.
    :param number: the most nodes that move; those without a server go first.
    :param new: whether nodes without a record may be among them.
    """
    if strange := sorted(set(nodes) - deployment.nodes.keys()):
        raise PlanRefused(f"Ironic has no node {', '.join(strange)}")
    known = deployment.owner_of
    movable = known.keys() | set(_list_new_nodes(deployment) if new else ())
    chosen = [
        uuid
        for uuid in sorted(nodes, key=lambda uuid: (uuid in deployment.servers_by_place, uuid))
        if uuid in movable and not conditions.is_strange(deployment, deployment.nodes[uuid])
    ]
    if not chosen:
        raise PlanRefused("none of these nodes has a record that can be moved")
    owners = {host for uuid in chosen for host in _hosts_having(deployment, uuid)}
    for host in sorted(owners - deployment.options.keys()):
        raise PlanRefused(
            f"some nodes are with {host}, which was not named; give its file with --service-conf "
            f"{host}=<file>"
        )
    placed = _deal_nodes(deployment, chosen, targets, accepted, number)
    loads = Counter(host for uuid, host in known.items() if uuid not in placed)
    for host in sorted({*targets, *owners}):
        if (host in targets or loads[host] > 0) and not deployment.options[host].shard:
            raise PlanRefused(
                f"{host} would have nodes, but its file sets no shard; first give each service a "
                "shard: ironic-virt-fleet plan shards"
            )
    return _make_plan(deployment, strategy, placed, accepted)


def drain(deployment: Deployment, host: str, targets: Sequence[str], **more: Any) -> Plan:
    """All nodes of a service go to others, by :func:`move`; nothing else moves."""
    if not (nodes := nodes_of(deployment, host)):
        raise PlanRefused(f"{host} has no nodes")
    if not targets or host in targets:
        raise PlanRefused(f"only other services can take the nodes of {host}; name them with --to")
    return move(deployment, nodes, targets, strategy=f"drain {host}", **more)


def nodes_of(deployment: Deployment, host: str) -> list[str]:
    """The nodes that a service has a record of."""
    return [uuid for uuid in deployment.nodes if deployment.owner_of.get(uuid) == host]


def shard_of(options: ServiceOptions) -> str:
    """The shard of a service: what its file says, or its name."""
    return options.shard or options.host


def _list_new_nodes(deployment: Deployment) -> list[str]:
    """Free nodes that no service has a record of or in a pool, and no other cloud claims."""
    if not deployment.whole:
        return []
    shards = [shard_of(options) for options in deployment.options.values()]
    return [
        node.uuid
        for node in deployment.nodes.values()
        if node.uuid not in deployment.owner_of
        and node.instance_uuid is None
        and node.provision_state == AVAILABLE
        and not deployment.is_in_pool(node)
        and (node.shard is None or any(same_shard(node.shard, shard) for shard in shards))
    ]


def _hosts_having(deployment: Deployment, node: str) -> list[str]:
    """The hosts of a node's record and of its server: two, if only one of them has moved."""
    rows = deployment.node_records.get(node), *deployment.servers_by_place.get(node, ())
    return [row.host for row in rows if row is not None and row.host is not None]


def _deal_nodes(
    deployment: Deployment,
    nodes: Iterable[str],
    targets: Sequence[str],
    accepted: Collection[str],
    number: int | None = None,
) -> dict[str, tuple[str | None, str]]:
    """Return each node's former and new service."""
    for host in targets:
        if reason := conditions.why_unfit(deployment, host):
            raise PlanRefused(reason)
    loads = Counter(deployment.owner_of.values())
    places = {server.uuid: server.host or "" for server in deployment.live_servers}
    before = dict(places)
    placed: dict[str, tuple[str | None, str]] = {}
    for uuid in nodes:
        if number is not None and len(placed) >= number:
            break
        owners, node = _hosts_having(deployment, uuid), deployment.nodes[uuid]
        # The server follows a record that is there already.
        possible = owners[:1] if deployment.owner_of.get(uuid) in targets else targets
        if set(owners) == set(possible):
            continue
        reasons = {
            host: conditions.why_not_there(deployment, node, host, places, accepted)
            for host in possible
        }
        if not (able := [host for host in possible if reasons[host] is None]):
            reason = "; ".join(filter(None, reasons.values()))
            raise PlanRefused(f"node {conditions.named(node)}: {reason}")
        host = min(able, key=lambda host: (loads[host], host))
        placed[uuid] = next((owner for owner in owners if owner != host), None), host
        loads[host] += 1
        places |= {server.uuid: host for server in deployment.servers_by_place.get(uuid, ())}
    moved = [uuid for uuid, host in places.items() if before[uuid] != host]
    for group in deployment.hosts.torn(moved, before, places):
        raise PlanRefused(f"the members of server group {group.uuid} would be separated")
    return placed


def _make_plan(
    deployment: Deployment, strategy: str, placed: Mapping[str, Any], accepted: Collection[str]
) -> Plan:
    """Make the plan, if ``check`` finds nothing on what it touches."""
    changes = []
    for uuid, hosts in sorted(placed.items()):
        change = Change(
            uuid,
            (deployment.nodes[uuid].shard, shard_of(deployment.options[hosts[1]])),
            hosts,
            next((server.uuid for server in deployment.servers_by_place.get(uuid, ())), None),
        )
        changes += [change] if change.is_needed else []
    touched = {host for change in changes for host in change.host if host is not None}
    for host in filter(deployment.is_in_two_cells, sorted(touched)):
        raise PlanRefused(f"{host} is in two cells; name its own with --cell")
    assumed = {
        host: Assumed(
            shard_of(options), options.conductor_group, options.number("report_interval", 0)
        )
        for host, options in sorted(deployment.options.items())
    }
    for host, other in itertools.product(sorted(touched), assumed):
        if host != other and _have_overlap(assumed[host], assumed[other]):
            raise PlanRefused(f"two services have shard {assumed[host].shard}: {host} and {other}")
    plan = Plan(
        strategy,
        deployment.read_at,
        {host: service for host, service in assumed.items() if host in touched},
        changes,
        Cloud(sorted(deployment.cells), *deployment.cloud),
        tuple(sorted(accepted)),
    )
    conditions.refuse_findings(deployment, plan)
    return plan


def _have_overlap(one: Assumed, other: Assumed) -> bool:
    """Whether two services may be for the same node."""
    groups = {a.conductor_group and a.conductor_group.lower() for a in (one, other)}
    return same_shard(one.shard, other.shard) and (None in groups or len(groups) == 1)
