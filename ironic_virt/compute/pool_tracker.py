# SPDX-License-Identifier: Apache-2.0

"""Keeps the records of this host's pools, and the one compute node record they are in.

Where Ironic picks the nodes, a service has this one record, and no other but those of
single nodes that still have an instance from before.  Where it doesn't, pools that
still have instances stay, and offer nothing.

One refresh at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Sequence

from oslo_log import log as logging

from ironic_virt import virt
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import POOLS, NodeReport, PoolReport, pools_record
from ironic_virt.compute.errors import ComputeNodeNotFound

LOG = logging.getLogger(__name__)


class PoolTracker:
    """Refreshes the records of pools.

    :param host: this service's host name.
    """

    def __init__(self, host: str, driver: virt.ComputeDriver, database: Database) -> None:
        self._host = host
        self._driver = driver
        self._nodes = database.compute_nodes
        self._pools = database.pools
        # A process before this one may have left it.
        self._has_record = True
        self._names: set[str] = set()

    @property
    def record(self) -> str:
        """The uuid of the record that the pools are in."""
        return pools_record(self._host)

    def report(self, name: str) -> PoolReport:
        """What the driver says of a pool."""
        resource = self._driver.get_available_resource(name)
        inventory = self._driver.get_inventory(name)
        return PoolReport(
            name=name,
            resource_class=inventory.resource_class,
            total=inventory.total,
            used=inventory.used,
            reserved=inventory.reserved,
            traits=inventory.traits,
            stats=dict(resource.stats),
            vcpus=resource.vcpus,
            memory_mb=resource.memory_mb,
            local_gb=resource.local_gb,
            cpu_arch=resource.cpu_arch,
        )

    def save(self, pools: Sequence[PoolReport]) -> None:
        """Write the pools down: all that the driver has."""
        names = {pool.name for pool in pools}
        for name in sorted(self._names - names):
            LOG.info("Pool %s has no nodes any more", name)
        self._names = names
        if pools or self._driver.picks_nodes():
            self._write(pools)
            self._has_record = True
        elif self._has_record:
            with contextlib.suppress(ComputeNodeNotFound):
                self._nodes.delete(self.record, host=self._host)
            self._has_record = False

    def withdraw(self) -> None:
        """See that nobody is given a place in a pool; the record stays."""
        if pools := self._pools.list(self._host):
            fields = [field.name for field in dataclasses.fields(PoolReport)]
            self._write(
                [
                    dataclasses.replace(
                        PoolReport(**{name: getattr(pool, name) for name in fields}),
                        reserved=pool.total - pool.used,
                    )
                    for pool in pools
                ]
            )

    def _write(self, pools: Sequence[PoolReport]) -> None:
        # The record offers nothing by itself.
        record = NodeReport(
            self.record, hypervisor_type=POOLS, available=False, pools=tuple(pools)
        )
        self._nodes.save(self._host, [record])

    def keep_only(self, nodes: Collection[str]) -> int:
        """Delete the records of single nodes that the pools have taken the place of.

        :param nodes: those that still have an instance.
        :returns: how many were deleted.
        """
        deleted = self._nodes.keep_only(self._host, {*nodes, self.record})
        if deleted:
            LOG.info("Ironic picks the nodes: the records of %d single nodes are deleted", deleted)
        return deleted
