# SPDX-License-Identifier: Apache-2.0

"""Reads a deployment: Nova's cells, Ironic and Placement, in that order.

Placement comes last, and in detail only for providers whose lists don't say that they are free.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from nova.conf import ironic as nova_ironic
from nova.scheduler import filters
from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import KeystoneChannel
from ironic_virt.baremetal.http.transport import shown
from ironic_virt.baremetal.node import LIST_FIELDS
from ironic_virt.conf import unknown
from ironic_virt.driver import resources
from ironic_virt.fleet import api_database, cells
from ironic_virt.fleet.deployment import (
    Deployment,
    Placement,
    Record,
    Server,
    Service,
    Stock,
    grouped,
    is_pool,
)
from ironic_virt.fleet.options import ServiceOptions
from ironic_virt.fleet.placement import OF_NOVA, PlacementClient, Progress, seconds_ahead

if TYPE_CHECKING:
    from ironic_virt.standby import Look

_NODE_FIELDS = (
    *(*LIST_FIELDS, "provision_updated_at", "conductor_group", "retired", "shard", "health"),
    *("protected", "protected_reason"),
)


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads one deployment, or some cells of it by name; the ``named`` hosts must exist."""

    conf: cfg.ConfigOpts
    cells: Collection[str] = ()
    options: Mapping[str, ServiceOptions] = dataclasses.field(default_factory=dict)
    named: Collection[str] = frozenset()
    progress: Progress = lambda what, done, total: None
    clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)

    def read(self, *, placement: bool = True) -> Deployment:
        """Read everything, or all but Placement; there is no partial result."""
        rules = {options.failure_domain or "" for options in self.options.values()} - {""}
        rule = min(rules, default=None)
        client = IronicClient.from_conf(self.conf, failure_domain=rule)
        with_hosts = [cell for cell in cells.cells(self.cells) if not cell.is_cell0]
        services, records = list[Service](), list[Record]()
        for cell in with_hosts:
            services += cells.services(cell, self.conf.service_down_time, self.clock())
            records += cells.records(cell)
        read_at = self.clock()  # Not before the last report, however long this took.
        hosts = {record.host for record in records} | self.options.keys()
        servers: dict[str, Server] = {}
        for number, cell in enumerate(with_hosts, start=1):
            servers.update((each.uuid, each) for each in cells.servers_of(cell, "host", hosts))
            self.progress("Nova: cells", number, len(with_hosts))
        more = {"extra", "chassis_uuid"} & {(rule or "").partition("/")[0]}
        nodes = {node.uuid: node for node in client.list_nodes(fields=(*_NODE_FIELDS, *more))}
        self.progress("Ironic: nodes", len(nodes), len(nodes))
        carried = {node.instance_uuid for node in nodes.values()}
        present = {uuid: server for uuid, server in servers.items() if uuid in carried}
        # The others may have left their nodes since they were read: they are read again.
        self._look_up(carried | servers.keys(), present)
        url = shown(self.conf.ironic.endpoint_override or "by the catalogue")
        nova = api_database.read(self.conf, present)
        known = {each.host for each in services} | {each.host for each in records}
        if typos := ", ".join(sorted(set(self.named) - known - nova.cells.keys())):
            reason = f"there is no nova-compute on {typos}, only on {', '.join(sorted(known))}"
            raise exceptions.InvalidConfiguration("--service-conf or --serves", reason)
        deployment = Deployment(
            read_at=read_at,
            cells={cell.uuid: cell.name for cell in with_hosts},
            cloud=(url, self.conf.ironic.region_name or ""),
            hosts=nova,
            whole=not self.cells,
            services=services,
            records=records,
            servers=present,
            nodes=nodes,
            options=self.options,
            novas_options=unknown.names(nova_ironic.ironic_options),
            group_filters=_group_filters(self.conf),
            clocks=self._clocks(),
        )
        return self._with_placement(deployment) if placement else deployment

    def leases(self) -> dict[str, Look]:
        """Read the leases of the services that have a standby, by host.

        A backend that gives no answer is asked only once.
        """
        leases: dict[str, Look] = {}
        silent: dict[str, Look] = {}
        for host, service in self.options.items():
            if service.standby is None:
                continue
            from ironic_virt import standby

            url = service.standby[0]
            leases[host] = silent.get(url) or standby.look_at_lease(*service.standby, host)
            if leases[host].untold:
                silent[url] = leases[host]
        return leases

    def _look_up(self, uuids: Iterable[str | None], servers: dict[str, Server]) -> None:
        """Add servers that a node or an allocation names, wherever they are."""
        missing = {uuid for uuid in uuids if uuid} - servers.keys()
        for cell in cells.cells(self.cells) if missing else ():
            for server in cells.servers(cell, missing):
                # A server that was never scheduled may be in the first cell, too.
                if server.uuid not in servers or servers[server.uuid].deleted:
                    servers[server.uuid] = server

    def _with_placement(self, deployment: Deployment) -> Deployment:
        client = PlacementClient()
        ahead = seconds_ahead(client.ask("get", "/", good=(200,)).headers.get("Date"))
        placement = _placement(deployment, client, self.progress)
        consumers = {consumer for each in placement.allocations.values() for consumer in each}
        servers = dict(deployment.servers)
        # Asked first: who is built is in a cell before this ends.
        known = set(cells.being_built(consumers - servers.keys()))
        self._look_up(consumers, servers)
        others = consumers - servers.keys()
        for cell in cells.cells(self.cells) if others else ():
            known.update(cells.migrations(cell, others))
        known |= {uuid for uuid in others - known if client.consumer_type(uuid) not in OF_NOVA}
        return dataclasses.replace(
            deployment,
            clocks={**deployment.clocks, **({} if ahead is None else {"Placement": ahead})},
            placement=placement,
            servers=servers,
            consumers=frozenset(known),
        )

    def _clocks(self) -> dict[str, float]:
        """How many seconds clocks are ahead of this machine's, of all that are known."""
        ahead = {
            f"database of cell {cell.name}": (time - self.clock()).total_seconds()
            for cell in cells.cells(self.cells)
            if (time := cells.clock(cell)) is not None
        }
        headers = KeystoneChannel.from_conf(self.conf).send("GET", "").headers
        seconds = seconds_ahead({name.lower(): text for name, text in headers.items()}.get("date"))
        return ahead if seconds is None else {**ahead, "Ironic": seconds}


