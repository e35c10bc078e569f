# SPDX-License-Identifier: Apache-2.0

"""Reads a deployment: Nova's cells, Ironic and Placement, in that order.

Placement comes last and is asked in detail only for providers of which its lists say other
than that they are free as they should be.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterable, Mapping

from nova import version as nova_version
from nova.conf import ironic as nova_ironic
from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import KeystoneChannel
from ironic_virt.baremetal.http.versions import FLOOR
from ironic_virt.baremetal.node import LIST_FIELDS
from ironic_virt.conf import unknown
from ironic_virt.driver import resources
from ironic_virt.fleet import api_database, cells
from ironic_virt.fleet.deployment import (
    Component,
    Deployment,
    Lease,
    Placement,
    Record,
    Server,
    Service,
    Stock,
    is_pool,
)
from ironic_virt.fleet.options import ServiceOptions
from ironic_virt.fleet.placement import OF_NOVA, PlacementClient, Progress, seconds_ahead
from ironic_virt.nova import release

_NODE_FIELDS = (
    *(*LIST_FIELDS, "provision_updated_at", "conductor_group", "retired", "shard", "health"),
    *("protected", "protected_reason"),
)
_OLDEST_PLACEMENT = "1.36"


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads one deployment; cells are names, and without any all are read."""

    conf: cfg.ConfigOpts
    cells: Collection[str] = ()
    options: Mapping[str, ServiceOptions] = dataclasses.field(default_factory=dict)
    progress: Progress = lambda what, done, total: None
    clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)

    def read(self, *, placement: bool = True) -> Deployment:
        """Read everything, or all but Placement; there is no partial result."""
        client, now = IronicClient.from_conf(self.conf), self.clock()
        with_hosts = [cell for cell in cells.cells(self.cells) if not cell.is_cell0]
        services: list[Service] = []
        records: list[Record] = []
        for cell in with_hosts:
            services += cells.services(cell, self.conf.service_down_time, now)
            records += cells.records(cell)
        hosts = {record.host for record in records} | self.options.keys()
        servers: dict[str, Server] = {}
        for number, cell in enumerate(with_hosts, start=1):
            servers.update((one.uuid, one) for one in cells.servers_of(cell, hosts))
            self.progress("Nova: cells", number, len(with_hosts))
        nodes = {node.uuid: node for node in client.list_nodes(fields=_NODE_FIELDS)}
        self.progress("Ironic: nodes", len(nodes), len(nodes))
        self._look_up((node.instance_uuid for node in nodes.values()), servers)
        ironic = self.conf.ironic
        deployment = Deployment(
            read_at=now,
            cells={cell.uuid: cell.name for cell in with_hosts},
            cloud=(ironic.endpoint_override or "by the catalogue", ironic.region_name or ""),
            hosts=api_database.read(self.conf, servers),
            whole=not self.cells,
            services=services,
            records=records,
            servers=servers,
            nodes=nodes,
            options=self.options,
            novas_options=unknown.names(nova_ironic.ironic_options),
            components=self._components(client),
        )
        return self._with_placement(deployment) if placement else deployment

    def leases(self) -> dict[str, Lease]:
        """Ask the backends of the services that have a standby for their leases, by host.

        A backend that gives no answer is asked once, and nothing is loaded without a standby.
        """
        found: dict[str, Lease] = {}
        silent: dict[str, str] = {}
        for host, service in self.options.items():
            if service.standby is None:
                continue
            from ironic_virt import standby

            (url, ttl), age = service.standby, None
            if url not in silent:
                try:
                    age = standby.age(url, ttl, host)
                except (exceptions.InvalidConfiguration, exceptions.StandbyBackendFailed) as exc:
                    silent[url] = str(exc)
            found[host] = Lease(age, silent.get(url, ""))
        return found

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
        newest, ahead = client.versions()
        is_old = _is_older(newest, _OLDEST_PLACEMENT)
        component = Component("Placement", newest, _OLDEST_PLACEMENT, is_old, ahead)
        placement = _placement(deployment, client, self.progress)
        consumers = {consumer for each in placement.allocations.values() for consumer in each}
        servers = dict(deployment.servers)
        self._look_up(consumers, servers)
        others = consumers - servers.keys()
        known: set[str] = set(cells.being_built(others))
        for cell in cells.cells(self.cells) if others else ():
            known.update(cells.migrations(cell, others))
        known |= {one for one in others - known if client.consumer_type(one) not in OF_NOVA}
        return dataclasses.replace(
            deployment,
            components=[*deployment.components, component],
            placement=placement,
            servers=servers,
            consumers=frozenset(known),
        )

    def _components(self, client: IronicClient) -> list[Component]:
        now = self.clock()
        is_too_old = True
        with contextlib.suppress(exceptions.InvalidConfiguration):
            release.check()
            is_too_old = False
        found = [Component("Nova", nova_version.version_string(), release.OLDEST, is_too_old)]
        for cell in cells.cells(self.cells):
            told = cells.clock(cell)
            ahead = None if told is None else (told - now).total_seconds()
            found.append(Component(f"database of cell {cell.name}", seconds_ahead=ahead))
        newest = client.versions.maximum
        headers = KeystoneChannel.from_conf(self.conf).send("GET", "").headers
        ahead = seconds_ahead({name.lower(): one for name, one in headers.items()}.get("date"))
        found.append(Component("Ironic", str(newest), str(FLOOR), seconds_ahead=ahead))
        return found


