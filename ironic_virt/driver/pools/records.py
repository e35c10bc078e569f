# SPDX-License-Identifier: Apache-2.0

"""The compute node records that a service keeps when Ironic picks the node.

There is one for each pool.  A node or a pool may also have a record from before
``node_selection`` was changed: it is kept until its last instance is gone, and gets no new one.

Counted at each refresh; until the next one the numbers stay.  Thread-safe: they are
replaced as a whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from ironic_virt import virt
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.driver import resources
from ironic_virt.driver.pools import counts, names
from ironic_virt.driver.pools.counts import Pool
from ironic_virt.driver.site import Site


@dataclasses.dataclass(frozen=True, slots=True)
class _Count:
    """The pools as of one refresh, and the other records that still have an instance."""

    pools: Mapping[str, Pool]
    others: frozenset[str]


class PoolRecords:
    """Answers what a compute service asks of the records of its compute nodes."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._count: _Count | None = None
        self._left: frozenset[str] | None = None

    # -- which nodes ----------------------------------------------------------

    @property
    def _own(self) -> bool:
        """Whether the nodes of the target set are taken for this service's alone."""
        capacity: str | None = self._site.conf.ironic.capacity
        if capacity is not None:
            return capacity == "own"
        ownership = self._site.nodes.ownership
        target = ownership.target
        named = target.shard_key is not None or target.conductor_group is not None
        return named or ownership.by_ring

    def allowed(self, snapshot: Snapshot) -> Collection[str] | None:
        """The uuids of the nodes that this service may have reserved; ``None``: all.

        A node that another host has a record of belongs to that host.
        """
        claim = self._site.nodes.ownership.claim(snapshot)
        return claim.nodes if self._own or claim.foreign else None

    # -- the count ------------------------------------------------------------

    def _settle(self, snapshot: Snapshot) -> _Count:
        """Count the nodes.

        :param snapshot: the nodes, just listed and settled by the ownership.
        """
        places = self._site.service.instance_places()
        allowed = self.allowed(snapshot)
        nodes = (
            node for uuid, node in snapshot.nodes.items() if allowed is None or uuid in allowed
        )
        counted = counts.pools_of(nodes, self._site.service.host, places, snapshot.instance_uuids)
        others = frozenset(place for place in places.values() if place) - counted.keys()
        self._count = count = _Count(counted, others)
        return count

    def counted(self) -> Collection[Pool] | None:
        """The pools as of the last count; ``None``: there was none.  Nobody is asked."""
        return None if self._count is None else self._count.pools.values()

    # -- what a compute service asks ------------------------------------------

    def names(self, snapshot: Snapshot, *, recount: bool = False) -> list[str]:
        """The names of the compute nodes.

        :param recount: count first; the snapshot has just been taken.
        """
        count = (None if recount else self._count) or self._settle(snapshot)
        return [*count.pools, *sorted(count.others)]

    def is_gone(self, name: str, snapshot: Snapshot) -> bool:
        """Whether a record may go: there is no such pool, and it has no instance."""
        count = self._count or self._settle(snapshot)
        return name not in count.pools and not self.has_instances(name)

    def has_instances(self, name: str) -> bool:
        """Whether the records put an instance of this host onto the compute node."""
        return name in self._site.service.instance_places().values()

    def is_pool(self, name: str) -> bool:
        """Whether a name is the name of a pool of this host; the pool need not exist."""
        return names.class_of(name, self._site.service.host) is not None

    def pool(self, name: str) -> Pool:
        """A pool as counted; one that has no nodes offers none and keeps its instances."""
        if self._count is not None and name in self._count.pools:
            return self._count.pools[name]
        used = list(self._site.service.instance_places().values()).count(name)
        resource_class = names.class_of(name, self._site.service.host) or ""
        return Pool(name, resource_class, frozenset(), used, used, 0)

    # -- while the scheduler picks the node -----------------------------------

    def left_over(self, *, again: bool = False) -> Collection[str]:
        """Pools that still have an instance, from when Ironic picked the node.

        The records are asked once, and again only as long as there is such a pool.
        """
        if self._left is None or (again and self._left):
            places = self._site.service.instance_places().values()
            self._left = frozenset(place for place in places if self.is_pool(place))
        return sorted(self._left)


def resource_of(pool: Pool) -> virt.NodeResource:
    """A pool as a compute service keeps it; sizes are what each of its nodes has."""
    properties = pool.properties
    return virt.NodeResource(
        uuid=names.pool_uuid(pool.name),
        hypervisor_hostname=pool.name,
        vcpus=properties.cpus,
        memory_mb=properties.memory_mb,
        local_gb=properties.local_gb,
        in_use=False,
        cpu_arch=properties.cpu_arch,
        resource_class=pool.resource_class,
        stats=resources.stats_of(properties),
        available=pool.free > 0,
        failure_domains=None if pool.domains is None else dict(pool.domains),
        traits=pool.traits,
    )


def inventory_of(pool: Pool) -> virt.NodeInventory:
    """What a pool offers."""
    return virt.NodeInventory(
        resource_class=pool.resource_class,
        placement_class=resources.placement_class(pool.resource_class),
        total=pool.total,
        reserved=pool.reserved,
        used=pool.used,
        traits=pool.traits,
    )
