# SPDX-License-Identifier: Apache-2.0

"""Checks of what nodes offer in Placement, against what Ironic says of them.

A node whose state has changed a moment ago is left out: its service has not reported it yet.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.pools import names
from ironic_virt.fleet.deployment import Deployment, pool_name, pools
from ironic_virt.fleet.findings import Finding, Found, Severity, check
from ironic_virt.fleet.providers import CAPABILITY_TRAITS

REPORTED_AFTER = datetime.timedelta(minutes=10)
"""After so long a change of a node should have reached Placement: several refreshes."""

_REFRESH = "restart nova-compute on {host}, or look in its log why it does not report the node"


def _reported(deployment: Deployment) -> Iterator[tuple[Node, str, str]]:
    """Nodes that have a record and a provider, that one's uuid and their host."""
    for node in deployment.nodes.values():
        record = deployment.node_records.get(node.uuid)
        if record is None or record.uuid not in deployment.placement.providers:
            continue
        if not _changed_lately(node, deployment.read_at):
            yield node, record.uuid, record.host


def _changed_lately(node: Node, now: datetime.datetime) -> bool:
    if node.provision_updated_at is None:
        return False
    try:
        changed = datetime.datetime.fromisoformat(node.provision_updated_at)
    except ValueError:
        return False
    if changed.tzinfo is None:
        changed = changed.replace(tzinfo=datetime.UTC)
    return now - changed < REPORTED_AFTER