def _is_older(version: str, other: str) -> bool:
    return [int(part) for part in version.split(".")] < [int(part) for part in other.split(".")]


def _placement(found: Deployment, client: PlacementClient, progress: Progress) -> Placement:
    def having(what: str, query: str, names: set[str]) -> dict[str, frozenset[str]]:
        listed: dict[str, frozenset[str]] = {}
        for name in sorted(names - {""}):
            listed[name] = client.having(query.format(name))
            progress(f"Placement: {what}", len(listed), len(names))
        return listed

    nodes, providers = found.nodes.values(), client.providers()
    classes, traits = client.custom_names()
    classes |= {resources.node_inventory(node).placement_class for node in nodes}
    traits.update(trait for node in nodes for trait in node.traits)
    lists = Placement(
        providers,
        having("resource classes", "resources={}:1", classes),
        having("traits", "required={}", traits),
    )
    unclear = _unclear(found, lists)
    held = client.of_each("allocations", unclear, progress)
    wanted = [
        provider
        for provider in unclear
        # Of a node that is taken, the inventory says nothing that its allocation doesn't.
        if not held[provider] or is_pool(providers[provider])
    ]
    stocks = client.of_each("inventories", wanted, progress)
    return dataclasses.replace(
        lists,
        allocations={
            provider: {consumer: one["resources"] for consumer, one in consumers.items()}
            for provider, consumers in held.items()
        },
        stocks={
            provider: {name: Stock(one["total"], one["reserved"]) for name, one in each.items()}
            for provider, each in stocks.items()
        },
    )


def _unclear(found: Deployment, lists: Placement) -> list[str]:
    """The providers of bare metal that the lists don't show to be free as they should be."""
    ours = {name for record in found.records for name in (record.uuid, record.name)}
    ours |= found.nodes.keys()
    taken = {server.node for server in found.live_servers}
    offers: dict[str, set[str]] = {}
    for name, having in lists.room.items():
        for provider in having:
            offers.setdefault(provider, set()).add(name)
    clear = {
        uuid
        for uuid, node in found.nodes.items()
        if uuid not in taken
        and not (wanted := resources.node_inventory(node)).reserved
        and offers.get(uuid) == {wanted.placement_class}
    }
    return [
        one.uuid
        for _, one in sorted(lists.providers.items())
        if (ours & {one.uuid, one.name} or is_pool(one))
        and not (one.uuid in clear and one.name == one.uuid)
    ]
