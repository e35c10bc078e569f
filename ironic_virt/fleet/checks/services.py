# SPDX-License-Identifier: Apache-2.0

"""Checks of services, their options, versions and clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ironic_virt.fleet.deployment import Deployment
from ironic_virt.fleet.findings import Finding, Found, Severity, check
from ironic_virt.fleet.options import DEPRECATED

CLOCKS_MAY_DIFFER = 5.0
"""Seconds."""
REFRESH_MAY_TAKE = 300
"""Seconds from one period of Nova's to the next."""
_MANY_REPORTS, _OFTEN = 100, 0.75
_BUILDS, _FEW_BUILDS = 10, 0.1
"""Nova's default, and the part of its nodes that a service should build at a time."""


@check(
    "service-down",
    Severity.ERROR,
    meaning="A service that has nodes is down, or there is none of that name any more: its nodes "
    "and servers can't be used.",
    mend="start nova-compute on {about}; or move its nodes: ironic-virt-fleet plan drain {about}",
    provoke="stop a service that has nodes",
)
def service_down(deployment: Deployment, found: Found) -> Iterator[Finding]:
    nodes = Counter(record.host for record in deployment.records)
    servers = Counter(server.host for server in deployment.live_servers)
    for host, count in sorted(nodes.items()):
        service = deployment.service_of.get(host)
        if service is not None and (service.up or service.is_silent):
            continue
        why = "there is no service of this name" if service is None else "it is down"
        if service is not None and service.forced_down:
            why = "it is forced down"
        yield found(host, f"{why}, and has {count} compute nodes and {servers[host]} servers")


