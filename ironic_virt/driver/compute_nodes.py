# SPDX-License-Identifier: Apache-2.0

"""The compute nodes that a service reports, and what each of them offers.

That is one for each node of this host or, if Ironic picks the nodes, one for each pool of
them.  All of it is of the inventory, which is as old as its last refresh.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.baremetal.inventory.snapshot import Snapshot, may_be_free
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.pools import names, records
from ironic_virt.driver.pools.counts import Pool
from ironic_virt.driver.pools.records import PoolRecords
from ironic_virt.driver.site import Site
from ironic_virt.sharding.claims import Claim

LOG = logging.getLogger(__name__)


class ComputeNodes:
    """The part of the driver that is about compute nodes.  Thread-safe."""

    _site: Site
    _pools: PoolRecords
    _tally: _Tally | None = None

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """Return the names of this host's compute nodes, listed again first with ``refresh``."""
        nodes = self._site.nodes
        if self._site.by_ironic:
            snapshot = nodes.young(nodes.snapshot(refresh=refresh))
            return self._pools.names(snapshot, recount=refresh)
        ours, elsewhere = nodes.ours(refresh=refresh)
        nodes.young(nodes.inventory.snapshot)
        pools = self._pools.left_over(again=refresh)
        return [*(node.uuid for node in ours), *elsewhere.values(), *pools]

    def node_is_available(self, nodename: str) -> bool:
        """Whether the node, or the pool, is one of this host's."""
        snapshot = self._site.nodes.snapshot()
        if self._site.by_ironic:
            return nodename in self._pools.names(snapshot)
        if self._pools.is_pool(nodename):
            return nodename in self._pools.left_over()
        if nodename in self._site.nodes.ownership.claim(snapshot):
            return True
        try:
            node = self._site.client.get_node(nodename)
        except exceptions.NodeNotFound:
            return False
        return self._site.nodes.ownership.serves(node)

    def is_node_deleted(self, nodename: str) -> bool:
        """Whether it is certain that the node, or the pool, does not exist any more.

        Ironic answers that it has no such node, in any shard or group, but others.  For a pool,
        and for a node if Ironic picks: it needs no record any more.
        """
        if self._site.by_ironic:
            return self._pools.is_gone(nodename, self._site.nodes.snapshot())
        if self._pools.is_pool(nodename):
            return not self._pools.has_instances(nodename)
        try:
            return self._site.nodes.is_deleted(nodename)
        except exceptions.IronicError as exc:
            LOG.warning(
                "[node-unread] Can't find out whether node %s is deleted: %s", nodename, exc
            )
        return False

    def is_pool(self, nodename: str) -> bool:
        """Whether it is the name of a pool of this host; the pool need not exist."""
        return self._pools.is_pool(nodename)

    def node_version(self, nodename: str) -> object | None:
        """Return a value that is equal, and mostly the same, as long as the node is the same.

        As long as it is, :meth:`get_available_resource` and :meth:`get_inventory` return
        the same, so a service with many nodes need not call them.

        :returns: ``None``: it may have changed, or isn't in the last list.
        """
        return self._site.nodes.inventory.snapshot.nodes.get(nodename)

    def node_counts(self) -> virt.NodeCounts:
        """Return how many nodes this host has, as of the last refresh; nobody is asked."""
        nodes = self._site.nodes
        snapshot, claim = nodes.inventory.snapshot, nodes.ownership.claimed
        tally = self._tally
        if tally is None or tally.snapshot is not snapshot or tally.claim is not claim:
            self._tally = tally = _Tally.of(snapshot, claim)
        pools = self._pools.counted()
        policy, ring = nodes.ownership.in_force
        group = policy.target.conductor_group if policy else None
        shard = policy.target.shard_key if policy else None
        return virt.NodeCounts(
            nodes=tally.nodes,
            pools=tally.classes if pools is None else [_count_of(pool) for pool in pools],
            age=nodes.age(),
            stale=snapshot.stale,
            ownership={
                # No name of a group or a shard has that in it.
                "conductor_group": "*" if group is None else group,
                "shard": "*" if shard is None else shard,
                "by": "ring" if ring else "records",
                "node_selection": "scheduler" if pools is None else "ironic",
            },
            ring_members=len(ring.members) if ring else 0,
        )

    def get_available_resource(self, nodename: str) -> virt.NodeResource:
        """Return what the compute node is.

        :raises NodeNotAvailable: Ironic has no such node.
        """
        if self._pools.is_pool(nodename):
            return records.resource_of(self._pools.pool(nodename))
        resource = resources.node_resource(self._known_node(nodename))
        # The record of a node that is in a pool is there for its instance alone.
        return dataclasses.replace(resource, available=False) if self._site.by_ironic else resource

    def get_inventory(self, nodename: str) -> virt.NodeInventory:
        """Return what the compute node offers."""
        if self._pools.is_pool(nodename):
            return records.inventory_of(self._pools.pool(nodename))
        offered = resources.node_inventory(self._known_node(nodename))
        return dataclasses.replace(offered, reserved=1) if self._site.by_ironic else offered

    def record_uuid(self, nodename: str) -> str:
        """Return the uuid of a compute node's record; a node's name is its uuid."""
        return names.pool_uuid(nodename) if self._pools.is_pool(nodename) else nodename

    def node_of(self, instance: virt.InstanceLike) -> str:
        """Return the uuid of the node that an instance has; its record may name a pool."""
        if instance.node is not None and not self._pools.is_pool(instance.node):
            return instance.node
        node = self._site.nodes.snapshot().by_instance(instance.uuid)
        return (node or self._site.nodes.read_carrier(instance)).uuid

    def _known_node(self, uuid: str) -> Node:
        """A node from the inventory, else from Ironic."""
        return self._site.nodes.snapshot().nodes.get(uuid) or self._site.nodes.read(uuid)


def _count_of(pool: Pool) -> virt.PoolCount:
    return virt.PoolCount(
        *(pool.name, pool.resource_class, pool.traits, pool.free, pool.used, pool.reserved)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Tally:
    """Our nodes, counted once for each snapshot: there may be 100,000 of them.

    :ivar nodes: by state, resource class and whether they are in maintenance.
    :ivar classes: as if all nodes of a resource class were one pool.
    """

    snapshot: Snapshot
    claim: Claim | None
    nodes: Mapping[tuple[str, str, bool], int]
    classes: Sequence[virt.PoolCount]

    @classmethod
    def of(cls, snapshot: Snapshot, claim: Claim | None) -> _Tally:
        """Count them."""
        ours = frozenset() if claim is None else claim.nodes
        nodes: Counter[tuple[str, str, bool]] = Counter()
        uses: Counter[tuple[str, str]] = Counter()
        for uuid in ours & snapshot.nodes.keys():
            node = snapshot.nodes[uuid]
            name = node.resource_class or ""
            nodes[node.provision_state, name, node.maintenance] += 1
            use = "used" if node.instance_uuid else "free" if may_be_free(node) else "reserved"
            uses[name, use] += 1
        classes = [
            virt.PoolCount(
                *("", name, frozenset()),
                *(uses[name, use] for use in ("free", "used", "reserved")),
            )
            for name in sorted({name for name, _ in uses if name})
        ]
        return cls(snapshot, claim, nodes, classes)
