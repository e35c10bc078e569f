# SPDX-License-Identifier: Apache-2.0

"""A deployment as it was read: what Nova, Placement and Ironic know about the same nodes.

Plain frozen data, read by :mod:`ironic_virt.fleet.reading` and made by hand in tests.  The
checks and the plans are functions of it, so none of them asks anything.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ironic_virt.baremetal.node import Node
from ironic_virt.driver.pools import counts, names
from ironic_virt.fleet.hosts import Hosts
from ironic_virt.fleet.options import ServiceOptions

if TYPE_CHECKING:
    from ironic_virt.standby import Look

K = TypeVar("K")
T = TypeVar("T")
CAPABILITY_TRAITS = "COMPUTE_"
"""Nova adds traits that begin so for what the driver can do."""


@dataclasses.dataclass(frozen=True, slots=True)
class Service:
    """A nova-compute service.

    :ivar cell: the cell's uuid, here and in records and servers.
    :ivar up: its last report is younger than Nova's ``service_down_time``, and nobody has
        forced it down.
    :ivar last_seen: when it last reported, in UTC; ``None``: it never did.
    :ivar reports: how often it has reported since it was created.
    """

    cell: str
    id: int
    host: str
    up: bool = True
    forced_down: bool = False
    last_seen: datetime.datetime | None = None
    disabled: bool = False
    reports: int = 0
    created: datetime.datetime | None = None

    @property
    def interval(self) -> float:
        """Seconds between two reports, in the mean; 0: not known."""
        if self.last_seen is None or self.created is None or not self.reports:
            return 0.0
        return max(0.0, (self.last_seen - self.created).total_seconds() / self.reports)

    @property
    def is_silent(self) -> bool:
        """Whether it has never reported, though it had the time to."""
        return self.last_seen is None and not self.up and not self.forced_down


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A compute node record of bare metal; its name is a node's uuid, or a pool's name."""

    cell: str
    id: int
    uuid: str
    host: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """An instance in Nova's records, with the name of its compute node record."""

    cell: str
    uuid: str
    host: str | None
    node: str | None
    vm_state: str | None = "active"
    task_state: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    zone: str | None = None
    deleted: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether it has no operation in progress, so that all records should agree."""
        return self.task_state is None and self.vm_state not in _UNSETTLED

    @property
    def is_on_a_node(self) -> bool:
        """Whether some node should carry it."""
        return not self.deleted and self.is_settled and self.host is not None


_UNSETTLED = (None, "building", "error", "deleted", "shelved_offloaded")


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider, with the uuid of the one that it is below."""

    uuid: str
    name: str
    parent: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Stock:
    """The inventory of one resource class."""

    total: int
    reserved: int = 0


Resources = Mapping[str, int]
"""Amounts by resource class."""


@dataclasses.dataclass(frozen=True)
class Placement:
    """What was read.

    :ivar providers: all, by uuid.
    :ivar room: by resource class, the providers that have room for one more.
    :ivar traits: by trait, the providers that have it; only of traits that were asked for.
    :ivar allocations: by provider, by consumer; only of providers that were asked.
    :ivar stocks: by provider, by resource class; only of providers that were asked.
    :ivar aggregates: by uuid of a zone's, the providers that are in it.
    """

    providers: Mapping[str, Provider] = dataclasses.field(default_factory=dict)
    room: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    traits: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    allocations: Mapping[str, Mapping[str, Resources]] = dataclasses.field(default_factory=dict)
    stocks: Mapping[str, Mapping[str, Stock]] = dataclasses.field(default_factory=dict)
    aggregates: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)

    def offers(self, provider: str) -> frozenset[str]:
        """The resource classes that a provider has room for."""
        return frozenset(name for name, having in self.room.items() if provider in having)


