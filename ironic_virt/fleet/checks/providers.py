# SPDX-License-Identifier: Apache-2.0

"""Checks of Placement's providers and of what is allocated from them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from ironic_virt.driver.pools import names
from ironic_virt.fleet.deployment import Deployment, Server, is_pool
from ironic_virt.fleet.findings import Finding, Found, Severity, check
from ironic_virt.fleet.providers import Provider
from ironic_virt.request.spec import CUSTOM, placement_class

_DELETE = "openstack resource provider delete {about}"


def provider_of(deployment: Deployment, server: Server) -> str | None:
    """The uuid of the provider that a server's allocation should be from."""
    records = deployment.records_by_name.get(server.node or "")
    return records[0].uuid if records else None


def _is_bare_metal(provider: Provider) -> bool:
    """Whether a provider looks like one of a node or a pool, by its name alone."""
    if provider.parent is not None:
        return False
    return _is_uuid(provider.name) or is_pool(provider.name, provider.uuid)


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


@check(
    "provider-missing",
    Severity.ERROR,
    meaning="A compute node record has no resource provider: nothing is scheduled to it.",
    mend="restart nova-compute on {host}: it makes the provider at its next refresh",
    provoke="delete a node's resource provider while its service is down",
)
def provider_missing(deployment: Deployment, found: Found) -> Iterator[Finding]:
    names = {provider.name for provider in deployment.placement.providers.values()}
    for record in deployment.records:
        if record.uuid not in deployment.placement.providers and record.name not in names:
            yield found(record.name, "Placement has no provider of it", host=record.host)


@check(
    "provider-uuid-wrong",
    Severity.ERROR,
    meaning="The provider of that name has another uuid than the compute node record: Nova "
    "can't make the right one, and reports nothing of the node.",
    mend=f"{_DELETE} (once nothing is allocated from it)",
    provoke="delete a node's provider and create one of the same name",
)
def provider_uuid_wrong(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for provider in deployment.placement.providers.values():
        records = deployment.records_by_name.get(provider.name, ())
        if records and all(record.uuid != provider.uuid for record in records):
            yield found(
                provider.uuid, f"it is named {provider.name}, whose record is {records[0].uuid}"
            )


@check(
    "provider-name-wrong",
    Severity.WARNING,
    meaning="The provider with the record's uuid has another name.",
    mend="openstack resource provider set --name {name} {about}",
    provoke="rename a node's resource provider",
)
def provider_name_wrong(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for record in deployment.records:
        provider = deployment.placement.providers.get(record.uuid)
        if provider is not None and provider.name != record.name:
            yield found(record.uuid, f"it is named {provider.name}", name=record.name)


@check(
    "provider-parent-wrong",
    Severity.ERROR,
    meaning="The provider of a node or pool is below another one, so that Nova takes it for a "
    "part of that.",
    mend="openstack resource provider delete {about} (once nothing is allocated from it); its "
    "service makes it again",
    provoke="give a node's resource provider a parent",
)
def provider_parent_wrong(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for record in deployment.records:
        provider = deployment.placement.providers.get(record.uuid)
        if provider is not None and provider.parent is not None:
            yield found(record.uuid, f"it is below {provider.parent}")


@check(
    "provider-of-nobody",
    Severity.WARNING,
    meaning="The provider looks like one of a node or pool, and no record has its name or uuid. "
    "What it offers, servers are scheduled to in vain.",
    mend=f"{_DELETE} (once nothing is allocated from it)",
    provoke="create a resource provider whose name is a uuid",
)
def provider_of_nobody(deployment: Deployment, found: Found) -> Iterator[Finding]:
    if not deployment.whole:
        return
    recorded = {record.uuid for record in deployment.records}
    for provider in deployment.placement.providers.values():
        if provider.uuid in recorded or provider.name in deployment.records_by_name:
            continue
        if _is_bare_metal(provider):
            offered = ", ".join(sorted(deployment.placement.offers(provider.uuid)))
            yield found(
                provider.uuid,
                f"it is named {provider.name}, offers {offered or 'nothing'}, and is nobody's",
            )


@check(
    "allocation-of-nobody",
    Severity.ERROR,
    meaning="Somebody's allocation is left who is gone: the node counts as taken for ever.",
    mend="ironic-virt-fleet check --fix allocation-of-nobody --apply; or: openstack resource "
    "provider allocation delete {consumer}",
    provoke="create an allocation for a consumer that is no server",
)
def allocation_of_nobody(deployment: Deployment, found: Found) -> Iterator[Finding]:
    if not deployment.whole:
        return
    for provider, consumers in deployment.placement.allocations.items():
        for consumer in consumers:
            server = deployment.servers.get(consumer)
            if server is None and consumer in deployment.consumers:
                continue
            if server is None or server.deleted:
                what = "deleted" if server is not None else "unknown to Nova"
                yield found(
                    provider,
                    f"{consumer} has an allocation from it, and is {what}",
                    consumer=consumer,
                )


@check(
    "allocation-elsewhere",
    Severity.ERROR,
    meaning="A server has an allocation from a provider that is not that of its node.",
    mend="ironic-virt-fleet check --fix allocation-elsewhere --apply",
    provoke="give a server an allocation from another node's provider",
)
def allocation_elsewhere(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for provider, consumers in deployment.placement.allocations.items():
        for consumer in consumers:
            server = deployment.servers.get(consumer)
            if server is None or not server.is_on_a_node:
                continue
            right = provider_of(deployment, server)
            if right is not None and right != provider:
                yield found(
                    provider,
                    f"server {consumer} has an allocation from it, and is on {server.node}",
                    server=consumer,
                    provider=right,
                )


@check(
    "allocation-missing",
    Severity.ERROR,
    meaning="A server has no allocation from its node's provider: Placement may offer the node "
    "to somebody else.",
    mend="ironic-virt-fleet check --fix allocation-missing --apply",
    provoke="delete a server's allocation",
)
def allocation_missing(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for server in deployment.live_servers:
        if not server.is_on_a_node or server.host not in deployment.bare_metal_hosts:
            continue
        provider = provider_of(deployment, server)
        if provider is None or provider not in deployment.placement.providers:
            continue
        if server.uuid not in deployment.placement.allocations.get(provider, {}):
            yield found(
                server.uuid,
                f"it has no allocation from {server.node}",
                server=server.uuid,
                provider=provider,
            )


@check(
    "resource-class-renamed",
    Severity.ERROR,
    meaning="A server's allocation is of another resource class than its node has now: the "
    "class was renamed in Ironic, or by an upgrade of the driver. Until the server is deleted, "
    "Placement refuses what nova-compute reports of the node (InventoryInUse in its log).",
    mend="openstack resource provider allocation delete {server}; after nova-compute's next "
    "refresh: ironic-virt-fleet check --fix allocation-missing --apply",
    provoke="change the resource class of a node with a server",
)
def resource_class_renamed(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for provider, consumers in deployment.placement.allocations.items():
        for consumer, resources in consumers.items():
            server = deployment.servers.get(consumer)
            if server is None or not server.is_on_a_node:
                continue
            node = deployment.nodes.get(server.node or "")
            name = node.resource_class if node else _class_of_pool(server)
            former = sorted(one for one in resources if one.startswith(CUSTOM))
            if name and former and former != [placement_class(name)]:
                yield found(
                    provider,
                    f"server {consumer} has {', '.join(former)} of it, and its resource class is "
                    f"{placement_class(name)}",
                    server=consumer,
                )


def _class_of_pool(server: Server) -> str | None:
    return names.class_of(server.node or "", server.host or "")
