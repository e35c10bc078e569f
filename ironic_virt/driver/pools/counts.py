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
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ironic_virt.baremetal.inventory.snapshot import may_be_free
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.properties import NodeProperties
from ironic_virt.driver.pools.names import Kind, class_of, pool_name

_MOST_DOMAINS = 200
"""Of 255 characters; Nova's column holds 64 kB."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """A kind of nodes, and how many there are for this service.

    :ivar name: see :func:`.names.pool_name`.
    :ivar total: how many nodes it has; never less than are used.
    :ivar used: how many instances the records give this service in this pool.
    :ivar reserved: how many of the others can't be used.
    :ivar properties: what all of its nodes have in common; 0 or ``None`` where they differ.
    :ivar domains: how many look free in each failure domain; ``None``: nothing names those.
    """

    name: str
    resource_class: str
    traits: frozenset[str]
    total: int
    used: int
    reserved: int
    properties: NodeProperties = dataclasses.field(default_factory=NodeProperties)
    domains: tuple[tuple[str, int], ...] | None = None

    @property
    def free(self) -> int:
        """How many more instances the compute service may put here."""
        return max(0, self.total - self.used - self.reserved)


def pools_of(
    nodes: Iterable[Node], host: str, places: Mapping[str, str], on_nodes: Collection[str]
) -> dict[str, Pool]:
    """The pools of a service, by name.

    :param nodes: those that the service may reserve; ones without a resource class are
        left out, since nothing can ask for them.
    :param host: this compute service.
    :param places: this host's instances: uuid to the name of the compute node that the
        record names; ``""`` where it names none.
    :param on_nodes: the instances that are on any node that is known.
    :returns: also pools that have no node any more, as long as the records have an
        instance in them.
    """
    tally = _KindTally(nodes)
    placed, coming = _records_by_pool(tally, host, places, on_nodes)
    pools: dict[str, Pool] = {}
    for kind, number in tally.nodes.items():
        name = pool_name(host, kind)
        pool = _pool(name, kind, number, tally.free[kind], placed[name], coming[name])
        pools[name] = dataclasses.replace(
            pool, properties=tally.in_common(kind), domains=tally.domains(kind)
        )
    for name in (placed.keys() | coming.keys()) - pools.keys():
        kind = (class_of(name, host) or "", frozenset())
        pools[name] = _pool(name, kind, 0, 0, placed[name], coming[name])
    return pools


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


def _records_by_pool(
    tally: _KindTally, host: str, places: Mapping[str, str], on_nodes: Collection[str]
) -> tuple[Counter[str], Counter[str]]:
    """How many instances the records have in each pool, on a node and not yet on one."""
    kinds = {
        instance: kind for kind, instances in tally.instances.items() for instance in instances
    }
    on_any = set(on_nodes)
    placed: Counter[str] = Counter()
    coming: Counter[str] = Counter()
    for instance, place in places.items():
        if class_of(place, host) is not None:
            (placed if instance in on_any else coming)[place] += 1
        elif not place and instance in kinds:
            placed[pool_name(host, kinds[instance])] += 1
        # Else the record names the node itself, which is then counted by its own record.
    return placed, coming


class _KindTally:
    """Nodes by kind."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: Counter[Kind] = Counter()
        self.free: Counter[Kind] = Counter()
        self.instances: dict[Kind, list[str]] = {}
        self._properties: dict[Kind, dict[int, Node]] = {}
        self._domains: dict[Kind, Counter[str]] = {}
        for node in nodes:
            if not node.resource_class:
                continue
            kind = (node.resource_class, node.traits)
            self.nodes[kind] += 1
            # Nodes that are alike share one value.
            self._properties.setdefault(kind, {}).setdefault(id(node.properties), node)
            self.free[kind] += may_be_free(node)
            if node.failure_domain is not None:
                free = [node.domain] * (node.domain != "" and may_be_free(node))
                self._domains.setdefault(kind, Counter()).update(free)
            instances = self.instances.setdefault(kind, [])
            if node.instance_uuid:
                instances.append(node.instance_uuid)

    def domains(self, kind: Kind) -> tuple[tuple[str, int], ...] | None:
        """The free nodes of a kind by failure domain, as many domains as a record holds."""
        domains = self._domains.get(kind)
        return None if domains is None else tuple(sorted(domains.most_common(_MOST_DOMAINS)))

    def in_common(self, kind: Kind) -> NodeProperties:
        """What the nodes of a kind have in common."""
        several = [node.properties for node in self._properties[kind].values()]

        def same(name: str) -> Any:
            values = {getattr(each, name) for each in several}
            return values.pop() if len(values) == 1 else None

        capabilities = frozenset.intersection(*(frozenset(each.capabilities) for each in several))
        return NodeProperties(
            cpus=same("cpus") or 0,
            memory_mb=same("memory_mb") or 0,
            local_gb=same("local_gb") or 0,
            cpu_arch=same("cpu_arch"),
            capabilities=tuple(sorted(capabilities)),
        )