def _group_filters(conf: cfg.ConfigOpts) -> dict[str, str]:
    options = conf.filter_scheduler
    modules: dict[str, str] = {}
    with contextlib.suppress(ImportError):
        kinds = filters.HostFilterHandler().get_matching_classes(options.available_filters)
        modules = {kind.__name__: kind.__module__ for kind in kinds}
    return {
        name: modules.get(name, "") if name in options.enabled_filters else ""
        for name in ("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter")
    }


def _placement(fleet: Deployment, client: PlacementClient, progress: Progress) -> Placement:
    def list_having(what: str, query: str, names: set[str]) -> dict[str, frozenset[str]]:
        listed: dict[str, frozenset[str]] = {}
        for name in sorted(names - {""}):
            listed[name] = client.having(query.format(name))
            progress(f"Placement: {what}", len(listed), len(names))
        return listed

    nodes, providers, hosts = fleet.nodes.values(), client.providers(), fleet.bare_metal_hosts
    zones = {each.uuid for each in fleet.hosts.aggregates if each.zone and hosts & each.hosts}
    classes, traits = client.custom_names()
    classes |= {resources.node_inventory(node).placement_class for node in nodes}
    traits.update(trait for node in nodes for trait in node.traits)
    lists = Placement(
        providers,
        list_having("resource classes", "resources={}:1", classes),
        list_having("traits", "required={}", traits),
        aggregates=list_having("zones", "member_of={}", zones),
    )
    unclear = _list_unclear(fleet, lists)
    allocations = client.of_each("allocations", unclear, progress)
    unallocated = [
        provider
        for provider in unclear
        # The inventory of a taken node says nothing that its allocation doesn't.
        if not allocations[provider] or is_pool(providers[provider])
    ]
    inventories = client.of_each("inventories", unallocated, progress)
    return dataclasses.replace(
        lists,
        allocations={
            provider: {consumer: held["resources"] for consumer, held in consumers.items()}
            for provider, consumers in allocations.items()
        },
        stocks={
            provider: {name: Stock(row["total"], row["reserved"]) for name, row in rows.items()}
            for provider, rows in inventories.items()
        },
    )


def _list_unclear(fleet: Deployment, lists: Placement) -> list[str]:
    """The providers of bare metal that the lists don't show to be free as they should be."""
    ours = {name for record in fleet.records for name in (record.uuid, record.name)}
    ours |= fleet.nodes.keys()
    taken = {server.node for server in fleet.live_servers}
    rooms = lists.room.items()
    offers = grouped((provider, name) for name, having in rooms for provider in having)
    clear = {
        uuid
        for uuid, node in fleet.nodes.items()
        if uuid not in taken
        and not (inventory := resources.node_inventory(node)).reserved
        and offers.get(uuid) == [inventory.placement_class]
    }
    return [
        uuid
        for uuid, provider in sorted(lists.providers.items())
        if (ours & {uuid, provider.name} or is_pool(provider))
        and not (uuid in clear and provider.name == uuid)
    ]
