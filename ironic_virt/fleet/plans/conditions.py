# SPDX-License-Identifier: Apache-2.0

"""When a node may go to a service: pure functions of a deployment."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ironic_virt.baremetal.node import Node
from ironic_virt.fleet import checks
from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.findings import Finding
from ironic_virt.fleet.plans.plan import Plan, PlanRefused

_FEW = 3
_NEVER = frozenset({"node-in-two-records", "two-servers-on-a-node"})
"""Findings that can't be accepted."""
_HARMLESS = frozenset({"node-without-domain", "zone-incomplete"})
"""Findings that no move makes worse."""
_SOURCE = frozenset({"service-down", "service-disabled"})
"""Findings that don't matter for a service that only gives nodes away."""
_NEW = frozenset({"node-without-record", "node-in-no-target-set"})
"""Findings that every node without a record has."""
_HALF_WAY = {
    *("host-differs", "node-outside-its-service"),
    *("node-in-no-target-set", "node-in-two-target-sets"),
}
"""Findings to expect after an interruption; ``apply`` looks at each such node itself."""


def why_unfit(deployment: Deployment, host: str) -> str | None:
    """Why a service can't get nodes; ``None``: it can."""
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
    if not deployment.options[host].picks_nodes or host in deployment.pools_by_host:
        return f"{host} reports pools instead of nodes; first ironic-virt-fleet pools leave {host}"
    return None


def why_not_in_group(deployment: Deployment, node: Node, host: str) -> str | None:
    """Why a node's conductor group keeps it from a service; ``None``: it doesn't."""
    served, group = deployment.options[host].conductor_group, node.conductor_group or ""
    if served is None or served.lower() == group.lower():
        return None
    return f"node {named(node)} is in conductor group {group!r}, but {host} serves {served!r}"


def named(node: Node) -> str:
    """A node's UUID, with its name if it has one."""
    return f"{node.uuid} ({node.name})" if node.name else node.uuid


def is_strange(deployment: Deployment, node: Node) -> bool:
    """Whether a node carries an instance that this Nova does not know, so belongs to another."""
    return node.instance_uuid is not None and node.instance_uuid not in deployment.servers


def why_not_there(
    deployment: Deployment,
    node: Node,
    host: str,
    places: Mapping[str, str],
    accepted: Collection[str],
) -> str | None:
    """Why a node can't go to a service; ``places`` are the hosts that servers have by then."""
    if why := why_not_in_group(deployment, node, host):
        return why
    record = deployment.node_records.get(node.uuid)
    if record is None:
        return None
    if deployment.service_of[host].cell != record.cell:
        return f"{host} is in another cell, and records can't move between cells"
    if why := deployment.hosts.why_apart(record.host, host, accepted):
        return why
    servers = deployment.servers_by_place.get(node.uuid, ())
    reasons = (deployment.hosts.why_crowded(server.uuid, host, places) for server in servers)
    return next(filter(None, reasons), None)


def findings(deployment: Deployment, plan: Plan, *, half_way: bool = False) -> list[Finding]:
    """The doctor's findings on what a plan touches, except for accepted ones.

    :param half_way: leave out findings that are only there because the plan was interrupted.
    """
    nodes = {uuid for change in plan.changes for uuid in (change.node, change.server) if uuid}
    sources = {change.host[0] for change in plan.moved} - {change.host[1] for change in plan.moved}
    new = {change.node for change in plan.changes if change.host[0] is None}
    ignored = _HARMLESS | _HALF_WAY if half_way else _HARMLESS

    def matters(finding: Finding) -> bool:
        code, about = finding.code, finding.about
        accepted = code in ignored or (code in plan.accepted and code not in _NEVER)
        if code == "server-in-another-zone":
            # The zone of the target was accepted.
            accepted |= deployment.hosts.zone(finding.facts["host"]) in plan.accepted
        if accepted or (about in new and code in _NEW):
            return False
        if about in plan.services:
            return code not in _SOURCE or about not in sources
        return bool(nodes & {about, *finding.facts.values()})

    return [finding for finding in checks.run(deployment) if matters(finding)]


def refuse_findings(deployment: Deployment, plan: Plan) -> None:
    """Raise :class:`PlanRefused` if anything is wrong with what a plan touches."""
    if strange := findings(deployment, plan):
        shown = "; ".join(map(str, strange[:_FEW]))
        more = f"; and {len(strange) - _FEW} more" if len(strange) > _FEW else ""
        raise PlanRefused(
            f"check finds problems on what this would touch: {shown}{more}. ironic-virt-fleet "
            "check suggests fixes; --accept <code> if one doesn't matter"
        )
