# SPDX-License-Identifier: Apache-2.0

"""Reads a deployment: Nova's cells, Ironic and Placement, in that order.

Placement comes last and is asked in detail only for providers of which its lists say other
than that they are free as they should be.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from nova import version as nova_version
from nova.conf import ironic as nova_ironic
from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import KeystoneChannel
from ironic_virt.baremetal.http.versions import FLOOR
from ironic_virt.baremetal.node import LIST_FIELDS, Node
from ironic_virt.conf import unknown
from ironic_virt.driver import resources
from ironic_virt.fleet import api_database, cells
from ironic_virt.fleet.deployment import (
    Component,
    Deployment,
    Lease,
    Record,
    Server,
    Service,
    is_pool,
)
from ironic_virt.fleet.options import ServiceOptions
from ironic_virt.fleet.placement import OF_NOVA, PlacementClient, Progress, seconds_ahead
from ironic_virt.fleet.providers import Placement, Provider
from ironic_virt.nova import release

_NODE_FIELDS = (
    *LIST_FIELDS,
    "provision_updated_at",
    "conductor_group",
    "retired",
    "shard",
    "health",
    "protected",
    "protected_reason",
)
_CRITICAL = "critical"


def _silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads one deployment.

    :param conf: Nova's, with the options of ``[ironic]`` and ``[placement]``.
    :param cells: names of cells; none: all.
    :param options: what the files of services say, by host.
    :param progress: told how far it is.
    """

    conf: cfg.ConfigOpts
    cells: Collection[str] = ()
    options: Mapping[str, ServiceOptions] = dataclasses.field(default_factory=dict)
    progress: Progress = _silent
    clock: Callable[[], datetime.datetime] = _now

    def read(self, *, placement: bool = True) -> Deployment:
        """Read everything.

        :param placement: whether to ask Placement, too.
        :raises IronicVirtError: something could not be read; there is no partial result.
        """
        client = IronicClient.from_conf(self.conf)
        found = self._nova()
        nodes = self._nodes(client)
        servers = dict(found.servers)
        carried = {node.instance_uuid for node in nodes.values() if node.instance_uuid}
        self._look_up(carried, servers)
        found = dataclasses.replace(
            found,
            servers=servers,
            nodes=nodes,
            unhealthy={
                node.uuid: node.health
                for node in nodes.values()
                if node.health is not None and node.health.lower() == _CRITICAL
            },
            options=self.options,
            novas_options=unknown.names(nova_ironic.ironic_options),
            components=self._components(client),
        )
        if not placement:
            return found
        asked = PlacementClient()
        newest, ahead = asked.versions()
        component = Component("Placement", newest, "1.36", _older(newest, "1.36"), ahead)
        found = dataclasses.replace(
            found,
            components=[*found.components, component],
            placement=_placement(found, asked, self.progress),
        )
        return self._with_consumers(found, asked)

    def leases(self) -> dict[str, Lease]:
        """Ask the backends of the services that have a standby for their leases, by host.

        A backend that gives no answer is asked once, and nothing is loaded without a standby.
        """
        found: dict[str, Lease] = {}
        silent: dict[str, Lease] = {}
        for service in self.options.values():
            if service.standby is None:
                continue
            from ironic_virt import standby

            url, ttl = service.standby
            if url not in silent:
                try:
                    found[service.host] = Lease(standby.age(url, ttl, service.host))
                    continue
                except (exceptions.InvalidConfiguration, exceptions.StandbyBackendFailed) as exc:
                    silent[url] = Lease(untold=str(exc))
            found[service.host] = silent[url]
        return found

    # -- Nova -----------------------------------------------------------------

    def _nova(self) -> Deployment:
        now = self.clock()
        known = cells.cells(self.cells)
        with_hosts = [cell for cell in known if not cell.is_cell0]
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
        return Deployment(
            read_at=now,
            cells={cell.uuid: cell.name for cell in with_hosts},
            cloud=(
                self.conf.ironic.endpoint_override or "by the catalogue",
                self.conf.ironic.region_name or "",
            ),
            hosts=api_database.read(self.conf, servers),
            whole=not self.cells,
            services=services,
            records=records,
            servers=servers,
        )

    def _look_up(self, uuids: Iterable[str], servers: dict[str, Server]) -> None:
        """Add servers that a node or an allocation names, wherever they are."""
        missing = set(uuids) - servers.keys()
        for cell in cells.cells(self.cells) if missing else ():
            for server in cells.servers(cell, missing):
                # A server that was never scheduled may be in the first cell, too.
                if server.uuid not in servers or servers[server.uuid].deleted:
                    servers[server.uuid] = server

    def _with_consumers(self, found: Deployment, asked: PlacementClient) -> Deployment:
        consumers = {
            consumer for each in found.placement.allocations.values() for consumer in each
        }
        servers = dict(found.servers)
        self._look_up(consumers, servers)
        others = consumers - servers.keys()
        known: set[str] = set(cells.being_built(others))
        for cell in cells.cells(self.cells) if others else ():
            known.update(cells.migrations(cell, others))
        known |= {one for one in others - known if asked.consumer_type(one) not in OF_NOVA}
        return dataclasses.replace(found, servers=servers, consumers=frozenset(known))

    # -- Ironic ---------------------------------------------------------------

    def _nodes(self, client: IronicClient) -> dict[str, Node]:
        nodes = {node.uuid: node for node in client.list_nodes(fields=_NODE_FIELDS)}
        self.progress("Ironic: nodes", len(nodes), len(nodes))
        return nodes

    def _components(self, client: IronicClient) -> list[Component]:
        now = self.clock()
        found = [
            Component("Nova", nova_version.version_string(), release.OLDEST, not _is_supported())
        ]
        for cell in cells.cells(self.cells):
            told = cells.clock(cell)
            ahead = None if told is None else (told - now).total_seconds()
            found.append(Component(f"database of cell {cell.name}", seconds_ahead=ahead))
        newest = client.versions.maximum
        answer = KeystoneChannel.from_conf(self.conf).send("GET", "")
        headers = {name.lower(): value for name, value in answer.headers.items()}
        ahead = seconds_ahead(headers.get("date"))
        found.append(Component("Ironic", str(newest), str(FLOOR), seconds_ahead=ahead))
        return found


