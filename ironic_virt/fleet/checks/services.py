# SPDX-License-Identifier: Apache-2.0

"""Checks of services, their options, versions and clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ironic_virt.fleet.deployment import Deployment, Service
from ironic_virt.fleet.findings import ERROR, WARNING, Problems, Table, check, each
from ironic_virt.fleet.options import DEPRECATED, ServiceOptions

if TYPE_CHECKING:
    from ironic_virt.standby import Look

CLOCKS_MAY_DIFFER = 5.0
"""Seconds."""
REFRESH_MAY_TAKE = 300
"""Seconds from one period of Nova's to the next."""
_MANY_REPORTS, _OFTEN = 100, 0.75
_BUILDS, _FEW_BUILDS = 10, 0.1
"""Nova's default, and the part of its nodes that a service should build at a time."""
CHECKS: Table = {}


def _list_services(fleet: Deployment) -> Iterable[tuple[str, Service]]:
    hosts = sorted(fleet.service_of.keys() & fleet.bare_metal_hosts)
    return [(host, fleet.service_of[host]) for host in hosts]


def _list_options(fleet: Deployment) -> list[tuple[str, ServiceOptions]]:
    return sorted(fleet.options.items())


def _list_leases(fleet: Deployment) -> list[tuple[str, Look]]:
    return sorted(fleet.leases.items(), key=lambda pair: pair[0])


@check(
    *(CHECKS, "service-down", ERROR),
    "start nova-compute on {about}; or move its nodes: ironic-virt-fleet plan drain {about}",
)
def _find_service_down(fleet: Deployment) -> Problems:
    nodes = Counter(record.host for record in fleet.records)
    servers = Counter(server.host for server in fleet.live_servers)
    for host, count in sorted(nodes.items()):
        service = fleet.service_of.get(host)
        if service is None:
            state = "it does not exist"
        elif service.up or service.is_silent:
            continue
        else:
            state = "it is forced down" if service.forced_down else "it is down"
        yield host, f"{state}, but has {count} compute nodes and {servers[host]} servers"


@check(
    *(CHECKS, "service-never-reports", WARNING),
    "check that nova-compute is running on {about}",
)
@each(_list_services)
def _find_service_never_reports(_: Deployment, service: Service) -> str | None:
    return "it has never reported" if service.is_silent else None


@check(
    *(CHECKS, "service-reports-twice", WARNING),
    "look for a second nova-compute with host = {about}, and stop it",
)
@each(_list_services)
def _find_service_reports_twice(fleet: Deployment, service: Service) -> str | None:
    options = fleet.options.get(service.host)
    seconds = options.number("report_interval", 0) if options is not None else 0
    if service.reports < _MANY_REPORTS or not 0 < service.interval < _OFTEN * seconds:
        return None
    return f"it reports every {service.interval:.1f} s, but its report_interval is {seconds} s"


@check(
    *(CHECKS, "service-disabled", WARNING),
    "openstack compute service set --enable {about} nova-compute",
)
@each(_list_services)
def _find_service_disabled(fleet: Deployment, service: Service) -> str | None:
    count = sum(record.host == service.host for record in fleet.records if service.disabled)
    return f"it is disabled, but has {count} compute nodes" if count else None


@check(CHECKS, "host-not-mapped", ERROR, "nova-manage cell_v2 discover_hosts --by-service")
@each(_list_services)
def _find_host_not_mapped(fleet: Deployment, service: Service) -> str | None:
    cell = fleet.hosts.cells.get(service.host)
    return None if cell == service.cell else f"it is mapped to {cell or 'no cell'}"


