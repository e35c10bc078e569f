# SPDX-License-Identifier: Apache-2.0

"""Checks of services, their options, versions and clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ironic_virt.fleet.deployment import Deployment, Lease, Service
from ironic_virt.fleet.findings import ERROR, WARNING, Problems, Table, each
from ironic_virt.fleet.options import DEPRECATED, ServiceOptions

CLOCKS_MAY_DIFFER = 5.0
"""Seconds."""
REFRESH_MAY_TAKE = 300
"""Seconds from one period of Nova's to the next."""
_MANY_REPORTS, _OFTEN = 100, 0.75
_BUILDS, _FEW_BUILDS = 10, 0.1
"""Nova's default, and the part of its nodes that a service should build at a time."""


def _services(fleet: Deployment) -> Iterable[tuple[str, Service]]:
    return ((service.host, service) for service in fleet.bare_metal_services)


def _options(fleet: Deployment) -> list[tuple[str, ServiceOptions]]:
    return sorted(fleet.options.items())


def _leases(fleet: Deployment) -> list[tuple[str, Lease]]:
    return sorted(fleet.leases.items())


def _down(fleet: Deployment) -> Problems:
    nodes = Counter(record.host for record in fleet.records)
    servers = Counter(server.host for server in fleet.live_servers)
    for host, count in sorted(nodes.items()):
        service = fleet.service_of.get(host)
        if service is None:
            why = "there is no service of this name"
        elif service.up or service.is_silent:
            continue
        else:
            why = "it is forced down" if service.forced_down else "it is down"
        yield host, f"{why}, and has {count} compute nodes and {servers[host]} servers"


def _reports_twice(fleet: Deployment, service: Service) -> str | None:
    options = fleet.options.get(service.host)
    told = options.number("report_interval", 0) if options is not None else 0
    if service.reports < _MANY_REPORTS or not 0 < service.interval < _OFTEN * told:
        return None
    return f"it has reported each {service.interval:.1f} s, its report_interval is {told} s"


def _disabled(fleet: Deployment, service: Service) -> str | None:
    count = sum(record.host == service.host for record in fleet.records if service.disabled)
    return f"it is disabled, and has {count} compute nodes" if count else None


def _not_mapped(fleet: Deployment, service: Service) -> str | None:
    cell = fleet.hosts.cells.get(service.host)
    return None if cell == service.cell else f"it is mapped to {cell or 'no cell'}"


def _builds_too_few(fleet: Deployment) -> Problems:
    limits = {
        host: options.number("max_concurrent_builds", _BUILDS)
        for host, options in _options(fleet)
        if not options.picks_nodes
    }
    for host, limit in limits.items():
        nodes = sum(map(fleet.options[host].serves, fleet.nodes.values()))
        if 0 < limit < nodes * _FEW_BUILDS:
            yield (
                host,
                f"it builds {limit} servers at a time, and has {nodes} nodes; all services with "
                f"pools build {sum(limits.values())}",
            )


def _peer_unknown(fleet: Deployment, options: ServiceOptions) -> str | None:
    known = {host.lower() for host in fleet.service_of}
    missing = [name for name in options.peers if name.lower() not in known]
    return f"its peer_list names {', '.join(missing)}, which has no service" if missing else None


def _option_unknown(fleet: Deployment) -> Problems:
    for host, options in _options(fleet):
        for name in options.unknown_names(fleet.novas_options):
            yield host, f"[ironic] {name} is no option", {"option": name}


def _option_deprecated(fleet: Deployment) -> Problems:
    for host, options in _options(fleet):
        for name, instead in DEPRECATED.items():
            if options.written.get(name):
                yield host, f"[ironic] {name} is deprecated", {"instead": instead}


def _refresh_rare(_: Deployment, options: ServiceOptions) -> str | None:
    interval = options.number("update_resources_interval", 0)
    # Only where just the nodes that may have changed are looked at, each minute costs little.
    looks_at_all = options.is_in_tree or options.written.get("node_refresh") == "all"
    is_rare = interval > REFRESH_MAY_TAKE and not looks_at_all
    return f"it looks for changes every {interval} s" if is_rare else None


def _too_old(fleet: Deployment) -> Problems:
    for part in fleet.components:
        if part.is_too_old:
            yield part.name, f"it is {part.version}, the oldest that works is {part.oldest}"


def _clock_apart(fleet: Deployment) -> Problems:
    for name, ahead in fleet.clocks_ahead:
        if abs(ahead) > CLOCKS_MAY_DIFFER:
            way = "ahead of" if ahead > 0 else "behind"
            yield name, f"its clock is {abs(ahead):.0f} s {way} this machine's"
    for service in fleet.bare_metal_services:
        if service.last_seen is not None:
            ahead = (service.last_seen - fleet.read_at).total_seconds()
            if ahead > CLOCKS_MAY_DIFFER:
                yield service.host, f"it has reported {ahead:.0f} s from now"


CHECKS: Table = {
    "service-down": (
        ERROR,
        "start nova-compute on {about}; or move its nodes: ironic-virt-fleet plan drain {about}",
        _down,
    ),
    "service-never-reports": (
        WARNING,
        "look whether nova-compute runs on {about}",
        each(_services, lambda _, one: "it has never reported" if one.is_silent else None),
    ),
    "service-reports-twice": (
        WARNING,
        "look for a second nova-compute with host = {about}, and stop it",
        each(_services, _reports_twice),
    ),
    "service-disabled": (
        WARNING,
        "openstack compute service set --enable {about} nova-compute",
        each(_services, _disabled),
    ),
    "host-not-mapped": (
        ERROR,
        "nova-manage cell_v2 discover_hosts --by-service",
        each(_services, _not_mapped),
    ),
    "builds-too-few": (
        WARNING,
        "raise [DEFAULT] max_concurrent_builds of {about}; all services together should not have "
        "more than Ironic deploys at a time: [conductor] max_concurrent_deploy for each conductor",
        _builds_too_few,
    ),
    "lease-of-nobody": (
        ERROR,
        "start nova-compute with host = {about} on one machine or several; the log of each says "
        "why it does not get the lease",
        each(_leases, lambda _, one: "no process holds its lease" if one.is_free else None),
    ),
    "lease-untold": (
        WARNING,
        "see to the backend in [ironic] standby_backend_url of {about}, and to the way to it",
        each(_leases, lambda _, one: one.untold and f"its lease can't be read: {one.untold}"),
    ),
    "peer-unknown": (
        ERROR,
        "correct [ironic] peer_list on {about}; better: ironic-virt-fleet plan shards",
        each(_options, _peer_unknown),
    ),
    "option-unknown": (
        WARNING,
        "correct or remove [ironic] {option} in the file of {about}",
        _option_unknown,
    ),
    "option-deprecated": (WARNING, "on {about}: {instead}", _option_deprecated),
    "refresh-rare": (
        WARNING,
        "remove [DEFAULT] update_resources_interval in the file of {about}",
        each(_options, _refresh_rare),
    ),
    "version-too-old": (ERROR, "upgrade {about}", _too_old),
    "clock-apart": (WARNING, "set the clock of {about}, by chrony or ntpd", _clock_apart),
}
