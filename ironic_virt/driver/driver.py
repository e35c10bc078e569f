# SPDX-License-Identifier: Apache-2.0

"""The façade: the contract's methods, each handed to the module that does it.

Constructing a driver sends nothing; :meth:`IronicDriver.init_host` does.
Thread-safe.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.baremetal import states
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory import Inventory, Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.resync import Resync
from ironic_virt.baremetal.watcher import Watcher
from ironic_virt.driver import pool_records, pools, resources
from ironic_virt.driver.access import NodeAccess
from ironic_virt.driver.deploy import Deployment
from ironic_virt.driver.links import Link
from ironic_virt.driver.network import Network
from ironic_virt.driver.pool_records import PoolRecords
from ironic_virt.driver.power import Power
from ironic_virt.driver.rebuild import Rebuild
from ironic_virt.driver.reconciliation import Reconciliation
from ironic_virt.driver.rescue import Rescue
from ironic_virt.driver.reservation import Reservation
from ironic_virt.driver.selection import NodeSelection
from ironic_virt.driver.teardown import TearDown
from ironic_virt.sharding.ownership import Ownership

LOG = logging.getLogger(__name__)


class IronicDriver(virt.ComputeDriver):
    """Deploys instances on bare metal through Ironic.

    :param conf: with the ``[ironic]`` options.
    :param virtapi: the compute service's side of the contract.
    :param client: for tests; made from ``conf`` otherwise.
    :param watcher: for tests; made from ``conf`` otherwise.
    :param clock: a monotonic clock in seconds.
    :param pause: for tests; waits for so many seconds, and says whether the service stops.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        virtapi: virt.VirtAPI,
        *,
        client: IronicClient | None = None,
        watcher: Watcher | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], bool] | None = None,
    ) -> None:
        super().__init__(conf, virtapi)
        self._clock = clock
        self._client = client or IronicClient.from_conf(conf, virtapi.report_request)
        self._ownership = Ownership(conf, virtapi, self._client)
        resync = Resync(
            self._client,
            lambda: self._ownership.target.node_filter(),
            full_period=conf.ironic.inventory_full_resync_period,
            sweep_period=self._sweep_period,
            clock=clock,
        )
        self._inventory = Inventory(resync.list_nodes, changes=resync.changes, clock=clock)
        self._watcher = watcher or Watcher(
            self._client.single_try(),
            node_filter=lambda: self._ownership.target.node_filter(),
            interval=float(conf.ironic.api_retry_interval),
        )
        self._access = NodeAccess(self._client, self._inventory, self._ownership)
        self._network = Network(self._client, self._access)
        self._selection = NodeSelection(conf, self._client)
        self._pools = PoolRecords(virtapi, self._ownership, self._selection)
        self._stopping = threading.Event()
        self._reconciliation = Reconciliation(
            self._client,
            virtapi,
            period=conf.ironic.inventory_full_resync_period,
            clock=clock,
        )
        self._reservation = Reservation(
            conf,
            self._client,
            self._access,
            virtapi,
            snapshot=lambda fresh: self._snapshot(refresh=fresh),
            allowed=self._pools.allowed,
            pause=pause or self._stopping.wait,
            clock=clock,
        )
        self._teardown = TearDown(
            conf,
            self._client,
            self._access,
            self._network,
            self._watcher,
            virtapi,
            release=self._release_reservation,
            clock=clock,
        )
        self._deployment = Deployment(
            conf,
            self._client,
            self._access,
            self._network,
            self._watcher,
            self._teardown,
            virtapi,
            self._selection,
            self._reservation,
        )
        self._power = Power(conf, self._client, self._access, self._watcher)
        self._rebuild = Rebuild(conf, self._client, self._access, self._watcher, virtapi)
        self._rescue = Rescue(conf, self._client, self._access, self._watcher, virtapi)

    # -- the service's life ---------------------------------------------------

    def init_host(self, host: str) -> None:
        """See that Ironic can be spoken to and can apply our filter.

        :raises InvalidConfiguration: ``conductor_group`` is set with a
            ``peer_list`` that lacks this host, or the hash ring's package is missing.
        :raises MicroversionNotSupported: it can't filter by ``shard_key`` or
            ``conductor_group``; nothing is ever listed without the filter.
        :raises IronicError: it can't be reached or refuses our credentials.
        """
        policy = self._ownership.adopt()
        # Also without any filter: the server may be too old altogether.
        policy.target.check_server(self._client.versions)
        LOG.info("Compute service %s serves the nodes of %s", host, policy)
        if self._by_ironic:
            LOG.info("Ironic picks the nodes; pools say how many there are")

    def cleanup_host(self, host: str) -> None:
        """Wake whoever waits; deployments go on in Ironic."""
        self._stopping.set()
        self._watcher.stop()

    def manages_several_nodes(self) -> bool:
        """One service has many nodes."""
        return True

    @property
    def _by_ironic(self) -> bool:
        return self._selection.by_ironic

    def _release_reservation(self, instance: virt.InstanceLike) -> bool:
        return not self._by_ironic or self._reservation.release(instance)

    # -- nodes ----------------------------------------------------------------

    def _sweep_period(self) -> float:
        # Peers must agree on who has which node as soon as all have refreshed.
        if self.conf.ironic.peer_list and self.conf.ironic.shard_key is None:
            return 0.0
        return float(self.conf.ironic.inventory_sweep_interval)

    def _snapshot(self, *, refresh: bool = False) -> Snapshot:
        """The inventory; if a refresh fails, it and the claim on nodes stay in force."""
        known = self._inventory.snapshot
        if not refresh and known.taken_at is not None:
            return known
        try:
            self._ownership.adopt()
            interval = self.conf.ironic.inventory_refresh_interval
            fresh = self._inventory.ensure(interval) if interval else self._inventory.refresh()
            self._ownership.settle(fresh)
            return fresh
        except exceptions.IronicError:
            if known.taken_at is None:
                raise
            return self._inventory.snapshot

    def _ours(self, *, refresh: bool = False) -> tuple[list[Node], Mapping[str, str]]:
        """Our nodes in the inventory, and those elsewhere by instance."""
        snapshot = self._snapshot(refresh=refresh)
        claim = self._ownership.claim(snapshot)
        ours = [node for uuid, node in snapshot.nodes.items() if uuid in claim.nodes]
        known = {node.uuid for node in ours} if claim.elsewhere else set()
        elsewhere = {
            instance: uuid for instance, uuid in claim.elsewhere.items() if uuid not in known
        }
        return ours, elsewhere

    def _node(self, uuid: str) -> Node:
        """A node from the inventory, else from Ironic."""
        return self._snapshot().nodes.get(uuid) or self._access.fresh(uuid)

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """The uuids of our nodes, in any state; the names of our pools if Ironic picks.

        :raises IronicError: there is no inventory yet and none could be had.
        """
        if self._by_ironic:
            snapshot = self._snapshot(refresh=refresh)
            if refresh:
                self._reconciliation.look(snapshot)
            return self._pools.names(snapshot, anew=refresh)
        ours, elsewhere = self._ours(refresh=refresh)
        former = self._pools.left_over(anew=refresh)
        return [*(node.uuid for node in ours), *elsewhere.values(), *former]

    def node_is_available(self, nodename: str) -> bool:
        """Whether the node, or the pool, is ours."""
        snapshot = self._snapshot()
        if self._by_ironic:
            return nodename in self._pools.names(snapshot)
        if self._pools.is_pool(nodename):
            return nodename in self._pools.left_over()
        if nodename in self._ownership.claim(snapshot):
            return True
        try:
            node = self._client.get_node(nodename)
        except exceptions.NodeNotFound:
            return False
        return self._ownership.serves(node)

    def is_node_deleted(self, nodename: str) -> bool:
        """Whether Ironic itself says that it has no such node, in any shard or group.

        Of a pool, and of a node when Ironic picks: whether it needs no record any more.
        """
        if self._by_ironic:
            return self._pools.is_gone(nodename, self._snapshot())
        if self._pools.is_pool(nodename):
            return not self._pools.has_instances(nodename)
        try:
            self._client.get_node(nodename)
        except exceptions.NodeNotFound as exc:
            # Some proxy's 404 doesn't count: Ironic names the node.
            return nodename in exc.message
        except exceptions.IronicError as exc:
            LOG.warning("Whether node %s is deleted can't be told: %s", nodename, exc)
        return False

    def rebalances_nodes(self) -> bool:
        """Whether the hash ring of ``[ironic] peer_list`` is in force."""
        return self._ownership.by_ring

    def node_versions(self) -> Mapping[str, object]:
        """Our nodes as the inventory has them, or our pools as they were counted."""
        if self._by_ironic:
            return self._pools.versions(self._snapshot())
        ours, _ = self._ours()
        return {node.uuid: node for node in ours}

    def node_version(self, nodename: str) -> object | None:
        """The node as the inventory has it."""
        return self._inventory.snapshot.nodes.get(nodename)

    def nodes_age(self) -> float | None:
        """How many seconds ago Ironic was last asked with success."""
        taken_at = self._inventory.snapshot.taken_at
        return None if taken_at is None else self._clock() - taken_at

    def node_counts(self) -> Mapping[str, int]:
        """How many of our nodes are in each provision state."""
        ours, _ = self._ours()
        # Null is what the API before 1.2 said for available.
        return Counter(node.provision_state or states.AVAILABLE for node in ours)

    def get_available_resource(self, nodename: str) -> virt.NodeResource:
        """What the node is.

        :raises NodeNotAvailable: Ironic has no such node.
        """
        if self._pools.is_pool(nodename):
            return pool_records.resource(self._pools.pool(nodename))
        found = resources.node_resource(self._node(nodename))
        # The record of a node that is in a pool is there for its instance alone.
        return dataclasses.replace(found, available=False) if self._by_ironic else found

    def get_inventory(self, nodename: str) -> virt.NodeInventory:
        """What the node offers."""
        if self._pools.is_pool(nodename):
            return pool_records.inventory(self._pools.pool(nodename))
        offered = resources.node_inventory(self._node(nodename))
        return dataclasses.replace(offered, reserved=1) if self._by_ironic else offered

    def vif_links(self, nodename: str) -> Mapping[str, Link]:
        """The physical link of each VIF on a node, by VIF."""
        return self._network.links(nodename)

    def record_uuid(self, nodename: str) -> str:
        """The uuid of a compute node's record; a node's name is its uuid."""
        return pools.pool_uuid(nodename) if self._pools.is_pool(nodename) else nodename

    def node_of(self, instance: virt.InstanceLike) -> str | None:
        """The uuid of the node that the instance has; the record may name its pool."""
        if instance.node is not None and not self._pools.is_pool(instance.node):
            return instance.node
        node = self._snapshot().by_instance(instance.uuid)
        return (node or self._access.of_instance(instance)).uuid

    # -- instances ------------------------------------------------------------

    def list_instances(self) -> list[str]:
        """Names of the instances on our nodes; the uuid where no name is known."""
        uuids = self.list_instance_uuids()
        names = self.virtapi.instance_names(uuids)
        return [names.get(uuid, uuid) for uuid in uuids]

    def list_instance_uuids(self) -> list[str]:
        """The uuids of the instances on our nodes."""
        ours, elsewhere = self._ours()
        return [*(node.instance_uuid for node in ours if node.instance_uuid), *elsewhere]

    def instance_exists(self, instance: virt.InstanceLike) -> bool:
        """Whether any node in Ironic carries the instance."""
        return self._client.node_of_instance(instance.uuid) is not None

    def get_info(self, instance: virt.InstanceLike, use_cache: bool = True) -> virt.InstanceInfo:
        """The instance's power state.

        :raises InstanceNotFound: no node carries it.
        """
        node = self._snapshot().by_instance(instance.uuid) if use_cache else None
        return resources.instance_info(node or self._access.of_instance(instance))

    def prepare_for_spawn(self, instance: virt.InstanceLike) -> None:
        """See :meth:`Deployment.reserve`."""
        image = self.virtapi.image_of(instance) if self._by_ironic else None
        self._deployment.reserve(instance, image)

    def spawn(
        self,
        context: Any,
        instance: virt.InstanceLike,
        image_meta: virt.ImageLike,
        injected_files: Sequence[tuple[str, bytes]],
        admin_password: str | None,
        allocations: Mapping[str, Any] | None,
        network_info: virt.NetworkInfo | None = None,
        block_device_info: Sequence[virt.BlockDevice] | None = None,
        power_on: bool = True,
        accel_info: Any = None,
    ) -> None:
        """See :meth:`Deployment.spawn`."""
        if block_device_info:
            raise exceptions.OperationNotSupported("spawning with volumes")
        self._deployment.spawn(
            context, instance, image_meta, injected_files, admin_password, network_info or ()
        )
        if not power_on:
            self._power.off(instance)

    def failed_spawn_cleanup(self, instance: virt.InstanceLike) -> None:
        """See :meth:`Deployment.undo`."""
        self._deployment.undo(instance)

    def destroy(
        self,
        context: Any,
        instance: virt.InstanceLike,
        network_info: virt.NetworkInfo | None,
        block_device_info: Sequence[virt.BlockDevice] | None = None,
        destroy_disks: bool = True,
        destroy_secrets: bool = True,
    ) -> None:
        """See :meth:`TearDown.tear_down`."""
        self._teardown.tear_down(instance)

    def rebuild(
        self,
        context: Any,
        instance: virt.InstanceLike,
        image_meta: virt.ImageLike,
        injected_files: Sequence[tuple[str, bytes]],
        admin_password: str | None,
        allocations: Mapping[str, Any] | None,
        bdms: Any = None,
        detach_block_devices: Any = None,
        attach_block_devices: Any = None,
        network_info: virt.NetworkInfo | None = None,
        evacuate: bool = False,
        block_device_info: Sequence[virt.BlockDevice] | None = None,
        preserve_ephemeral: bool = False,
        accel_uuids: Any = None,
        reimage_boot_volume: bool = False,
    ) -> None:
        """See :meth:`Rebuild.rebuild`; it stays on its node."""
        if evacuate:
            raise exceptions.OperationNotSupported("evacuating")
        self._rebuild.rebuild(
            context,
            instance,
            image_meta,
            injected_files,
            admin_password,
            network_info or (),
            block_device_info or (),
            preserve_ephemeral=preserve_ephemeral,
        )

    def rescue(
        self,
        context: Any,
        instance: virt.InstanceLike,
        network_info: virt.NetworkInfo | None,
        image_meta: virt.ImageLike | None,
        rescue_password: str,
        block_device_info: Sequence[virt.BlockDevice] | None = None,
        share_info: Any = None,
    ) -> None:
        """See :meth:`Rescue.rescue`; which system it is, is Ironic's affair."""
        self._rescue.rescue(instance, rescue_password)

    def unrescue(self, context: Any, instance: virt.InstanceLike) -> None:
        """See :meth:`Rescue.unrescue`."""
        self._rescue.unrescue(instance)

    # -- power ----------------------------------------------------------------

    def reboot(
        self,
        context: Any,
        instance: virt.InstanceLike,
        network_info: virt.NetworkInfo | None,
        reboot_type: str,
        block_device_info: Sequence[virt.BlockDevice] | None = None,
        bad_volumes_callback: Any = None,
        accel_info: Any = None,
        share_info: Any = None,
    ) -> None:
        """Reboot; a soft one falls back to a hard one."""
        self._power.reboot(instance, soft=reboot_type == "SOFT")

    def power_off(
        self, instance: virt.InstanceLike, timeout: int = 0, retry_interval: int = 0
    ) -> None:
        """Power off; Ironic watches a soft one itself, so ``retry_interval`` is not used."""
        self._power.off(instance, timeout)

    def power_on(
        self,
        context: Any,
        instance: virt.InstanceLike,
        network_info: virt.NetworkInfo | None,
        block_device_info: Sequence[virt.BlockDevice] | None = None,
        accel_info: Any = None,
        share_info: Any = None,
    ) -> None:
        """Power on."""
        self._power.on(instance)
