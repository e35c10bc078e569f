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
from ironic_virt.fleet.deployment import CAPABILITY_TRAITS, Deployment, pool_name, pools
from ironic_virt.fleet.findings import CRITICAL, ERROR, WARNING, Problems, Table

REPORTED_AFTER = datetime.timedelta(minutes=10)
"""After so long a change of a node should have reached Placement: several refreshes."""

_REFRESH = "restart nova-compute on {host}, or look in its log why it does not report the node"


def _reported(fleet: Deployment) -> Iterator[tuple[Node, str, dict[str, str]]]:
    """Nodes that have a record and a provider, that one's uuid and their host."""
    for node in fleet.nodes.values():
        record = fleet.node_records.get(node.uuid)
        if record is None or record.uuid not in fleet.placement.providers:
            continue
        if not _changed_lately(node, fleet.read_at):
            yield node, record.uuid, {"host": record.host}


def _changed_lately(node: Node, now: datetime.datetime) -> bool:
    try:
        changed = datetime.datetime.fromisoformat(node.provision_updated_at or "")
    except ValueError:
        return False
    if changed.tzinfo is None:
        changed = changed.replace(tzinfo=datetime.UTC)
    return now - changed < REPORTED_AFTER


def _offered(fleet: Deployment) -> Problems:
    for node, provider, host in _reported(fleet):
        if why := resources.why_not_free(node):
            for name in sorted(fleet.placement.offers(provider)):
                facts = {**host, "provider": provider, "resource_class": name}
                yield node.uuid, f"Placement offers its {name}, but {why}", facts


def _reserved(fleet: Deployment) -> Problems:
    for node, provider, host in _reported(fleet):
        wanted = resources.node_inventory(node)
        if wanted.reserved or fleet.placement.offers(provider):
            continue
        stock = fleet.placement.stocks.get(provider, {}).get(wanted.placement_class)
        if stock is not None and stock.reserved >= stock.total:
            yield node.uuid, "it is free, and reserved in Placement", host


def _inventory(fleet: Deployment) -> Problems:
    for node, provider, host in _reported(fleet):
        name = resources.node_inventory(node).placement_class
        stocks = fleet.placement.stocks.get(provider)
        has = set(fleet.placement.offers(provider) if stocks is None else stocks)
        totals = {one: stock.total for one, stock in (stocks or {}).items() if stock.total != 1}
        # What the lists don't show may be allocated.
        missing = {name} - {""} - has if stocks is not None else ()
        if missing or has - {name}:
            shown = ", ".join(sorted(has)) or "nothing"
            yield node.uuid, f"Placement has {shown}, it is {name or 'of no class'}", host
        elif totals:
            yield node.uuid, f"Placement has {totals} of it, and it is one", host


def _traits(fleet: Deployment) -> Problems:
    asked = fleet.placement.traits.keys()
    having: dict[str, set[str]] = {}
    for trait, providers in fleet.placement.traits.items():
        for provider in providers:
            having.setdefault(provider, set()).add(trait)
    for node, provider, host in _reported(fleet):
        has = having.get(provider, set())
        added = {one for one in has - node.traits if not one.startswith(CAPABILITY_TRAITS)}
        missing = (node.traits & asked) - has
        words = [f"lacks {', '.join(sorted(missing))}"] if missing else []
        words += [f"has {', '.join(sorted(added))} besides"] if added else []
        if words:
            yield node.uuid, f"its provider {' and '.join(words)}", host


def _pool(fleet: Deployment) -> Problems:
    for host, options in sorted(fleet.options.items()):
        # What is a peer's share, only all services together can tell.
        if options.picks_nodes or options.peers:
            continue
        servers = [server for server in fleet.live_servers if server.host == host]
        nodes = [
            node
            for node in fleet.nodes.values()
            if options.serves(node) and fleet.owner_of.get(node.uuid, host) == host
        ]
        changing = {server.node for server in servers if not server.is_settled} | {
            pool_name(host, node) for node in nodes if _changed_lately(node, fleet.read_at)
        }
        counted = pools(host, nodes, {one.uuid: one.node or "" for one in servers})
        for name, pool in counted.items():
            stocks = fleet.placement.stocks.get(names.pool_uuid(name))
            if stocks is None or name in changing:
                continue
            has = sorted((stock.total, stock.reserved) for stock in stocks.values())
            if has != ([(pool.total, pool.reserved)] if pool.total else []):
                shown = ", ".join(f"{total} ({taken} reserved)" for total, taken in has)
                words = (
                    f"Placement has {shown or 'nothing'} of it, its nodes are {pool.total} "
                    f"({pool.reserved} reserved)"
                )
                yield name, words, {"host": host}


def _without_flavor(fleet: Deployment) -> Problems:
    flavors = fleet.hosts.flavors
    for (name, _), nodes in _kinds(fleet).items():
        if flavors and not any(flavor.fits(name, nodes[0]) for flavor in flavors):
            for node in nodes:
                yield node.uuid, f"no flavor fits it: {name}", {"name": name}


def _of_no_node(fleet: Deployment) -> Problems:
    kinds = _kinds(fleet)
    for flavor in fleet.hosts.flavors if fleet.whole else ():
        if not any(flavor.fits(name, nodes[0]) for (name, _), nodes in kinds.items()):
            asked = ", ".join(sorted(flavor.classes | flavor.required))
            yield flavor.name, f"it asks for {asked}, and no node has that"


def _kinds(fleet: Deployment) -> dict[tuple[str, frozenset[str]], list[Node]]:
    """The nodes by resource class, in Placement's name, and traits; none without a class."""
    kinds: dict[tuple[str, frozenset[str]], list[Node]] = {}
    for node in fleet.nodes.values():
        if name := resources.node_inventory(node).placement_class:
            kinds.setdefault((name, frozenset(node.traits)), []).append(node)
    return kinds


CHECKS: Table = {
    "offered-unavailable": (
        CRITICAL,
        "ironic-virt-fleet check --fix offered-unavailable --apply; and " + _REFRESH,
        _offered,
    ),
    "reserved-differs": (WARNING, _REFRESH, _reserved),
    "inventory-differs": (ERROR, _REFRESH, _inventory),
    "traits-differ": (ERROR, _REFRESH, _traits),
    "pool-differs": (ERROR, _REFRESH, _pool),
    "node-without-flavor": (
        WARNING,
        "make a flavor with resources:{name}=1, or correct the node's class and traits",
        _without_flavor,
    ),
    "flavor-without-node": (
        WARNING,
        "correct the flavor {about}, or the class and traits of nodes",
        _of_no_node,
    ),
}
