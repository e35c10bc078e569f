# SPDX-License-Identifier: Apache-2.0

"""Gives up allocations of this service that no instance needs any more.

A process may die between asking for an allocation and writing that down, and a request
that was lost may come in late.  So now and then all allocations are listed, and those of this
service whose instance the records don't have are noted.  One that is found so a second time
is given up.

A node that was reserved and no more is given back with all that was written to it.  What
is in use is never touched: it stays until its instance is torn down.  Nor is what another
host or anybody else has made.

While the scheduler picks the nodes, this service makes no allocations, and earlier ones are
looked for until a look finds none; the first look has a period's time.
"""

from __future__ import annotations

from collections.abc import Callable

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.allocations import Allocation
from ironic_virt.baremetal.http.requests import hurry_requests
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.driver.pools import allocation_extra
from ironic_virt.driver.pools.strays import Strays
from ironic_virt.driver.site import LONGEST_LOOK, Site

LOG = logging.getLogger(__name__)


class Reconciliation:
    """Compares Ironic's allocations with the records; called by one thread at a time.

    :param take_off: see :meth:`.Release.take_off`.
    """

    def __init__(self, site: Site, take_off: Callable[[str], bool]) -> None:
        self._site = site
        self._take_off = take_off
        self._strays = Strays(site)
        self._period: float = site.conf.ironic.inventory_full_resync_period
        self._looked_at = None if site.by_ironic else site.clock()
        self._unwanted: frozenset[str] = frozenset()
        self._warned: set[str] = set()
        self._over = False
        self._is_forbidden = False

    def look(self) -> None:
        """Look if it is time, and give up what was unwanted the last time, too.

        After any failure it is left to the next time: a refresh does not depend on it.
        """
        current_time = self._site.clock()
        is_early = self._looked_at is not None and current_time - self._looked_at < self._period
        if self._over or is_early:
            return
        try:
            snapshot = self._site.nodes.snapshot()
            deadline = current_time + LONGEST_LOOK
            with hurry_requests(deadline):
                unwanted = self._find()
                self._is_forbidden = False
                self._looked_at = current_time
                twice = unwanted.keys() & self._unwanted
                for uuid in sorted(twice, key=lambda uuid: (uuid in self._warned, uuid)):
                    if self._site.clock() < deadline:
                        self._give_up(unwanted[uuid], snapshot)
                self._unwanted = frozenset(unwanted)
                self._warned &= unwanted.keys()
                if self._site.by_ironic:
                    self._strays.look(snapshot, deadline)
        except Exception as exc:
            is_forbidden = isinstance(exc, exceptions.IronicError) and exc.status == 403
            if is_forbidden:
                # The operator may want it so: warn once, and don't try at each refresh.
                self._looked_at = current_time
            if not (is_forbidden and self._is_forbidden):
                LOG.warning(
                    "[allocations-not-compared] Allocations could not be compared with the "
                    "records: %s",
                    exc,
                    exc_info=not isinstance(exc, exceptions.IronicVirtError),
                )
            self._is_forbidden = is_forbidden

    def _find(self) -> dict[str, Allocation]:
        """Allocations of this host whose instance the records don't have."""
        # Listed first: who is built meanwhile is in the records before it is in Ironic.
        ours = {
            allocation.uuid: allocation
            for allocation in self._site.client.allocations.listed()
            if allocation_extra.host_of(allocation.extra) == self._site.service.host
        }
        self._over = not (ours or self._site.by_ironic)
        known = set(self._site.service.existing_instances(list(ours))) if ours else set()
        return {uuid: allocation for uuid, allocation in ours.items() if uuid not in known}

    def _give_up(self, listed: Allocation, snapshot: Snapshot) -> None:
        allocation: Allocation | None = listed
        try:
            if listed.node_uuid is None:
                # It may have got one since it was listed.
                allocation = self._site.client.allocations.get(listed.uuid)
            if allocation is None:
                return
            node = allocation.node_uuid
            if node is not None and node not in snapshot:
                self._tell(allocation, f"its node {node} is not among this service's any more")
                return
            if node is None:
                self._site.client.allocations.delete(allocation.uuid)
            elif not self._take_off(allocation.uuid):
                # The records may be wrong, after a restore for instance: somebody may work there.
                self._tell(
                    allocation,
                    f"its node {node} is in use. If nobody needs what is there: openstack "
                    f"baremetal node undeploy {node}; the allocation goes with it",
                )
                return
        except exceptions.IronicVirtError as exc:
            self._tell(listed, str(exc))
            return
        LOG.warning(
            "[allocation-given-up] The allocation of instance %s is given up: the records have "
            "had no such instance twice. Its node was %s, its state %s",
            *(allocation.uuid, node or "none", allocation.state),
        )

    def _tell(self, allocation: Allocation, why: str) -> None:
        if allocation.uuid not in self._warned:
            self._warned.add(allocation.uuid)
            LOG.warning(
                "[allocation-stays] The records have no instance %s, but its allocation stays: %s",
                *(allocation.uuid, why),
            )
