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
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    kinds: dict[Kind, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.resource_class:
            kinds[node.resource_class, node.traits].append(node)
    placed, coming = _records_by_pool(kinds, host, places, on_nodes)
    pools: dict[str, Pool] = {}
    for kind, members in kinds.items():
        name = pool_name(host, kind)
        pools[name] = _pool(name, kind, members, placed[name], coming[name])
    for name in (placed.keys() | coming.keys()) - pools.keys():
        kind = (class_of(name, host) or "", frozenset())
        pools[name] = _pool(name, kind, (), placed[name], coming[name])
    return pools


def _pool(name: str, kind: Kind, nodes: Sequence[Node], placed: int, coming: int) -> Pool:
    """Numbers that say that as many are free as look so, less ``coming``.

    :param placed: instances that the records put here, each on some node.  It need not
        be one of this pool: the pool was chosen before the node was.
    :param coming: instances that the records put here, and no node carries yet.
    """
    free_nodes = [node for node in nodes if may_be_free(node)]
    free = len(free_nodes)
    total = max(len(nodes), placed + free, placed + coming)
    domains: Counter[str] | None = None
    if any(node.failure_domain is not None for node in nodes):
        # As many domains as a record holds.
        domains = Counter(node.domain for node in free_nodes if node.domain)
    return Pool(
        name=name,
        resource_class=kind[0],
        traits=kind[1],
        total=total,
        used=placed + coming,
        reserved=total - placed - max(free, coming),
        properties=_in_common(nodes),
        domains=None if domains is None else tuple(sorted(domains.most_common(_MOST_DOMAINS))),
    )


def _records_by_pool(
    of_kinds: Mapping[Kind, Iterable[Node]],
    host: str,
    places: Mapping[str, str],
    on_nodes: Collection[str],
) -> tuple[Counter[str], Counter[str]]:
    """How many instances the records have in each pool, on a node and not yet on one."""
    kinds = {node.instance_uuid: kind for kind, nodes in of_kinds.items() for node in nodes}
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


def _in_common(nodes: Iterable[Node]) -> NodeProperties:
    """What nodes of a kind have in common."""
    # Nodes that are alike share one value.
    several = {id(node.properties): node.properties for node in nodes}.values()
    if not several:
        return NodeProperties()

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
