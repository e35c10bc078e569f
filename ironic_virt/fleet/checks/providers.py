# SPDX-License-Identifier: Apache-2.0

"""Checks of Placement's providers and of what is allocated from them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from ironic_virt.driver.pools import names
from ironic_virt.fleet.deployment import Deployment, Provider, Resources, Server, is_pool
from ironic_virt.fleet.findings import ERROR, WARNING, Problems, Table, check
from ironic_virt.request.spec import CUSTOM, placement_class

_DELETE = "openstack resource provider delete {about} (once nothing is allocated from it)"
CHECKS: Table = {}


def _provider_of(fleet: Deployment, server: Server) -> str | None:
    """The uuid of the provider that a server's allocation should be from."""
    records = fleet.records_by_name.get(server.node or "")
    return records[0].uuid if records else None


def _is_bare_metal(provider: Provider) -> bool:
    """Whether a provider looks like one of a node or a pool, by its name alone."""
    if provider.parent is not None:
        return False
    try:
        return str(uuid.UUID(provider.name)) == provider.name
    except ValueError:
        return is_pool(provider)


@check(
    *(CHECKS, "provider-missing", ERROR),
    "restart nova-compute on {host}: it creates the provider at its next refresh",
)
def _find_provider_missing(fleet: Deployment) -> Problems:
    providers = fleet.placement.providers
    names = {provider.name for provider in providers.values()}
    for record in fleet.records:
        if record.uuid not in providers and record.name not in names:
            yield record.name, "Placement has no provider for it", {"host": record.host}


@check(CHECKS, "provider-uuid-wrong", ERROR, _DELETE)
def _find_provider_uuid_wrong(fleet: Deployment) -> Problems:
    for provider in fleet.placement.providers.values():
        records = fleet.records_by_name.get(provider.name, ())
        if records and all(record.uuid != provider.uuid for record in records):
            words = f"it is named {provider.name}, but that record's UUID is {records[0].uuid}"
            yield provider.uuid, words


@check(
    *(CHECKS, "provider-name-wrong", WARNING),
    "openstack resource provider set --name {name} {about}",
)
def _find_provider_name_wrong(fleet: Deployment) -> Problems:
    for record in fleet.records:
        provider = fleet.placement.providers.get(record.uuid)
        if provider is not None and provider.name != record.name:
            words = f"it is named {provider.name}, but its record {record.name}"
            yield record.uuid, words, {"name": record.name}


@check(CHECKS, "provider-parent-wrong", ERROR, f"{_DELETE}; its service creates it again")
def _find_provider_parent_wrong(fleet: Deployment) -> Problems:
    for record in fleet.records:
        provider = fleet.placement.providers.get(record.uuid)
        if provider is not None and provider.parent is not None:
            yield record.uuid, f"it has the parent {provider.parent}, and should have none"


@check(CHECKS, "provider-of-nobody", WARNING, _DELETE)
def _find_provider_of_nobody(fleet: Deployment) -> Problems:
    recorded = {record.uuid for record in fleet.records}
    for provider in fleet.placement.providers.values() if fleet.whole else ():
        if provider.uuid in recorded or provider.name in fleet.records_by_name:
            continue
        if _is_bare_metal(provider):
            offers = ", ".join(sorted(fleet.placement.offers(provider.uuid))) or "nothing"
            words = f"it is named {provider.name}, offers {offers}, and belongs to no record"
            yield provider.uuid, words


def _list_allocations(fleet: Deployment) -> Iterator[tuple[str, str, Resources, Server | None]]:
    """A provider, a consumer, what it holds of that, and the server that it is."""
    for provider, consumers in fleet.placement.allocations.items():
        for consumer, resources in consumers.items():
            yield provider, consumer, resources, fleet.servers.get(consumer)


@check(
    *(CHECKS, "allocation-of-nobody", ERROR),
    "ironic-virt-fleet check --fix allocation-of-nobody --apply; or: openstack resource provider "
    "allocation delete {consumer}",
)
def _find_allocation_of_nobody(fleet: Deployment) -> Problems:
    for provider, consumer, _, server in _list_allocations(fleet) if fleet.whole else ():
        if (server is None and consumer not in fleet.consumers) or (server and server.deleted):
            state = "deleted" if server is not None else "unknown to Nova"
            words = f"{consumer} has an allocation from it, but is {state}"
            yield provider, words, {"consumer": consumer}


@check(
    *(CHECKS, "allocation-elsewhere", ERROR),
    "ironic-virt-fleet check --fix allocation-elsewhere --apply",
)
def _find_allocation_elsewhere(fleet: Deployment) -> Problems:
    for provider, consumer, _, server in _list_allocations(fleet):
        if server is not None and server.is_on_a_node:
            right = _provider_of(fleet, server)
            if right and right != provider:
                words = f"server {consumer} has an allocation from it, but is on {server.node}"
                yield provider, words, {"server": consumer, "provider": right}


@check(
    *(CHECKS, "allocation-missing", ERROR),
    "ironic-virt-fleet check --fix allocation-missing --apply",
)
def _find_allocation_missing(fleet: Deployment) -> Problems:
    for server in fleet.bare_metal_servers:
        provider = _provider_of(fleet, server) or ""
        if provider not in fleet.placement.providers:
            continue
        if server.uuid not in fleet.placement.allocations.get(provider, {}):
            facts = {"server": server.uuid, "provider": provider}
            yield server.uuid, f"it has no allocation from {server.node}", facts


@check(
    *(CHECKS, "resource-class-renamed", ERROR),
    "openstack resource provider allocation delete {server}; after nova-compute's next refresh: "
    "ironic-virt-fleet check --fix allocation-missing --apply",
)
def _find_resource_class_renamed(fleet: Deployment) -> Problems:
    for provider, consumer, resources, server in _list_allocations(fleet):
        if server is None or not server.is_on_a_node:
            continue
        node = fleet.nodes.get(server.node or "")
        of_pool = names.class_of(server.node or "", server.host or "")
        name = (node.resource_class if node else of_pool) or ""
        classes = sorted(resource for resource in resources if resource.startswith(CUSTOM))
        if name and classes and placement_class(name) not in classes:
            words = f"server {consumer} holds {', '.join(classes)} of it, but its resource class"
            yield provider, f"{words} is {placement_class(name)}", {"server": consumer}
