# SPDX-License-Identifier: Apache-2.0

"""What has to be so before a node may go to a service: pure functions of a deployment."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ironic_virt.baremetal.node import Node
from ironic_virt.fleet import checks
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.findings import Finding
from ironic_virt.fleet.plans.plan import Cloud, Plan, PlanRefused

_FEW = 3
_NEVER = frozenset({"node-in-two-records", "two-servers-on-a-node"})
"""Of which nobody can say that it doesn't matter."""
_SOURCE = frozenset({"service-down", "service-disabled"})
"""What a service may be that only gives nodes away."""
_NEW = frozenset({"node-without-record", "node-in-no-target-set"})
"""What a node without a record is found for."""
_HALF_WAY = {
    *("host-differs", "node-outside-its-service"),
    *("node-in-no-target-set", "node-in-two-target-sets"),
}
"""What a node is until the plan is carried out; the look at each tells it from other things."""


def identity(deployment: Deployment) -> Cloud:
    """Which deployment it is."""
    return Cloud(sorted(deployment.cells), *deployment.cloud)


def why_unfit(deployment: Deployment, host: str) -> str | None:
    """Why a service can't be given nodes; ``None``: it can."""
    service, mapped = deployment.service_of.get(host), deployment.hosts.cells
    if service is None:
        return f"there is no nova-compute on {host}"
    if service.forced_down:
        return f"{host} is forced down; start it, and set it up again"
    if not service.up and not service.is_silent:
        return f"{host} is down; start it"
    if service.disabled:
        return f"{host} is disabled; enable it, or nothing is scheduled to its nodes"
    if mapped.get(host) != service.cell:
        return f"{host} is not mapped to its cell: nova-manage cell_v2 discover_hosts --by-service"
    if host not in deployment.options:
        return f"{host} was not named; give its file with --service-conf {host}=<file>"
    if not deployment.options[host].picks_nodes or any(
        record.host == host for record in deployment.pool_records
    ):
        return f"{host} reports pools and not nodes: ironic-virt-fleet pools leave {host}"
    return None


def why_not_in_group(deployment: Deployment, node: Node, host: str) -> str | None:
    """Why a node's conductor group keeps it from a service; ``None``: it doesn't."""
    wanted, group = deployment.options[host].conductor_group, node.conductor_group or ""
    if wanted is None or wanted.lower() == group.lower():
        return None
    return f"node {node.uuid} is in conductor group {group!r}, {host} serves {wanted!r}"


def is_strange(deployment: Deployment, node: Node) -> bool:
    """Whether a node carries an instance that this Nova does not know, so that it is another's."""
    return node.instance_uuid is not None and node.instance_uuid not in deployment.servers


def why_not_there(
    deployment: Deployment,
    node: Node,
    host: str,
    places: Mapping[str, str],
    accepted: Collection[str],
) -> str | None:
    """Why a node can't go to a service that is fit; ``None``: it can.

    :param places: the hosts of servers when its turn comes.
    :param accepted: names of zones and aggregates that may differ.
    """
    if why := why_not_in_group(deployment, node, host):
        return why
    record = deployment.node_records.get(node.uuid)
    if record is None:
        return None
    if deployment.service_of[host].cell != record.cell:
        return f"{host} is in another cell, whose database its record can't go to"
    if why := deployment.hosts.why_apart(record.host, host, accepted):
        return why
    on_it = deployment.servers_by_place.get(node.uuid, ())
    crowded = (deployment.hosts.why_crowded(one.uuid, host, places) for one in on_it)
    return next(filter(None, crowded), None)


def findings(deployment: Deployment, plan: Plan, *, half_way: bool = False) -> list[Finding]:
    """What the doctor finds on what a plan touches, and nobody has accepted.

    :param half_way: whether nodes may be as a move leaves them that was cut off.
    """
    nodes: set[str] = set()
    for change in plan.changes:
        nodes |= {change.node, change.server or change.node}
    sources = {change.host[0] for change in plan.moved} - {change.host[1] for change in plan.moved}
    new = {change.node for change in plan.changes if change.host[0] is None}

    def matters(found: Finding) -> bool:
        code, about = found.code, found.about
        accepted = code in plan.accepted and code not in _NEVER
        if code == "server-in-another-zone":
            # The zone of the target that was accepted.
            accepted |= deployment.hosts.zone(found.facts["host"]) in plan.accepted
        if accepted or (about in new and code in _NEW):
            return False
        if about in plan.services:
            return code not in _SOURCE or about not in sources
        return bool(nodes & {about, *found.facts.values()}) and not (
            half_way and code in _HALF_WAY
        )

    return [found for found in checks.run(deployment) if matters(found)]


def refuse_findings(deployment: Deployment, plan: Plan) -> None:
    """Raise :class:`PlanRefused` if anything is wrong with what a plan touches."""
    if strange := findings(deployment, plan):
        shown = "; ".join(map(str, strange[:_FEW]))
        more = f"; and {len(strange) - _FEW} more" if len(strange) > _FEW else ""
        raise PlanRefused(
            f"something is wrong with what this would touch: {shown}{more}. ironic-virt-fleet "
            "check says what mends it; --accept <code> if it doesn't matter"
        )