@check(
    *(CHECKS, "builds-too-few", WARNING),
    "raise [DEFAULT] max_concurrent_builds on {about}; all services together should not have more "
    "than Ironic deploys at a time: [conductor] max_concurrent_deploy for each conductor",
)
def _find_builds_too_few(fleet: Deployment) -> Problems:
    limits = {
        host: options.number("max_concurrent_builds", _BUILDS)
        for host, options in _list_options(fleet)
        if not options.picks_nodes
    }
    for host, limit in limits.items():
        nodes = sum(map(fleet.options[host].serves, fleet.nodes.values()))
        if 0 < limit < nodes * _FEW_BUILDS:
            words = f"it builds {limit} servers at a time for {nodes} nodes"
            yield host, f"{words}; all services with pools together build {sum(limits.values())}"


@check(
    *(CHECKS, "lease-of-nobody", ERROR),
    "start nova-compute with host = {about} on at least one machine; its log says why it can't "
    "get the lease",
)
@each(_list_leases)
def _find_lease_of_nobody(_: Deployment, lease: Look) -> str | None:
    is_free = lease.age is None and not lease.untold
    return "no process holds its lease" if is_free else None


@check(
    *(CHECKS, "lease-bypassed", ERROR),
    "look for a nova-compute with host = {about} that has no [ironic] standby_backend_url, or "
    "another one, and stop it",
)
@each(_list_leases)
def _find_lease_bypassed(_: Deployment, lease: Look) -> str | None:
    return "another process reports without the lease" if lease.foreign_reports else None


@check(
    *(CHECKS, "lease-untold", WARNING),
    "check the backend in [ironic] standby_backend_url of {about}, and the network path to it",
)
@each(_list_leases)
def _find_lease_untold(_: Deployment, lease: Look) -> str | None:
    return lease.untold and f"its lease can't be read: {lease.untold}"


@check(
    *(CHECKS, "peer-unknown", ERROR),
    "correct [ironic] peer_list on {about}; better: ironic-virt-fleet plan shards",
)
@each(_list_options)
def _find_peer_unknown(fleet: Deployment, options: ServiceOptions) -> str | None:
    known = {host.lower() for host in fleet.service_of}
    missing = [name for name in options.peers if name.lower() not in known]
    return f"no service exists for {', '.join(missing)} in its peer_list" if missing else None


@check(
    *(CHECKS, "option-unknown", WARNING),
    "correct or remove [ironic] {option} in the file of {about}",
)
def _find_option_unknown(fleet: Deployment) -> Problems:
    for host, options in _list_options(fleet):
        for name in options.unknown_names(fleet.novas_options):
            yield host, f"[ironic] {name} is an unknown option", {"option": name}


@check(CHECKS, "option-deprecated", WARNING, "on {about}: {instead}")
def _find_option_deprecated(fleet: Deployment) -> Problems:
    for host, options in _list_options(fleet):
        for name, instead in DEPRECATED.items():
            if options.written.get(name):
                yield host, f"[ironic] {name} is deprecated", {"instead": instead}


@check(
    *(CHECKS, "refresh-rare", WARNING),
    "remove [DEFAULT] update_resources_interval from the file of {about}",
)
@each(_list_options)
def _find_refresh_rare(_: Deployment, options: ServiceOptions) -> str | None:
    interval = options.number("update_resources_interval", 0)
    # A look each minute costs little where only changed nodes are looked at.
    looks_at_all = options.is_in_tree or options.written.get("node_refresh") == "all"
    is_rare = interval > REFRESH_MAY_TAKE and not looks_at_all
    return f"it looks for changes only every {interval} s" if is_rare else None


@check(CHECKS, "clock-apart", WARNING, "synchronize the clock of {about} (chrony or ntpd)")
def _find_clock_apart(fleet: Deployment) -> Problems:
    for name, ahead in fleet.clocks.items():
        if abs(ahead) > CLOCKS_MAY_DIFFER:
            way = "ahead of" if ahead > 0 else "behind"
            yield name, f"its clock is {abs(ahead):.0f} s {way} this machine's"
    for host, service in _list_services(fleet):
        if service.last_seen is not None:
            ahead = (service.last_seen - fleet.read_at).total_seconds()
            if ahead > CLOCKS_MAY_DIFFER:
                yield host, f"its last report is from {ahead:.0f} s in the future"
