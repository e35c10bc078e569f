# SPDX-License-Identifier: Apache-2.0

"""As much of Nova, Placement and Ironic as the resource tracker's passes depend on.

A provider here has an inventory that is one number.  A pass does the same in the same order as
Nova's does: records, servers, allocations, Placement's reads, its writes, and the record.
"""

import collections
import copy
import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ironic_virt.nova import settled

HOST = "compute-1"
REFRESH = 300.0
MARGIN = 120.0
DISABLED = "DISABLED"
CAPABILITY = "CAPABILITY"


class Away(Exception):
    """A request got no answer."""


class Conflict(Exception):
    """A provider was written by somebody else."""


@dataclasses.dataclass
class Provider:
    """As Placement has it, and as Nova keeps it."""

    generation: int = 0
    inventory: int = 0
    traits: frozenset[str] = frozenset()
    consumers: set[str] = dataclasses.field(default_factory=set)

    def write(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value)
        self.generation += 1


@dataclasses.dataclass
class Server:
    node: str
    host: str
    state: str = "active"
    deleted: bool = False
    updated_at: float = 0.0


@dataclasses.dataclass
class Record:
    host: str
    values: tuple[Any, ...] = ()


@dataclasses.dataclass
class Cloud:
    """What is outside nova-compute.

    :ivar offers: Ironic's nodes, and what each is worth.
    :ivar meanwhile: called at each step of a pass, with its name and the node's.
    """

    offers: dict[str, int]
    providers: dict[str, Provider] = dataclasses.field(default_factory=dict)
    records: dict[str, Record] = dataclasses.field(default_factory=dict)
    servers: dict[str, Server] = dataclasses.field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    disabled: bool = False
    placement_away: bool = False
    conductor_away: bool = False
    now: float = 1e6

    def __post_init__(self) -> None:
        self.meanwhile: Callable[[str, str], None] = lambda step, node: None

    def placement(self, name: str) -> Provider | None:
        if self.placement_away:
            raise Away(name)
        return self.providers.get(name)

    def seen(self) -> Any:
        """What a pass may change."""
        providers = {
            name: (one.inventory, one.traits, frozenset(one.consumers))
            for name, one in self.providers.items()
        }
        return copy.deepcopy((self.records, providers))

    def write_server(self, uuid: str, ahead: float = 0.0, **fields: Any) -> None:
        server = self.servers[uuid]
        for name, value in fields.items():
            setattr(server, name, value)
        server.updated_at = self.now + ahead