def _is_supported() -> bool:
    try:
        release.check()
    except exceptions.InvalidConfiguration:
        return False
    return True


def _older(version: str, other: str) -> bool:
    return [int(part) for part in version.split(".")] < [int(part) for part in other.split(".")]


# -- Placement ----------------------------------------------------------------


def _placement(found: Deployment, asked: PlacementClient, progress: Progress) -> Placement:
    providers = asked.providers()
    wanted_classes = {
        resources.node_inventory(node).placement_class for node in found.nodes.values()
    }
    classes = sorted({*asked.custom_classes(), *wanted_classes} - {""})
    traits = sorted(
        {*asked.custom_traits(), *(t for node in found.nodes.values() for t in node.traits)}
    )
    room: dict[str, frozenset[str]] = {}
    for name in classes:
        room[name] = asked.having(f"resources={name}:1")
        progress("Placement: resource classes", len(room), len(classes))
    having: dict[str, frozenset[str]] = {}
    for name in traits:
        having[name] = asked.having(f"required={name}")
        progress("Placement: traits", len(having), len(traits))
    lists = Placement(providers, room, having)
    unclear = _unclear(found, lists)
    allocations = asked.allocations(unclear, progress)
    wanted = [
        provider
        for provider in unclear
        # Of a node that is taken, the inventory says nothing that its allocation doesn't.
        if not allocations[provider] or is_pool(providers[provider].name, provider)
    ]
    stocks = asked.stocks(wanted, progress)
    return dataclasses.replace(lists, allocations=allocations, stocks=stocks)


def _unclear(found: Deployment, lists: Placement) -> list[str]:
    """The providers of bare metal that the lists don't show to be free as they should be."""
    records = {record.uuid: record for record in found.records}
    taken = {server.node for server in found.live_servers}
    classes_of: dict[str, set[str]] = {}
    for name, having in lists.room.items():
        for provider in having:
            classes_of.setdefault(provider, set()).add(name)
    return [
        provider.uuid
        for provider in lists.providers.values()
        if _is_ours(provider, found, records)
        and not _is_clear(provider, found, taken, classes_of.get(provider.uuid, set()))
    ]


def _is_ours(provider: Provider, found: Deployment, records: Mapping[str, Record]) -> bool:
    return (
        provider.uuid in records
        or provider.uuid in found.nodes
        or provider.name in found.nodes
        or provider.name in found.records_by_name
        or is_pool(provider.name, provider.uuid)
    )


def _is_clear(
    provider: Provider, found: Deployment, taken: Collection[Any], offered: Collection[str]
) -> bool:
    node = found.nodes.get(provider.uuid)
    if node is None or provider.name != provider.uuid or provider.uuid in taken:
        return False
    wanted = resources.node_inventory(node)
    return not wanted.reserved and set(offered) == {wanted.placement_class}