@check(
    "offered-unavailable",
    Severity.CRITICAL,
    meaning="Placement offers a node that can't take a server: it is in maintenance, failed to "
    "clean, is retired or taken. Builds are sent to it and fail.",
    mend="ironic-virt-fleet check --fix offered-unavailable --apply; and " + _REFRESH,
    provoke="set a node to maintenance while its service is down",
)
def offered_unavailable(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for node, provider, host in _reported(deployment):
        why = resources.why_not_free(node)
        offered = deployment.placement.offers(provider)
        if why is not None and offered:
            for name in sorted(offered):
                yield found(
                    node.uuid,
                    f"Placement offers its {name}, but {why}",
                    host=host,
                    provider=provider,
                    resource_class=name,
                )


@check(
    "reserved-differs",
    Severity.WARNING,
    meaning="The node is free, and Placement has it as reserved, or has no inventory of it: it "
    "stays empty.",
    mend=_REFRESH,
    provoke="set reserved to 1 in the inventory of a free node while its service is down",
)
def reserved_differs(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for node, provider, host in _reported(deployment):
        wanted = resources.node_inventory(node)
        if not wanted.placement_class or wanted.reserved:
            continue
        if deployment.placement.offers(provider) or provider not in deployment.placement.stocks:
            continue
        stock = deployment.placement.stocks[provider].get(wanted.placement_class)
        if stock is not None and stock.reserved >= stock.total:
            yield found(node.uuid, "it is free, and reserved in Placement", host=host)


@check(
    "inventory-differs",
    Severity.ERROR,
    meaning="The provider's inventory is not one of the node's resource class.",
    mend=_REFRESH,
    provoke="change a node's resource class while its service is down",
)
def inventory_differs(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for node, provider, host in _reported(deployment):
        wanted = resources.node_inventory(node)
        right = {wanted.placement_class} if wanted.placement_class else set()
        stocks = deployment.placement.stocks.get(provider)
        has = deployment.placement.offers(provider) if stocks is None else stocks.keys()
        others = sorted(set(has) - right)
        missing = right - stocks.keys() if stocks is not None else set()
        totals = (
            {}
            if stocks is None
            else {name: stock.total for name, stock in stocks.items() if stock.total != 1}
        )
        if others or missing:
            shown = ", ".join(sorted(has)) or "nothing"
            yield found(
                node.uuid,
                f"Placement has {shown}, it is {wanted.placement_class or 'of no class'}",
                host=host,
            )
        elif totals:
            yield found(node.uuid, f"Placement has {totals} of it, and it is one", host=host)


@check(
    "traits-differ",
    Severity.ERROR,
    meaning="The provider's traits are not the node's: servers go to wrong nodes or find none.",
    mend=_REFRESH,
    provoke="add a trait to a node while its service is down",
)
def traits_differ(deployment: Deployment, found: Found) -> Iterator[Finding]:
    asked = deployment.placement.traits.keys()
    having: dict[str, set[str]] = {}
    for trait, providers in deployment.placement.traits.items():
        for provider in providers:
            having.setdefault(provider, set()).add(trait)
    for node, provider, host in _reported(deployment):
        has = having.get(provider, set())
        missing = sorted((node.traits & asked) - has)
        added = sorted(
            name for name in has - node.traits if not name.startswith(CAPABILITY_TRAITS)
        )
        if missing or added:
            words = [f"lacks {', '.join(missing)}"] if missing else []
            words += [f"has {', '.join(added)} besides"] if added else []
            yield found(node.uuid, f"its provider {' and '.join(words)}", host=host)


@check(
    "pool-differs",
    Severity.ERROR,
    meaning="A pool's total or reserved number in Placement is not what its nodes are: builds "
    "fail, or nodes stay empty.",
    mend=_REFRESH,
    provoke="set a node of a pool to maintenance while its service is down",
)
def pool_differs(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for host, options in sorted(deployment.options.items()):
        # What is a peer's share, only all services together can tell.
        if options.picks_nodes or options.peers:
            continue
        servers = [server for server in deployment.live_servers if server.host == host]
        nodes = [node for node in deployment.nodes.values() if _is_of(host, node, deployment)]
        changing = {server.node for server in servers if not server.is_settled} | {
            pool_name(host, node) for node in nodes if _changed_lately(node, deployment.read_at)
        }
        counted = pools(host, nodes, {one.uuid: one.node or "" for one in servers})
        for name, pool in counted.items():
            stocks = deployment.placement.stocks.get(names.pool_uuid(name))
            if stocks is None or name in changing:
                continue
            has = sorted((stock.total, stock.reserved) for stock in stocks.values())
            if has != ([(pool.total, pool.reserved)] if pool.total else []):
                shown = ", ".join(f"{total} ({taken} reserved)" for total, taken in has)
                yield found(
                    name,
                    f"Placement has {shown or 'nothing'} of it, its nodes are {pool.total} "
                    f"({pool.reserved} reserved)",
                    host=host,
                )


@check(
    "node-without-flavor",
    Severity.WARNING,
    meaning="No flavor asks for a node of this class and these traits: it stays empty.",
    mend="make a flavor with resources:{name}=1, or correct the node's class and traits",
    provoke="give a node a resource class that no flavor asks for",
)
def node_without_flavor(deployment: Deployment, found: Found) -> Iterator[Finding]:
    for name, nodes in _kinds(deployment).items():
        if deployment.hosts.flavors and not any(
            one.fits(name[0], nodes[0]) for one in deployment.hosts.flavors
        ):
            for node in nodes:
                yield found(node.uuid, f"no flavor fits it: {name[0]}", name=name[0])


@check(
    "flavor-without-node",
    Severity.WARNING,
    meaning="A flavor asks for bare metal that no node has: no server of it can be built.",
    mend="correct the flavor {about}, or the class and traits of nodes",
    provoke="make a flavor that asks for a resource class of no node",
)
def flavor_without_node(deployment: Deployment, found: Found) -> Iterator[Finding]:
    kinds = _kinds(deployment)
    for flavor in deployment.hosts.flavors if deployment.whole else ():
        if not any(flavor.fits(name[0], nodes[0]) for name, nodes in kinds.items()):
            asked = ", ".join(sorted(flavor.classes | flavor.required))
            yield found(flavor.name, f"it asks for {asked}, and no node has that")


def _kinds(deployment: Deployment) -> dict[tuple[str, frozenset[str]], list[Node]]:
    """The nodes by resource class, in Placement's name, and traits; none without a class."""
    kinds: dict[tuple[str, frozenset[str]], list[Node]] = {}
    for node in deployment.nodes.values():
        if name := resources.node_inventory(node).placement_class:
            kinds.setdefault((name, frozenset(node.traits)), []).append(node)
    return kinds


def _is_of(host: str, node: Node, deployment: Deployment) -> bool:
    record = deployment.node_records.get(node.uuid)
    return deployment.options[host].serves(node) and (record is None or record.host == host)
