# SPDX-License-Identifier: Apache-2.0

"""Pools: what a service offers when Ironic picks the node, counted by kind of hardware.

All nodes of one resource class and one set of traits are a pool
(:mod:`ironic_virt.driver.pools.names`).

Three numbers are reported of it: *total*, what is *used* by this service's instances,
and what is *reserved*, because others use it or it can't be used.  Used is what the records
say, since a compute service subtracts that by itself.  The numbers are such that what
it then takes for free is what is free: see :attr:`Pool.free`.

Pure functions of the nodes and of what the records said when they were listed.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from ironic_virt.baremetal.inventory.snapshot import may_be_free
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.pools.names import Kind, class_of, digest, pool_name


class Capacity(enum.Enum):
    """What a service reports as its pools' capacity (``[ironic] capacity``).

    The values are those of the option.
    """

    OWN = "own"
    TOTAL = "total"
    SHARE = "share"


@dataclasses.dataclass(frozen=True, slots=True)
class Hardware:
    """What all nodes of a pool have in common; 0 or ``None`` where they differ.

    :ivar memory_mb: MiB.
    :ivar local_gb: GiB.
    """

    vcpus: int = 0
    memory_mb: int = 0
    local_gb: int = 0
    cpu_arch: str | None = None
    capabilities: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """A kind of nodes, and how many there are for this service.

    :ivar name: see :func:`.names.pool_name`.
    :ivar total: how many nodes it has; never less than are used.
    :ivar used: how many instances the records give this service in this pool.
    :ivar reserved: how many of the others can't be used.
    """

    name: str
    resource_class: str
    traits: frozenset[str]
    total: int
    used: int
    reserved: int
    hardware: Hardware = Hardware()

    @property
    def free(self) -> int:
        """How many more instances the compute service may put here."""
        return max(0, self.total - self.used - self.reserved)


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """What the records say of instances.

    :ivar host: this compute service.
    :ivar places: this host's instances: uuid to the name of the compute node that the
        record names; ``""`` where it names none.
    :ivar live: the hosts that are up; only looked at for shares.
    :ivar hosts: instances on any node, uuid to host; only looked at for shares.
    """

    host: str
    places: Mapping[str, str]
    live: Collection[str] = ()
    hosts: Mapping[str, str] = dataclasses.field(default_factory=dict)


def pools_of(
    nodes: Iterable[Node],
    recorded: Recorded,
    capacity: Capacity,
    on_nodes: Collection[str],
) -> dict[str, Pool]:
    """The pools of a service, by name.

    :param nodes: those that the service may reserve; ones without a resource class are
        left out, since nothing can ask for them.
    :param on_nodes: the instances that are on any node that is known.
    :returns: also pools that have no node any more, as long as the records have an
        instance in them.
    """
    tally = _Tally(nodes)
    placed, coming = _records_by_pool(tally, recorded, on_nodes)
    found: dict[str, Pool] = {}
    for kind, number in tally.nodes.items():
        name = pool_name(recorded.host, kind)
        free = tally.free[kind]
        if capacity is Capacity.SHARE:
            used = _used_by_host(tally.instances[kind], recorded)
            free = share_of(free, used, recorded.host, pool_name("", kind))
            number = free + used[recorded.host]
        found[name] = _pool(name, kind, number, free, placed[name], coming[name])
        found[name] = dataclasses.replace(found[name], hardware=tally.hardware(kind))
    for name in (placed.keys() | coming.keys()) - found.keys():
        kind = (class_of(name, recorded.host) or "", frozenset())
        found[name] = _pool(name, kind, 0, 0, placed[name], coming[name])
    return found


def _pool(name: str, kind: Kind, number: int, free: int, placed: int, coming: int) -> Pool:
    """Numbers that say that ``free`` less ``coming`` are free.

    :param placed: instances that the records put here, each on some node.  It need not
        be one of this pool: the pool was chosen before the node was.
    :param coming: instances that the records put here, and no node carries yet.
    """
    total = max(number, placed + free, placed + coming)
    return Pool(
        name=name,
        resource_class=kind[0],
        traits=kind[1],
        total=total,
        used=placed + coming,
        reserved=total - placed - max(free, coming),
    )


def share_of(free: int, used: Mapping[str, int], host: str, salt: str = "") -> int:
    """How many of the free nodes are a host's, when all hosts are to have equally many.

    Free nodes go to those that have least, until all have the same.  What then is left
    over goes to one each, in an order that ``salt`` decides, so that one host doesn't
    get the odd node of every pool.  Summed up over the hosts it is ``free``.

    :param used: how many nodes each host's instances have; every host is in it.
    """
    least = sorted(used, key=lambda name: (used[name], name))
    water = free
    for number, name in enumerate(least, start=1):
        water += used[name]
        above = used[least[number]] if number < len(least) else None
        if above is None or water <= above * number:
            level, odd = divmod(water, number)
            served = sorted(least[:number], key=lambda name: digest(salt, name))
            if host not in served:
                return 0
            return level + (served.index(host) < odd) - used[host]
    raise ValueError("there are no hosts")


def _used_by_host(instances: Iterable[str], recorded: Recorded) -> Counter[str]:
    used = Counter(dict.fromkeys((*recorded.live, recorded.host), 0))
    for instance in instances:
        # An instance of this host counts as such, whatever another question answered.
        host = recorded.host if instance in recorded.places else recorded.hosts.get(instance, "")
        if host in used:
            used[host] += 1
    return used


def _records_by_pool(
    tally: _Tally, recorded: Recorded, on_nodes: Collection[str]
) -> tuple[Counter[str], Counter[str]]:
    """How many instances the records have in each pool, on a node and not yet on one."""
    where = {
        instance: kind for kind, instances in tally.instances.items() for instance in instances
    }
    on_any = set(on_nodes)
    placed: Counter[str] = Counter()
    coming: Counter[str] = Counter()
    for instance, place in recorded.places.items():
        if class_of(place, recorded.host) is not None:
            (placed if instance in on_any else coming)[place] += 1
        elif not place and instance in where:
            placed[pool_name(recorded.host, where[instance])] += 1
        # Else the record names the node itself, which has a record of its own.
    return placed, coming


class _Tally:
    """Nodes by kind."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: Counter[Kind] = Counter()
        self.free: Counter[Kind] = Counter()
        self.instances: dict[Kind, list[str]] = {}
        self._properties: dict[Kind, dict[int, Node]] = {}
        for node in nodes:
            if not node.resource_class:
                continue
            kind = (node.resource_class, node.traits)
            self.nodes[kind] += 1
            # Nodes that are alike share one value.
            self._properties.setdefault(kind, {}).setdefault(id(node.properties), node)
            if may_be_free(node):
                self.free[kind] += 1
            found = self.instances.setdefault(kind, [])
            if node.instance_uuid:
                found.append(node.instance_uuid)

    def hardware(self, kind: Kind) -> Hardware:
        """What the nodes of a kind have in common."""
        several = [node.properties for node in self._properties[kind].values()]
        first = several[0]
        same = functools.partial(_same, several)
        capabilities = frozenset(first.capabilities).intersection(
            *(each.capabilities for each in several)
        )
        return Hardware(
            vcpus=first.cpus if same("cpus") else 0,
            memory_mb=first.memory_mb if same("memory_mb") else 0,
            local_gb=first.local_gb if same("local_gb") else 0,
            cpu_arch=first.cpu_arch if same("cpu_arch") else None,
            capabilities=tuple(sorted(capabilities)),
        )


def _same(several: Iterable[object], name: str) -> bool:
    return len({getattr(each, name) for each in several}) == 1
