# SPDX-License-Identifier: Apache-2.0

"""This host's nodes as they were last listed; what acts on a node reads it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oslo_config import cfg

from ironic_virt import exceptions, virt
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory.cache import Inventory
from ironic_virt.baremetal.inventory.resync import SWEEP_PERIOD, Resync
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.sharding import ring
from ironic_virt.sharding.ownership import Ownership


class HostNodes:
    """The nodes of this host.  Thread-safe.

    :ivar ownership: which nodes are this host's.
    :ivar inventory: the nodes of the target set.
    :ivar refresh_error: why the last refresh failed; ``None``: it did not.

    :param by_ironic: whether Ironic picks the node for an instance.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        client: IronicClient,
        service: virt.VirtAPI,
        by_ironic: bool,
        clock: Callable[[], float],
    ) -> None:
        self._conf = conf
        self._clock = clock
        self.ownership = Ownership(conf, service, client, by_ironic)
        resync = Resync(
            client,
            lambda: self.ownership.target.node_filter(),
            full_period=conf.ironic.inventory_full_resync_period,
            sweep_period=self._sweep_period,
            clock=clock,
        )
        self.inventory = Inventory(
            resync.list_nodes,
            changes=resync.changes,
            clock=clock,
            observe=service.metrics.refresh,
        )
        self.refresh_error: str | None = None

    def _sweep_period(self) -> float:
        # Peers must agree on who has which node as soon as all have refreshed.
        return 0.0 if ring.is_configured(self._conf) else SWEEP_PERIOD

    def snapshot(self, *, refresh: bool = False) -> Snapshot:
        """The inventory; after a refresh that failed the former one, under the records of now."""
        known = self.inventory.snapshot
        if not refresh and known.taken_at is not None:
            return known
        try:
            self.ownership.adopt()
            fresh = self.inventory.refresh()
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

    def young(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot that is not too old to report nodes by it.

        :raises InventoryTooOld: it is older than ``[ironic] inventory_max_age``.
        """
        most = self._conf.ironic.inventory_max_age
        age = self.age()
        if most and snapshot.stale and age is not None and age > most:
            raise exceptions.InventoryTooOld(
                f"the nodes were last listed {age:.0f} s ago, more than [ironic] "
                f"inventory_max_age = {most}; none is reported until they are listed again: "
                f"{snapshot.error}"
            )
        return snapshot

    def age(self) -> float | None:
        """How many seconds ago Ironic was last asked with success."""
        taken_at = self.inventory.snapshot.taken_at
        return None if taken_at is None else self._clock() - taken_at
