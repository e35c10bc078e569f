# SPDX-License-Identifier: Apache-2.0

"""Keeps the records of this host's nodes as the driver says that the nodes are.

A refresh compares all nodes with their records, which takes 0.1 ms a node, and writes only what
differs.

Nodes that aren't listed any more are withdrawn at once: nobody is given one.  A record is
deleted only after the driver confirms that the node is gone.  A record of another host is
taken over only while the driver's nodes go from host to host by themselves.

Where Ironic picks the nodes, the service's own record has its pools, and only nodes that still
have an instance from before have records.  Where it doesn't, pools that still have instances
stay, and offer nothing.

One refresh at a time.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log as logging

from ironic_virt import logs
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import ComputeNode, NodePool
from ironic_virt.compute.errors import ComputeNodeInUse, ComputeNodeNotFound
from ironic_virt.exceptions import InventoryTooOld, NodeNotAvailable

if TYPE_CHECKING:
    from ironic_virt.driver import IronicDriver
    from ironic_virt.virt import NodeInventory, NodeResource

LOG = logging.getLogger(__name__)

MOST_LOOKED_UP = 50
"""So many nodes that are missing are looked for in one refresh."""

_NAMED = 8


class Tracker:
    """Refreshes the records."""

    def __init__(self, host: str, driver: IronicDriver, database: Database) -> None:
        self._host = host
        self._driver = driver
        self._nodes = database.compute_nodes
        self._pools = database.pools
        self._missing: set[str] = set()
        self._withdrawn = False
        self._logged = logs.LogOnce()
        self._given_back: set[str] = set()

    @property
    def awaits_nodes(self) -> bool:
        """Whether a node that an instance has left is not known to be free again yet."""
        return bool(self._given_back)

    def refresh(self) -> None:
        """Bring the records up to date.

        :raises IronicVirtError: the nodes could not be listed, or the records not
            be read or written; what is left comes with the next refresh.
        :raises InventoryTooOld: the nodes could not be listed for so long that none of them
            is offered any more.
        """
        try:
            self._refresh()
        except InventoryTooOld as error:
            self._withdraw_all(error)
            raise

    def give_back(self, node: str) -> None:
        """Take note that an instance has left its node."""
        self._given_back.add(node)

    def _refresh(self) -> None:
        # A node that is given back from now on may be listed as it was before that.
        given_back = frozenset(self._given_back)
        names = self._driver.get_available_nodes(refresh=True)
        if (failed := self._driver.refresh_error()) is not None:
            # What has come since is not to be overwritten.
            LOG.debug("The records are those of the last successful list: %s", failed)
            return
        picks = self._driver.picks_nodes()
        pools = {name for name in names if self._driver.is_pool(name)}
        uuids = [name for name in names if name not in pools]
        # One of a pool, too, which has no record; a node not listed is not awaited.
        settled = {
            uuid
            for uuid in given_back
            if self._driver.node_version(uuid) is None
            or not self._driver.get_available_resource(uuid).cleaning
        }
        self._save([report for uuid in uuids if (report := self._report(uuid))])
        offered = [self._pool(name) for name in sorted(pools)]
        self._pools.save(self._host, offered if offered or picks else None)
        self._given_back -= settled
        if picks:
            # Pools have taken the place of single nodes that have no instance any more.
            if deleted := self._nodes.keep_only(self._host, uuids):
                LOG.info("Ironic picks the nodes: the records of %d nodes are deleted", deleted)
        else:
            self._look_for(set(self._nodes.uuids(self._host)).difference(uuids))
        if self._withdrawn:
            self._withdrawn = False
            LOG.info("The nodes of this host are offered again")
        LOG.debug("Refreshed the records of %d nodes and %d pools", len(uuids), len(pools))

    def _pool(self, name: str) -> NodePool:
        """What the driver says of a pool."""
        inventory = self._driver.get_inventory(name)
        return NodePool(
            name=name,
            host=self._host,
            resource_class=inventory.resource_class,
            total=inventory.total,
            used=inventory.used,
            reserved=inventory.reserved,
            **_hardware_columns(self._driver.get_available_resource(name), inventory),
        )

    # -- nodes that are there -------------------------------------------------

    def _save(self, reports: Sequence[ComputeNode]) -> None:
        take_over = self._driver.rebalances_nodes()
        conflicts = self._nodes.save(self._host, reports, take_over=take_over)
        for conflict in conflicts.items():
            if self._logged.is_news(conflict):
                LOG.warning(
                    "[node-of-another-host] The record of node %s belongs to host %s and is left "
                    "as it is",
                    *conflict,
                )

    def _report(self, uuid: str) -> ComputeNode | None:
        """What the driver says of a node; ``None``: it is gone since it was listed."""
        try:
            resource = self._driver.get_available_resource(uuid)
            inventory = self._driver.get_inventory(uuid)
        except NodeNotAvailable as error:
            LOG.debug("The record of node %s stays as it is: %s", uuid, error)
            return None
        return ComputeNode(
            uuid=uuid,
            resource_class=resource.resource_class,
            in_use=resource.in_use,
            available=resource.available,
            name=resource.name,
            cleaning=resource.cleaning,
            **_hardware_columns(resource, inventory),
        )

    # -- nodes that are missing -----------------------------------------------

    def _look_for(self, missing: Collection[str]) -> None:
        """Ask after nodes that have a record of this host and are not listed any more."""
        new = sorted(set(missing) - self._missing)
        # All at once: nobody is given a node that isn't this host's any more.
        if new and (withdrawn := self._nodes.withdraw(self._host, new)):
            LOG.warning(
                "[nodes-withdrawn] %d nodes are not among this host's nodes any more, and no "
                "new instance gets them; a record stays until Ironic has no such node: %s%s",
                *(withdrawn, ", ".join(new[:_NAMED]), ", ..." if len(new) > _NAMED else ""),
            )
        self._missing = set(missing)
        # A shard that went elsewhere is not asked for at once.
        for uuid in random.sample(sorted(missing), min(MOST_LOOKED_UP, len(missing))):
            if self._driver.is_node_deleted(uuid):
                self._delete(uuid)

    def _delete(self, uuid: str) -> None:
        try:
            self._nodes.delete(self._host, uuid)
            LOG.info("Node %s is gone from Ironic; its record is deleted", uuid)
        except ComputeNodeNotFound as error:
            LOG.debug("%s", error)
        except ComputeNodeInUse as error:
            if self._logged.is_news(("in use", uuid)):
                LOG.warning(
                    "[node-gone-in-use] Node %s is gone from Ironic. Its record stays: %s; delete "
                    "the server first",
                    *(uuid, error),
                )

    def _withdraw_all(self, error: InventoryTooOld) -> None:
        """See that nobody is given any node of this host; the records stay."""
        if self._withdrawn:
            return
        self._nodes.withdraw(self._host)
        self._pools.withdraw(self._host)
        self._withdrawn = True
        LOG.error("[nodes-withdrawn] No node of this host is offered any more: %s", error)


def _hardware_columns(resource: NodeResource, inventory: NodeInventory) -> dict[str, Any]:
    """What the records have of a node's hardware, or of a pool's."""
    return {
        "vcpus": resource.vcpus,
        "memory_mb": resource.memory_mb,
        "local_gb": resource.local_gb,
        "cpu_arch": resource.cpu_arch,
        "traits": inventory.traits,
        "stats": dict(resource.stats),
    }
