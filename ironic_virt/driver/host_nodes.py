# SPDX-License-Identifier: Apache-2.0

"""This host's nodes, or pools of them: which they are, and what they offer.

Of the inventory, which is as old as its last refresh; what acts on a node reads it anew.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.baremetal import states
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory.cache import Inventory
from ironic_virt.baremetal.inventory.resync import Resync
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.driver.access import NodeAccess
from ironic_virt.driver.left_volumes import LeftVolumes
from ironic_virt.driver.pools import names, records
from ironic_virt.driver.pools.reconciliation import Reconciliation
from ironic_virt.driver.pools.records import PoolRecords
from ironic_virt.driver.pools.selection import NodeSelection
from ironic_virt.sharding.ownership import Ownership

LOG = logging.getLogger(__name__)


class HostNodes:
    """The nodes of this host.  Thread-safe.

    :ivar refresh_error: why the last refresh failed; ``None``: it did not.

    :param take_off: takes what carries an instance off its node; ``False``: it is in use.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        client: IronicClient,
        virtapi: virt.VirtAPI,
        take_off: Callable[[virt.InstanceLike], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._conf = conf
        self._client = client
        self._clock = clock
        self.ownership = Ownership(conf, virtapi, client, lambda: self.selection.by_ironic)
        resync = Resync(
            client,
            lambda: self.ownership.target.node_filter(),
            full_period=conf.ironic.inventory_full_resync_period,
            sweep_period=self._sweep_period,
            clock=clock,
        )
        self.inventory = Inventory(resync.list_nodes, changes=resync.changes, clock=clock)
        self.access = NodeAccess(client, self.inventory, self.ownership)
        self.selection = NodeSelection(conf, client)
        self.pools = PoolRecords(virtapi, self.ownership, self.selection)
        self.refresh_error: str | None = None
        self._reconciliation = Reconciliation(
            client,
            virtapi,
            take_off=take_off,
            period=conf.ironic.inventory_full_resync_period,
            clock=clock,
        )

        self._left_volumes = LeftVolumes(
            client,
            self.access,
            period=conf.ironic.inventory_full_resync_period,
            clock=clock,
        )

    def _sweep_period(self) -> float:
        # Peers must agree on who has which node as soon as all have refreshed.
        if self._conf.ironic.peer_list and self._conf.ironic.shard_key is None:
            return 0.0
        return float(self._conf.ironic.inventory_sweep_interval)

    def snapshot(self, *, refresh: bool = False) -> Snapshot:
        """The inventory; after a refresh that failed the former one, under the records of now."""
        known = self.inventory.snapshot
        if not refresh and known.taken_at is not None:
            return known
        try:
            self.ownership.adopt()
            interval = self._conf.ironic.inventory_refresh_interval
            fresh = self.inventory.ensure(interval) if interval else self.inventory.refresh()
            self.ownership.settle(fresh)
            self.refresh_error = None
            return fresh
        except exceptions.IronicError as exc:
            self.refresh_error = str(exc)
            if known.taken_at is None:
                raise
            # Nova's resource tracker takes back the record of whatever is reported.
            self.ownership.settle(self.inventory.snapshot, listed=False)
            return self.inventory.snapshot

    def ours(self, *, refresh: bool = False) -> tuple[list[Node], Mapping[str, str]]:
        """Our nodes in the inventory, and those elsewhere by instance."""
        snapshot = self.snapshot(refresh=refresh)
        claim = self.ownership.claim(snapshot)
        ours = [node for uuid, node in snapshot.nodes.items() if uuid in claim.nodes]
        known = {node.uuid for node in ours} if claim.elsewhere else set()
        elsewhere = {
            instance: uuid for instance, uuid in claim.elsewhere.items() if uuid not in known
        }
        return ours, elsewhere

    def _known(self, uuid: str) -> Node:
        """A node from the inventory, else from Ironic."""
        return self.snapshot().nodes.get(uuid) or self.access.fresh(uuid)

    def names(self, refresh: bool = False) -> list[str]:
        """The uuids of our nodes, in any state; the names of our pools if Ironic picks.

        :raises IronicError: there is no inventory yet and none could be had.
        :raises InventoryTooOld: it is older than ``[ironic] inventory_max_age``.
        """
        if self.selection.by_ironic:
            snapshot = self._young(self.snapshot(refresh=refresh))
            if refresh:
                self._reconciliation.look(snapshot)
                self._left_volumes.look(snapshot)
            return self.pools.names(snapshot, anew=refresh)
        ours, elsewhere = self.ours(refresh=refresh)
        self._young(self.inventory.snapshot)
        former = self.pools.left_over(anew=refresh)
        if refresh:
            self._reconciliation.look_back(self.snapshot(), at_once=bool(former))
            self._left_volumes.look(self.snapshot())
        return [*(node.uuid for node in ours), *elsewhere.values(), *former]

    def _young(self, snapshot: Snapshot) -> Snapshot:
        """An inventory that is not too old to offer nodes by it."""
        most = self._conf.ironic.inventory_max_age
        age = self.age()
        if most and snapshot.stale and age is not None and age > most:
            raise exceptions.InventoryTooOld(
                f"the nodes were last listed {age:.0f} s ago, more than [ironic] "
                f"inventory_max_age = {most}; none is offered until they are listed again: "
                f"{snapshot.error}"
            )
        return snapshot

    def is_available(self, nodename: str) -> bool:
        """Whether the node, or the pool, is ours."""
        snapshot = self.snapshot()
        if self.selection.by_ironic:
            return nodename in self.pools.names(snapshot)
        if self.pools.is_pool(nodename):
            return nodename in self.pools.left_over()
        if nodename in self.ownership.claim(snapshot):
            return True
        try:
            node = self._client.get_node(nodename)
        except exceptions.NodeNotFound:
            return False
        return self.ownership.serves(node)

    def is_deleted(self, nodename: str) -> bool:
        """Whether Ironic itself says that it has no such node, in any shard or group.

        Of a pool, and of a node when Ironic picks: whether it needs no record any more.
        """
        if self.selection.by_ironic:
            return self.pools.is_gone(nodename, self.snapshot())
        if self.pools.is_pool(nodename):
            return not self.pools.has_instances(nodename)
        try:
            self._client.get_node(nodename)
        except exceptions.NodeNotFound as exc:
            # Some proxy's 404 doesn't count: Ironic names the node.
            return nodename in exc.message
        except exceptions.IronicError as exc:
            LOG.warning("Whether node %s is deleted can't be told: %s", nodename, exc)
        return False

    def versions(self) -> Mapping[str, object]:
        """Our nodes as the inventory has them, or our pools as they were counted."""
        if self.selection.by_ironic:
            return self.pools.versions(self.snapshot())
        ours, _ = self.ours()
        return {node.uuid: node for node in ours}

    def version(self, nodename: str) -> object | None:
        """The node as the inventory has it."""
        return self.inventory.snapshot.nodes.get(nodename)

    def age(self) -> float | None:
        """How many seconds ago Ironic was last asked with success."""
        taken_at = self.inventory.snapshot.taken_at
        return None if taken_at is None else self._clock() - taken_at

    def counts(self) -> Mapping[str, int]:
        """How many of our nodes are in each provision state."""
        ours, _ = self.ours()
        # Null is what the API before 1.2 said for available.
        return Counter(node.provision_state or states.AVAILABLE for node in ours)

    def resource(self, nodename: str) -> virt.NodeResource:
        """What the node is.

        :raises NodeNotAvailable: Ironic has no such node.
        """
        if self.pools.is_pool(nodename):
            return records.resource(self.pools.pool(nodename))
        found = resources.node_resource(self._known(nodename))
        # The record of a node that is in a pool is there for its instance alone.
        return dataclasses.replace(found, available=False) if self.selection.by_ironic else found

    def inventory_of(self, nodename: str) -> virt.NodeInventory:
        """What the node offers."""
        if self.pools.is_pool(nodename):
            return records.inventory(self.pools.pool(nodename))
        offered = resources.node_inventory(self._known(nodename))
        return dataclasses.replace(offered, reserved=1) if self.selection.by_ironic else offered

    def record_uuid(self, nodename: str) -> str:
        """The uuid of a compute node's record; a node's name is its uuid."""
        return names.pool_uuid(nodename) if self.pools.is_pool(nodename) else nodename

    def node_of(self, instance: virt.InstanceLike) -> str:
        """The uuid of the node that the instance has; the record may name its pool."""
        if instance.node is not None and not self.pools.is_pool(instance.node):
            return instance.node
        node = self.snapshot().by_instance(instance.uuid)
        return (node or self.access.of_instance(instance)).uuid

    def may_be_allocated(self, instance: virt.InstanceLike) -> bool:
        """Whether an instance may have an allocation: it was put into a pool, now or before."""
        return self.selection.by_ironic or self.pools.is_pool(instance.node or "")