@check(
    "service-never-reports",
    Severity.WARNING,
    meaning="Nova's database has no report of the service, as where servicegroup_driver is not "
    "db: whether it runs can't be told from here.",
    mend="look whether nova-compute runs on {about}",
    provoke="start a service with [DEFAULT] servicegroup_driver = mc",
)
def service_never_reports(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for service in deployment.bare_metal_services:
        if service.is_silent:
            yield found(service.host, "it has never reported")


@check(
    "service-reports-twice",
    Severity.WARNING,
    meaning="The service has reported far more often than its file says: two processes may have "
    "the same host, and both act on its nodes; or report_interval was raised.",
    mend="look for a second nova-compute with host = {about}, and stop it",
    provoke="start nova-compute with the same host on a second machine",
)
def service_reports_twice(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for service in deployment.bare_metal_services:
        options = deployment.options.get(service.host)
        told = options.number("report_interval", 0) if options is not None else 0
        if service.reports >= _MANY_REPORTS and 0 < service.interval < _OFTEN * told:
            yield found(
                service.host,
                f"it has reported each {service.interval:.1f} s, its report_interval is {told} s",
            )


@check(
    "service-disabled",
    Severity.WARNING,
    meaning="A service that has nodes is disabled: nothing is scheduled to them.",
    mend="openstack compute service set --enable {about} nova-compute",
    provoke="disable a service that has nodes",
)
def service_disabled(deployment: Deployment, found: Found) -> Iterator[Finding]:
    nodes = Counter(record.host for record in deployment.records)
    for service in deployment.bare_metal_services:
        if service.disabled and nodes[service.host]:
            yield found(
                service.host, f"it is disabled, and has {nodes[service.host]} compute nodes"
            )


@check(
    "host-not-mapped",
    Severity.ERROR,
    meaning="Nova's API database has no mapping of the host to its cell: builds for its nodes end "
    "in cell0.",
    mend="nova-manage cell_v2 discover_hosts --by-service",
    provoke="delete a host's mapping: nova-manage cell_v2 delete_host",
)
def host_not_mapped(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for service in deployment.bare_metal_services:
        cell = deployment.hosts.cells.get(service.host)
        if cell != service.cell:
            yield found(service.host, f"it is mapped to {cell or 'no cell'}")


@check(
    "builds-too-few",
    Severity.WARNING,
    meaning="A service with pools builds few servers at a time for the nodes that it has: a large "
    "batch waits in it, and not in Ironic.",
    mend="raise [DEFAULT] max_concurrent_builds of {about}; all services together should not have "
    "more than Ironic deploys at a time: [conductor] max_concurrent_deploy for each conductor",
    provoke="have a service with pools, 101 nodes and the default of 10",
)
def builds_too_few(deployment: Deployment, found: Found) -> Iterator[Finding]:
    limits = {
        host: options.number("max_concurrent_builds", _BUILDS)
        for host, options in sorted(deployment.options.items())
        if not options.picks_nodes
    }
    for host, limit in limits.items():
        nodes = sum(map(deployment.options[host].serves, deployment.nodes.values()))
        if 0 < limit < nodes * _FEW_BUILDS:
            yield found(
                host,
                f"it builds {limit} servers at a time, and has {nodes} nodes; all services with "
                f"pools build {sum(limits.values())}",
            )


@check(
    "lease-of-nobody",
    Severity.ERROR,
    meaning="No process of a service with a standby holds its lease: nobody serves its nodes and "
    "servers.",
    mend="start nova-compute with host = {about} on one machine or several; the log of each says "
    "why it does not get the lease",
    provoke="stop all processes of a service that has standby_backend_url",
)
def lease_of_nobody(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for host, lease in sorted(deployment.leases.items()):
        if lease.age is None and not lease.untold:
            yield found(host, "no process holds its lease")


@check(
    "lease-untold",
    Severity.WARNING,
    meaning="The backend of a standby can't be asked from here who is active. If the processes of "
    "the service can't reach it either, they end.",
    mend="see to the backend in [ironic] standby_backend_url of {about}, and to the way to it",
    provoke="stop the backend of a standby",
)
def lease_untold(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for host, lease in sorted(deployment.leases.items()):
        if lease.untold:
            yield found(host, f"its lease can't be read: {lease.untold}")


@check(
    "peer-unknown",
    Severity.ERROR,
    meaning="A peer_list names a host that has no compute service: the hash ring of one service "
    "is not that of the others.",
    mend="correct [ironic] peer_list on {about}; better: ironic-virt-fleet plan shards",
    provoke="name a host in peer_list that never was",
)
def peer_unknown(deployment: Deployment, found: Found) -> Iterator[Finding]:
    known = {host.lower() for host in deployment.service_of}
    for host, options in sorted(deployment.options.items()):
        missing = [name for name in options.peers if name.lower() not in known]
        if missing:
            yield found(host, f"its peer_list names {', '.join(missing)}, which has no service")


@check(
    "option-unknown",
    Severity.WARNING,
    meaning="[ironic] has an option that nobody reads: misspelt, or of another release.",
    mend="correct or remove [ironic] {option} in the file of {about}",
    provoke="misspell an option",
)
def option_unknown(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for host, options in sorted(deployment.options.items()):
        for name in options.unknown_names(deployment.novas_options):
            yield found(host, f"[ironic] {name} is no option", option=name)


@check(
    "option-deprecated",
    Severity.WARNING,
    meaning="[ironic] has an option that goes away.",
    mend="on {about}: {instead}",
    provoke="set peer_list",
)
def option_deprecated(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for host, options in sorted(deployment.options.items()):
        for name, instead in DEPRECATED.items():
            if options.written.get(name):
                yield found(host, f"[ironic] {name} is deprecated", instead=instead)


@check(
    "refresh-rare",
    Severity.WARNING,
    meaning="Nova looks rarely for changes: a node in maintenance, a cleaned node or a new one is "
    "seen late.  Where only nodes that have changed are looked at, each minute costs little.",
    mend="remove [DEFAULT] update_resources_interval in the file of {about}",
    provoke="set update_resources_interval to an hour",
)
def refresh_rare(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for host, options in sorted(deployment.options.items()):
        interval = options.number("update_resources_interval", 0)
        if options.looks_at_changes and interval > REFRESH_MAY_TAKE:
            yield found(host, f"it looks for changes every {interval} s")


@check(
    "version-too-old",
    Severity.ERROR,
    meaning="A part of the deployment is older than what the driver works with.",
    mend="upgrade {about}",
    provoke="run Ironic with an API older than 1.38",
)
def version_too_old(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for part in deployment.components:
        if part.is_too_old:
            yield found(part.name, f"it is {part.version}, the oldest that works is {part.oldest}")


@check(
    "clock-apart",
    Severity.WARNING,
    meaning="Two clocks differ by more than 5 s: services may seem to be down, and what has "
    "changed is found late.",
    mend="set the clock of {about}, by chrony or ntpd",
    provoke="set a clock back",
)
def clock_apart(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for part in deployment.components:
        ahead = part.seconds_ahead
        if ahead is not None and abs(ahead) > CLOCKS_MAY_DIFFER:
            way = "ahead of" if ahead > 0 else "behind"
            yield found(part.name, f"its clock is {abs(ahead):.0f} s {way} this machine's")
    for service in deployment.services:
        if service.last_seen is None or service.host not in deployment.bare_metal_hosts:
            continue
        ahead = (service.last_seen - deployment.read_at).total_seconds()
        if ahead > CLOCKS_MAY_DIFFER:
            yield found(service.host, f"it has reported {ahead:.0f} s from now")
