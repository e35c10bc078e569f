# SPDX-License-Identifier: Apache-2.0

"""Checks of availability zones, and of server groups by failure domain."""

from __future__ import annotations

from ironic_virt.fleet.deployment import Deployment, grouped
from ironic_virt.fleet.findings import ERROR, WARNING, Problems, Table, check

FILTERS = "ironic_virt.nova.server_groups"
"""The module from which the scheduler should take its filters of server groups."""
_SHOWN = 3
CHECKS: Table = {}


@check(
    *(CHECKS, "zone-incomplete", ERROR),
    "restart nova-compute on {about}, which adds them; with Nova's own driver: openstack "
    "resource provider aggregate set",
)
def _find_zone_incomplete(fleet: Deployment) -> Problems:
    for zone in fleet.hosts.aggregates:
        members = fleet.placement.aggregates.get(zone.uuid)
        for host in sorted(zone.hosts & fleet.bare_metal_hosts):
            records = [record for record in fleet.records if record.host == host]
            outside = [
                each.name for each in records if members is not None and each.uuid not in members
            ]
            if outside:
                shown = ", ".join(outside[:_SHOWN]) + ", ..." * (len(outside) > _SHOWN)
                words = f"{len(outside)} of its {len(records)} compute nodes are not in"
                yield host, f"{words} Placement's aggregate for zone {zone.zone}: {shown}"


@check(
    *(CHECKS, "node-without-domain", WARNING),
    "set {rule} on node {about}; until then no strict server group uses it",
)
def _find_node_without_domain(fleet: Deployment) -> Problems:
    by_rule = [options for options in fleet.options.values() if options.failure_domain]
    for node in fleet.nodes.values():
        rules = (options.failure_domain or "" for options in by_rule if options.serves(node))
        if node.failure_domain == "" and (rule := next(rules, None)):
            yield node.uuid, f"it lacks {rule}", {"rule": rule}


@check(
    *(CHECKS, "group-violated", WARNING),
    "create one of the servers again, or shelve and unshelve it if it boots from a volume",
)
def _find_group_violated(fleet: Deployment) -> Problems:
    for group in {group.uuid: group for group in fleet.hosts.groups.values()}.values():
        nodes = {
            uuid: fleet.nodes[fleet.node_of_server[uuid]].failure_domain
            for uuid in sorted(group.members & fleet.node_of_server.keys())
        }
        domains = grouped((domain, uuid) for uuid, domain in nodes.items() if domain)
        if group.most is None and len(domains) > 1:
            words = "its members must be in one failure domain, but are in"
            yield group.uuid, f"{words} {', '.join(sorted(domains))}"
        for domain, servers in sorted(domains.items()):
            if group.most and len(servers) > group.most:
                words = f"failure domain {domain} may have {group.most} of its members"
                yield group.uuid, f"{words}, but has {', '.join(servers)}"


@check(
    *(CHECKS, "group-filters-not-ours", ERROR),
    "in the scheduler's file, set [filter_scheduler] available_filters = ironic_virt.nova."
    "server_groups.all_filters after Nova's, and put {about} into enabled_filters; name that "
    "file with --config-file",
)
def _find_group_filters_not_ours(fleet: Deployment) -> Problems:
    if any(options.failure_domain for options in fleet.options.values()):
        for name, module in fleet.group_filters.items():
            if module != FILTERS:
                use = f"loads it from {module}" if module else "does not use it"
                yield name, f"Nova's scheduler {use}"
