# SPDX-License-Identifier: Apache-2.0

"""Checks of what nodes offer in Placement, against what Ironic says of them.

A node whose state has just changed is left out: its service has not reported it yet.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.pools import names
from ironic_virt.fleet.deployment import CAPABILITY_TRAITS, Deployment, grouped, pool_name, pools
from ironic_virt.fleet.findings import CRITICAL, ERROR, WARNING, Problems, Table, check
from ironic_virt.virt import NodeInventory

REPORTED_AFTER = datetime.timedelta(minutes=10)
"""After so long a change of a node should have reached Placement: several refreshes."""

_REFRESH = "restart nova-compute on {host}, or look in its log for why it does not report the node"
CHECKS: Table = {}


def _list_reported(fleet: Deployment) -> Iterator[tuple[Node, NodeInventory, str, dict[str, str]]]:
    """Nodes with a record and a provider, what they offer, the provider's uuid and their host."""
    for node in fleet.nodes.values():
        record = fleet.node_records.get(node.uuid)
        if record is None or record.uuid not in fleet.placement.providers:
            continue
        if not _changed_lately(node, fleet.read_at):
            yield node, resources.node_inventory(node), record.uuid, {"host": record.host}


def _changed_lately(node: Node, now: datetime.datetime) -> bool:
    try:
        changed = datetime.datetime.fromisoformat(node.provision_updated_at or "")
    except ValueError:
        return False
    return now - changed.replace(tzinfo=changed.tzinfo or datetime.UTC) < REPORTED_AFTER


@check(
    *(CHECKS, "offered-unavailable", CRITICAL),
    f"ironic-virt-fleet check --fix offered-unavailable --apply; and {_REFRESH}",
)
def _find_offered_unavailable(fleet: Deployment) -> Problems:
    for node, inventory, provider, host in _list_reported(fleet):
        reason = resources.why_not_free(node)
        if not reason:
            continue
        for name in sorted(fleet.placement.offers(provider)):
            # Nova's provider.yaml may add classes, which are only used along with the node's.
            if name == inventory.placement_class or fleet.hosts.is_asked_alone(name):
                facts = {**host, "provider": provider, "resource_class": name}
                yield node.uuid, f"Placement offers its {name}, but {reason}", facts


@check(CHECKS, "reserved-differs", WARNING, _REFRESH)
def _find_reserved_differs(fleet: Deployment) -> Problems:
    for node, inventory, provider, host in _list_reported(fleet):
        stock = fleet.placement.stocks.get(provider, {}).get(inventory.placement_class)
        is_reserved = stock is not None and stock.reserved >= stock.total
        if is_reserved and not (inventory.reserved or fleet.placement.offers(provider)):
            yield node.uuid, "it is free, but reserved in Placement", host


@check(CHECKS, "inventory-differs", ERROR, _REFRESH)
def _find_inventory_differs(fleet: Deployment) -> Problems:
    for node, inventory, provider, host in _list_reported(fleet):
        name = inventory.placement_class
        stocks = fleet.placement.stocks.get(provider)
        classes = set(fleet.placement.offers(provider) if stocks is None else stocks)
        # What the lists don't show may be allocated.
        missing = {name} - {""} - classes if stocks is not None else ()
        if missing or any(map(fleet.hosts.is_asked_alone, classes - {name})):
            shown = ", ".join(sorted(classes)) or "nothing"
            yield node.uuid, f"Placement has {shown}, but its class is {name or 'not set'}", host
        elif stocks and stocks[name].total != 1:
            yield node.uuid, f"Placement has {stocks[name].total} of {name} instead of 1", host


@check(CHECKS, "traits-differ", ERROR, _REFRESH)
def _find_traits_differ(fleet: Deployment) -> Problems:
    known = fleet.placement.traits
    traits_of = grouped((provider, trait) for trait, each in known.items() for provider in each)
    for node, _, provider, host in _list_reported(fleet):
        traits = set(traits_of.get(provider, ()))
        added = {name for name in traits - node.traits if not name.startswith(CAPABILITY_TRAITS)}
        missing = (node.traits & known.keys()) - traits
        words = [f"lacks {', '.join(sorted(missing))}"] if missing else []
        unless = "unless Nova's provider.yaml adds it"
        words += [f"also has {', '.join(sorted(added))}, {unless}"] if added else []
        if words:
            yield node.uuid, f"its provider {' and '.join(words)}", host


@check(CHECKS, "pool-differs", ERROR, _REFRESH)
def _find_pool_differs(fleet: Deployment) -> Problems:
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
        places = {server.uuid: server.node or "" for server in servers}
        for name, pool in pools(host, nodes, places).items():
            stocks = fleet.placement.stocks.get(names.pool_uuid(name))
            if stocks is None or name in changing:
                continue
            totals = sorted((stock.total, stock.reserved) for stock in stocks.values())
            if totals != ([(pool.total, pool.reserved)] if pool.total else []):
                shown = ", ".join(f"{total} ({reserved} reserved)" for total, reserved in totals)
                words = f"Placement has {shown or 'nothing'} in it, but by its nodes it should be"
                yield name, f"{words} {pool.total} ({pool.reserved} reserved)", {"host": host}


@check(
    *(CHECKS, "node-without-flavor", WARNING),
    "create a flavor with resources:{name}=1, or correct the node's class and traits",
)
def _find_node_without_flavor(fleet: Deployment) -> Problems:
    flavors, added = fleet.hosts.flavors, _list_added(fleet)
    for (name, _), nodes in _group_by_kind(fleet).items():
        if flavors and not any(flavor.fits(name, nodes[0], added) for flavor in flavors):
            for node in nodes:
                yield node.uuid, f"no flavor fits it: {name}", {"name": name}


@check(
    *(CHECKS, "flavor-without-node", WARNING),
    "correct the flavor {about}, or the class and traits of nodes",
)
def _find_flavor_without_node(fleet: Deployment) -> Problems:
    kinds, added = _group_by_kind(fleet), _list_added(fleet)
    for flavor in fleet.hosts.flavors if fleet.whole else ():
        if not any(flavor.fits(name, nodes[0], added) for (name, _), nodes in kinds.items()):
            required = ", ".join(sorted(flavor.classes | flavor.required))
            yield flavor.name, f"no node has what it asks for: {required}"


def _list_added(fleet: Deployment) -> set[str]:
    """The classes of bare metal providers that no node has: Nova's provider.yaml adds them."""
    ours = {record.uuid for record in fleet.records}
    names = {name for name, having in fleet.placement.room.items() if having & ours}
    for held in fleet.placement.allocations.values():
        names.update(*held.values())
    return names - {name for name, _ in _group_by_kind(fleet)}


def _group_by_kind(fleet: Deployment) -> dict[tuple[str, frozenset[str]], list[Node]]:
    """The nodes by resource class, in Placement's name, and traits; none without a class."""
    return grouped(
        ((name, frozenset(node.traits)), node)
        for node in fleet.nodes.values()
        if (name := resources.node_inventory(node).placement_class)
    )
