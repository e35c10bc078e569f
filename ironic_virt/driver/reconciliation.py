# SPDX-License-Identifier: Apache-2.0

"""Gives up allocations that this service has made and that nobody wants any more.

A process may die between asking for an allocation and writing that down, and a request
that was lost may come in late.  So now and then all allocations are listed, and those
of ours whose instance the records don't have are noted.  One that is found so a second
time is given up.

What is in use is never touched: Ironic refuses that, and it stays until its instance is
torn down.  Nor is what another host has made, or whoever else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.allocations import Allocation
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory import Snapshot
from ironic_virt.driver import request_notes
from ironic_virt.virt import VirtAPI

LOG = logging.getLogger(__name__)


class Reconciliation:
    """Compares Ironic's allocations with the records.

    Thread-safe; only one thread at a time looks, and others go on.

    :param period: seconds between two looks.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        client: IronicClient,
        virtapi: VirtAPI,
        *,
        period: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._virtapi = virtapi
        self._period = period
        self._clock = clock
        self._looking = threading.Lock()
        self._looked_at: float | None = None
        self._unwanted: frozenset[str] = frozenset()
        self._told: set[str] = set()

    def look(self, snapshot: Snapshot) -> None:
        """Look if it is time, and give up what was unwanted the last time, too.

        A failure is put off to the next time.

        :param snapshot: the nodes of the target set; others' allocations stay.
        """
        if not self._looking.acquire(blocking=False):
            return
        try:
            now = self._clock()
            if self._looked_at is not None and now - self._looked_at < self._period:
                return
            unwanted = self._find()
            self._looked_at = now
            for uuid, allocation in unwanted.items():
                if uuid in self._unwanted:
                    self._give_up(allocation, snapshot)
            self._unwanted = frozenset(unwanted)
            self._told &= unwanted.keys()
        except exceptions.IronicError as exc:
            LOG.warning("Allocations could not be compared with the records: %s", exc)
        finally:
            self._looking.release()

    def _find(self) -> dict[str, Allocation]:
        """Allocations of this host whose instance the records don't have."""
        # Listed first: who is built meanwhile is in the records before it is in Ironic.
        ours = {
            one.uuid: one
            for one in self._client.allocations.listed()
            if request_notes.host_of(one.extra) == self._virtapi.host
        }
        known = set(self._virtapi.existing_instances(list(ours))) if ours else set()
        return {uuid: one for uuid, one in ours.items() if uuid not in known}

    def _give_up(self, allocation: Allocation, snapshot: Snapshot) -> None:
        node = allocation.node_uuid
        if node is not None and node not in snapshot:
            self._tell(allocation, f"its node {node} is not among this service's any more")
            return
        try:
            if self._client.allocations.delete(allocation.uuid):
                LOG.warning(
                    "The allocation of instance %s is given up: the records have had no such "
                    "instance twice. Its node was %s, its state %s",
                    *(allocation.uuid, node or "none", allocation.state),
                )
        except exceptions.Conflict as exc:
            self._tell(allocation, f"Ironic doesn't give it up: {exc.message}")

    def _tell(self, allocation: Allocation, why: str) -> None:
        if allocation.uuid not in self._told:
            self._told.add(allocation.uuid)
            LOG.warning(
                "The allocation of instance %s, which the records don't have, stays: %s",
                *(allocation.uuid, why),
            )