class Compute:
    """A nova-compute, with or without settled nodes.

    :param max_age: ``None``: it passes all nodes.
    :ivar passed: the nodes that got a whole pass in the last period, and why.
    """

    def __init__(self, cloud: Cloud, max_age: float | None) -> None:
        self.cloud = cloud
        self.held: dict[str, Record] = {}
        self.saved: dict[str, Record] = {}
        self.failed: collections.Counter[str] = collections.Counter()
        self.cache: dict[str, Provider] = {}
        self.refreshed: dict[str, float] = {}
        self.passed: dict[str, settled.Reason | None] = {}
        self.writes: collections.Counter[str] = collections.Counter()
        self.consumers: dict[str, frozenset[str]] = {}
        self.nodes: settled.SettledNodes | None = None
        if max_age is not None:
            self.nodes = settled.SettledNodes(max_age, clock=lambda: cloud.now, jitter=lambda: 0.5)
        self.servers = settled.Servers()
        self.since: float | None = None

    # -- Nova -----------------------------------------------------------------

    def period(self) -> None:
        """The periodic task."""
        cloud = self.cloud
        if cloud.conductor_away:
            return
        self.passed = {}
        names = [name for name in cloud.offers if name not in cloud.hidden]
        for name in [name for name in self.held if not self._is_ours(name)]:
            self._forget(name)
        for name in [name for name in cloud.records if name not in cloud.offers]:
            if self._is_ours(name):
                del cloud.records[name]
                cloud.providers.pop(name, None)
                self._forget(name)
        if self.nodes is not None:
            self.nodes.begin(self._read())
        for name in names:
            try:
                self._update(name)
            except (Away, LookupError):
                continue

    def _is_ours(self, name: str) -> bool:
        record = self.cloud.records.get(name)
        return record is not None and record.host == HOST

    def _forget(self, name: str) -> None:
        for kept in (self.held, self.saved, self.cache, self.refreshed, self.failed):
            kept.pop(name, None)

    def disable(self, disabled: bool) -> None:
        """By a message, which Nova carries out at once, over what it has not read."""
        self.cloud.disabled = disabled
        for name in list(self.held):
            cached, provider = self.cache.get(name), self.cloud.providers.get(name)
            if cached is None or provider is None:
                continue
            traits = (provider.traits - {DISABLED}) | ({DISABLED} if disabled else set())
            if traits != provider.traits:
                provider.write(traits=traits)
                cached.traits, cached.generation = traits, provider.generation
                self.writes[name] += 1

    def clear_cache(self) -> None:
        self.cache.clear()
        self.refreshed.clear()

    def whole_pass(self, name: str) -> None:
        """A pass of Nova's, which is tried again when somebody has written meanwhile."""
        cloud = self.cloud
        record = cloud.records.get(name)
        if name not in self.held and record is not None and record.host != HOST:
            raise LookupError(name)
        self.held.setdefault(name, record or Record(HOST))
        if record is None:
            cloud.records[name] = self.held[name] = Record(HOST)
            self.saved.pop(name, None)
        offer = cloud.offers[name]
        servers = sorted(
            one.state
            for one in cloud.servers.values()
            if (one.node, one.host, one.deleted) == (name, HOST, False)
        )
        failed = self.failed[name]
        cloud.meanwhile("servers", name)
        self._remove_deleted(name)
        cloud.meanwhile("allocations", name)
        while True:
            try:
                self._to_placement(name, offer)
                break
            except Conflict:
                self.cache.pop(name, None)
        fresh = Record(HOST, (offer, tuple(servers), failed))
        if self.saved.get(name) != fresh:
            if cloud.conductor_away:
                raise Away(name)
            self.saved[name] = fresh
            cloud.records[name] = self.held[name] = copy.deepcopy(fresh)
        cloud.meanwhile("saved", name)

    def _remove_deleted(self, name: str) -> None:
        provider = self.cloud.placement(name)
        self.consumers[name] = frozenset(provider.consumers if provider else ())
        for uuid in self.consumers[name]:
            server = self.cloud.servers.get(uuid)
            if server is not None and server.deleted and provider is not None:
                provider.consumers.discard(uuid)
        self.consumers[name] = frozenset(provider.consumers if provider else ())

    def _to_placement(self, name: str, offer: int) -> None:
        cloud = self.cloud
        stale = cloud.now - self.refreshed.get(name, 0) > REFRESH
        if name not in self.cache or stale:
            provider = cloud.placement(name)
            if provider is None:
                provider = cloud.providers[name] = Provider()
            inventory = provider.inventory
            cloud.meanwhile("reading", name)
            self.cache[name] = Provider(provider.generation, inventory, provider.traits)
            self.refreshed[name] = cloud.now
        cached = self.cache[name]
        if cached.inventory != offer:
            self._write(name, inventory=offer)
        traits = frozenset({CAPABILITY, *([DISABLED] if cloud.disabled else [])})
        cloud.meanwhile("traits", name)
        if cached.traits != traits:
            self._write(name, traits=traits)

    def _write(self, name: str, **fields: Any) -> None:
        provider, cached = self.cloud.placement(name), self.cache[name]
        if provider is None or provider.generation != cached.generation:
            raise Conflict(name)
        provider.write(**fields)
        cached.write(**fields)
        self.writes[name] += 1

    # -- what ironic_virt.nova.tracker does -----------------------------------

    def _update(self, name: str) -> None:
        nodes = self.nodes
        if nodes is None:
            self.passed[name] = None
            self.whole_pass(name)
            return
        period = nodes.period
        inputs, outcome = self._inputs(name), self._outcome(name)
        is_current = outcome is not None and nodes.is_current(name, outcome)
        reason = nodes.reason(name, inputs, outcome)
        if reason is None:
            return
        self.passed[name] = reason
        if not is_current:
            self.refreshed.pop(name, None)
        self.consumers.pop(name, None)
        self.whole_pass(name)
        outcome = self._outcome(name)
        if outcome is None or inputs != self._inputs(name):
            return
        if settled.is_clean(outcome, period, self.writes[name], self.consumers[name]):
            nodes.keep(name, inputs, outcome, self.consumers[name])

    def _inputs(self, name: str) -> settled.Inputs:
        assert self.nodes is not None
        disabled = self.nodes.period.disabled
        return settled.Inputs(self.cloud.offers[name], disabled, self.failed[name])

    def _outcome(self, name: str) -> settled.CachedNode | None:
        if name not in self.held:
            return None
        saved, cached = self.saved.get(name), self.cache.get(name)
        if cached is None:
            return settled.CachedNode(name, None, False, saved)
        return settled.CachedNode(name, cached.generation, DISABLED in cached.traits, saved)

    def _read(self) -> settled.Period:
        assert self.nodes is not None
        cloud = self.cloud
        generations = None
        if not cloud.placement_away:
            generations = {name: one.generation for name, one in cloud.providers.items()}
            self.writes.clear()
        ours = {uuid: one for uuid, one in cloud.servers.items() if one.host == HOST}
        since = cloud.now - MARGIN if self.since is None else self.since
        written = [
            settled.Server(uuid, one.node, (one.updated_at, one.deleted, one.state))
            for uuid, one in ours.items()
            if one.updated_at >= since
        ]
        uuids = frozenset(uuid for uuid, one in ours.items() if not one.deleted)
        touched = self.servers.touched(uuids, written, self._nodes_of, self.nodes.with_consumer)
        self.since = cloud.now - MARGIN
        return settled.Period(generations, cloud.disabled, uuids, touched)

    def _nodes_of(self, uuids: Collection[str]) -> Mapping[str, str]:
        servers = self.cloud.servers
        return {uuid: servers[uuid].node for uuid in uuids if uuid in servers}


def after_a_whole_pass(compute: Compute) -> Any:
    """What would be seen if all nodes got a whole pass now; nothing is changed."""
    # Locks can't be copied.
    fresh = Compute(copy.deepcopy(compute.cloud), None)
    for name in ("held", "saved", "failed"):
        setattr(fresh, name, copy.deepcopy(getattr(compute, name)))
    fresh.cloud.meanwhile = lambda step, node: None
    fresh.period()
    return fresh.cloud.seen()
