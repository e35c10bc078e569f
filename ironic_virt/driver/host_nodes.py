# SPDX-License-Identifier: Apache-2.0

"""This host's nodes: as they were last listed, and one of them read for an action.

Here alone is said "this node is ours to act on".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory.cache import Inventory
from ironic_virt.baremetal.inventory.resync import SWEEP_PERIOD, Resync
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.sharding import ring
from ironic_virt.sharding.ownership import Ownership
from ironic_virt.virt import InstanceLike

LOG = logging.getLogger(__name__)


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
        self._client = client
        self._clock = clock
        self.ownership = Ownership(conf, service, client, by_ironic)
        resync = Resync(
            client,
            lambda: self.ownership.target.node_filter(),
            full_period=conf.ironic.inventory_full_resync_period,
            # Peers must agree on who has which node as soon as all have refreshed.
            sweep_period=lambda: 0.0 if ring.is_configured(conf) else SWEEP_PERIOD,
            clock=clock,
        )
        self.inventory = Inventory(
            resync.list_nodes,
            changes=resync.changes,
            clock=clock,
            observe=service.metrics.refresh,
        )
        self.refresh_error: str | None = None
        self._blind_at: float | None = -1.0

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
            # Nova's resource tracker takes the record of each node that is reported.
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
        """Seconds since the last successful list of nodes; ``None``: there was none."""
        taken_at = self.inventory.snapshot.taken_at
        return None if taken_at is None else self._clock() - taken_at

    def are_shown(self) -> bool:
        """Whether Ironic shows any node, of any shard; to a user without its role, none."""
        return bool(self._client.lists.last_created(NodeFilter(), 1).nodes)

    def is_deleted(self, uuid: str) -> bool:
        """Whether Ironic itself says, asked once, that it has no such node, and shows others."""
        taken_at = self.inventory.snapshot.taken_at
        if taken_at == self._blind_at:
            return False
        try:
            self._client.single_try().get_node(uuid)
        except exceptions.NodeNotFound as exc:
            # A proxy's 404 names no node.
            if uuid in exc.message:
                if self.are_shown():
                    return True
                # Until the next list there is no need to ask for each record.
                self._blind_at = taken_at
        return False

    # -- one node, for an action ----------------------------------------------

    def read(self, uuid: str, instance: str | None = None) -> Node:
        """A node as it is now, whosever it is.

        :raises NodeNotAvailable: Ironic has no such node.
        """
        try:
            return self._client.get_node(uuid)
        except exceptions.NodeNotFound as exc:
            raise exceptions.NodeNotAvailable(
                uuid,
                instance,
                f"Ironic has no such node ({exc.message})",
                request_id=exc.request_id,
            ) from exc

    def read_carrier(self, instance: InstanceLike) -> Node:
        """The node that carries the instance, wherever it is; not guarded.

        :raises InstanceNotFound: no node does.
        """
        node = self._client.node_of_instance(instance.uuid)
        if node is None:
            raise exceptions.InstanceNotFound(instance.uuid)
        return node

    def check_carries(self, node: Node, instance: str) -> None:
        """Let an action on a node that carries the instance pass.

        :raises NodeTaken, NodeNotAvailable, NodeNotOurs: it is not ours to act on.
        """
        self.ownership.check(node, instance=instance, carries=instance)

    def check_free(self, node: Node, instance: str) -> None:
        """Let an action for an instance on a node that carries none pass; raises likewise."""
        self.ownership.check(node, instance=instance, carries=None)

    def note(self, node: Node) -> None:
        """Let inventory and claim know what was read or changed."""
        if node.instance_uuid is None and self.ownership.target.why_outside(node):
            # Nothing ties it to this service any more; a list would only show that later.
            self.inventory.discard(node.uuid)
        else:
            self.inventory.put(node)
        self.ownership.note(node)

    def note_seen(self, node: Node | None, uuid: str) -> Node | None:
        """Note a node that a wait has shown; read it again if only some fields were shown.

        If it can't be read, the next refresh will.

        :param node: the node as the wait saw it; ``None`` if Ironic had no such node.
        :returns: the node, ``None`` if it is gone or could not be read.
        """
        if node is None or not node.is_whole:
            try:
                node = self._client.get_node(uuid)
            except exceptions.IronicError as exc:
                LOG.debug("Node %s was not read again: %s", uuid, exc)
                return None
        self.note(node)
        return node