@dataclasses.dataclass(frozen=True)
class Deployment:
    """What was read.

    :ivar read_at: when, in UTC.
    :ivar cells: the uuids of the cells that were read, and their names.
    :ivar cloud: the same deployment has the same: Ironic's URL and region, as Nova's file says.
    :ivar whole: whether these are all cells.
    :ivar servers: by uuid; also deleted ones that a node or an allocation names.
    :ivar consumers: uuids that Nova knows otherwise, such as those of migrations, and those
        of consumers that others than Nova have made.
    :ivar options: of services, by host; only of those whose file was given.
    :ivar leases: by host, of those whose file names the backend of a standby.
    :ivar novas_options: the names of Nova's own options in ``[ironic]``.
    :ivar group_filters: by name, the modules of the scheduler's filters of server groups.
    :ivar clocks: how many seconds the clocks of others are ahead of this machine's.
    """

    read_at: datetime.datetime
    cells: Mapping[str, str] = dataclasses.field(default_factory=lambda: {"cell1": "cell1"})
    cloud: tuple[str, str] = ("", "")
    whole: bool = True
    services: Sequence[Service] = ()
    records: Sequence[Record] = ()
    servers: Mapping[str, Server] = dataclasses.field(default_factory=dict)
    consumers: Collection[str] = frozenset()
    nodes: Mapping[str, Node] = dataclasses.field(default_factory=dict)
    placement: Placement = dataclasses.field(default_factory=Placement)
    options: Mapping[str, ServiceOptions] = dataclasses.field(default_factory=dict)
    leases: Mapping[str, Look] = dataclasses.field(default_factory=dict)
    hosts: Hosts = dataclasses.field(default_factory=Hosts)
    novas_options: Collection[str] = frozenset()
    group_filters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    clocks: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def service_of(self) -> Mapping[str, Service]:
        """Services by host."""
        return services_by_host(self.services, self.hosts)

    @functools.cached_property
    def node_records(self) -> Mapping[str, Record]:
        """Records of single nodes, by the node's uuid; of several, the first."""
        return {record.name: record for record in reversed(self.records) if not is_pool(record)}

    @functools.cached_property
    def owner_of(self) -> Mapping[str, str]:
        """By node, the host of its record."""
        return {uuid: record.host for uuid, record in self.node_records.items()}

    @functools.cached_property
    def pools_by_host(self) -> Mapping[str, Sequence[str]]:
        """The names of the records of pools of nodes, by host."""
        return grouped((record.host, record.name) for record in self.records if is_pool(record))

    @functools.cached_property
    def records_by_name(self) -> Mapping[str, Sequence[Record]]:
        """All records of each name."""
        return grouped((record.name, record) for record in self.records)

    @functools.cached_property
    def live_servers(self) -> Sequence[Server]:
        """Servers that are not deleted and that a compute service has."""
        return [each for each in self.servers.values() if not each.deleted and each.host]

    @functools.cached_property
    def bare_metal_servers(self) -> Sequence[Server]:
        """Servers that some node should carry."""
        live, hosts = self.live_servers, self.bare_metal_hosts
        return [server for server in live if server.is_on_a_node and server.host in hosts]

    @functools.cached_property
    def servers_by_place(self) -> Mapping[str, Sequence[Server]]:
        """Servers that are not deleted, by the name of their compute node record."""
        return grouped((server.node or "", server) for server in self.live_servers)

    @functools.cached_property
    def node_of_server(self) -> Mapping[str, str]:
        """By server, the node that carries it."""
        nodes = self.nodes.items()
        return {node.instance_uuid: uuid for uuid, node in nodes if node.instance_uuid}

    @functools.cached_property
    def bare_metal_hosts(self) -> frozenset[str]:
        """Hosts that have records of bare metal, or whose file was given."""
        return frozenset(record.host for record in self.records) | self.options.keys()

    def is_in_two_cells(self, host: str) -> bool:
        """Whether a host has its records, or its service, in several cells."""
        rows: list[Record | Service] = [*self.records, *self.service_of.values()]
        return len({row.cell for row in rows if row.host == host}) > 1

    def host_of(self, node: Node) -> str:
        """The host of the instance on a node, or else of the node's record; empty: neither."""
        server = self.servers.get(node.instance_uuid or "")
        return (server and server.host) or self.owner_of.get(node.uuid, "")

    def is_in_pool(self, node: Node) -> bool:
        """Whether a service that may serve a node has a pool of such nodes."""
        pools = self.pools_by_host.items()
        hosts = [host for host, names in pools if pool_name(host, node) in names]
        return any(host not in self.options or self.options[host].serves(node) for host in hosts)


def is_pool(thing: Record | Provider) -> bool:
    """Whether a compute node record or a resource provider is a pool's: a node's has its uuid."""
    return thing.name != thing.uuid and "~" in thing.name


def pool_name(host: str, node: Node) -> str:
    """The name of the pool of a host that a node is in."""
    return names.pool_name(host, (node.resource_class or "", node.traits))


def pools(host: str, nodes: Sequence[Node], places: Mapping[str, str]) -> dict[str, counts.Pool]:
    """The pools of a host by name, of its nodes and of the records that its servers are on."""
    carried = [node.instance_uuid for node in nodes if node.instance_uuid]
    return counts.pools_of(nodes, host, places, carried)


def services_by_host(services: Iterable[Service], hosts: Hosts) -> dict[str, Service]:
    """Services by host; of several cells with one, that of the cell that Nova has it in."""
    ordered = sorted(services, key=lambda each: hosts.cells.get(each.host) == each.cell)
    return {service.host: service for service in ordered}


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Values by their key."""
    values: dict[K, list[T]] = defaultdict(list)
    for key, value in pairs:
        values[key].append(value)
    return values
