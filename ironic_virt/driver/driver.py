# SPDX-License-Identifier: Apache-2.0

"""The façade: what a compute service asks, each method handed to the module that does it.

What needs no other module is in parts of the class, such as its compute nodes and the power.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import virt
from ironic_virt.baremetal import states
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.conf import ironic as ironic_conf
from ironic_virt.driver import history
from ironic_virt.driver.compute_nodes import ComputeNodes
from ironic_virt.driver.console import Console
from ironic_virt.driver.deploy.completion import Completion
from ironic_virt.driver.deploy.config_drive import ConfigDrives
from ironic_virt.driver.deploy.rebuild import rebuild_instance
from ironic_virt.driver.deploy.release import Release
from ironic_virt.driver.deploy.spawn import Spawn
from ironic_virt.driver.deploy.teardown import TearDown
from ironic_virt.driver.groups import Groups
from ironic_virt.driver.hooks import Hooks
from ironic_virt.driver.host_nodes import HostNodes
from ironic_virt.driver.instances import Instances
from ironic_virt.driver.left_reservations import LeftReservations
from ironic_virt.driver.left_volumes import LeftVolumes
from ironic_virt.driver.network import Network
from ironic_virt.driver.pools.reconciliation import Reconciliation
from ironic_virt.driver.pools.records import PoolRecords
from ironic_virt.driver.pools.reservation import Reservation
from ironic_virt.driver.power import Power
from ironic_virt.driver.reach import lease_of
from ironic_virt.driver.rescue import Rescue
from ironic_virt.driver.site import Site
from ironic_virt.driver.volumes import Volumes

LOG = logging.getLogger(__name__)


class IronicDriver(ComputeNodes, Console, Instances, Power, Rescue):
    """Deploys instances on bare metal through Ironic, for a compute service.

    The names are Nova's.  The arguments are those of Nova's that are read.  Every method may
    block, may be called from any thread, and raises
    :class:`~ironic_virt.exceptions.IronicVirtError` or one of its kinds.  An action on the node
    that carries an instance raises ``InstanceNotFound`` if none does, and ``NodeNotOurs``,
    before anything is done, if that is outside the target set.  Constructing a driver sends
    nothing; :meth:`init_host` does.

    :param conf: with the ``[ironic]`` options.
    :param virtapi: the compute service's side of the contract.
    :param client, watcher: for tests; made from ``conf`` otherwise.
    :param clock: a monotonic clock in seconds.
    :param pause: for tests; waits for so many seconds; returns whether the service stops.
    :ivar lease: which process of this host name is active; ``None``: there is no standby.
    :raises InvalidConfiguration: the backend of the standby can't be used.
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
        self.conf = conf
        self.virtapi = virtapi
        self.lease = lease_of(conf, virtapi)
        client = client or IronicClient.from_conf(conf, virtapi.metrics.request, self.lease)
        self._stopping = threading.Event()
        # Asked for each node; the option is not mutable.
        by_ironic = conf.ironic.node_selection == "ironic"
        nodes = HostNodes(conf, client, virtapi, by_ironic, clock)
        watcher = watcher or Watcher(
            client.single_try(),
            node_filter=lambda: nodes.ownership.target.node_filter(),
            interval=ironic_conf.retry_interval(conf),
            while_waiting=virtapi.waiting,
        )
        pause = pause or self._stopping.wait
        self._site = site = Site(conf, client, virtapi, by_ironic, nodes, watcher, clock, pause)
        self._pools = pools = PoolRecords(site)
        self._network = Network(site)
        self._volumes = Volumes(site)
        groups = Groups(site)
        reservation = Reservation(site, pools, groups)
        release = Release(site, self._network, self._volumes)
        self._teardown = TearDown(site, release, self._volumes, reservation)
        self._hooks = hooks = Hooks.from_conf(conf, client, virtapi)
        self._drives = drives = ConfigDrives(site, self._network)
        self._completion = Completion(site, hooks, self._teardown)
        self._spawn = Spawn(
            *(site, self._network, self._volumes, drives, hooks),
            *(groups, reservation, self._completion),
        )
        self._looking = threading.Lock()
        self._reconciliation = Reconciliation(site, release.take_off)
        self._left_reservations = LeftReservations(site, release.take_off)
        self._left_volumes = LeftVolumes(site)

    # -- the service's life ---------------------------------------------------

    def init_host(self, host: str) -> None:
        """Wait until this process is the active one; check that Ironic is not too old.

        :raises InvalidConfiguration: the options can't be used.
        :raises MicroversionNotSupported: it is.
        :raises IronicError: it can't be reached or refuses our credentials.
        """
        if self.lease is not None:
            self.lease.wait(host, self.virtapi.standing_by)
        policy = self._site.nodes.ownership.adopt()
        newest = self._site.client.versions.maximum
        LOG.info("Compute service %s serves the nodes of %s; API %s", host, policy, newest)
        if self._site.by_ironic:
            LOG.info("Ironic picks the nodes; each pool reports the number of its free nodes")

    def cleanup_host(self) -> None:
        """Stop background work, and end all waits; deployments continue in Ironic."""
        self._stopping.set()
        self._site.watcher.stop()

    def let_go(self) -> None:
        """Give the lease to a standby, if there is one; nothing more is sent to Ironic."""
        if self.lease is not None:
            self.lease.hand_over()

    # -- nodes ----------------------------------------------------------------

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """Return the names of this host's compute nodes.

        A name is a node's uuid or, if Ironic picks the nodes, the name of a pool.

        :param refresh: list the nodes again first, and look for what was left behind.
        :raises IronicError: the nodes have never been listed, and can't be listed now.
        :raises InventoryTooOld: it is older than ``[ironic] inventory_max_age``.
        """
        names = super().get_available_nodes(refresh)
        # One thread at a time looks, and others go on.
        if refresh and self._looking.acquire(blocking=False):
            try:
                self._reconciliation.look()
                self._left_reservations.look()
                self._left_volumes.look()
            finally:
                self._looking.release()
        return names

    def picks_nodes(self) -> bool:
        """Whether Ironic picks the nodes, so that the compute nodes are pools."""
        return self._site.by_ironic

    def rebalances_nodes(self) -> bool:
        """Whether nodes move between hosts by themselves.

        If so, a service takes over the records of the nodes that
        :meth:`get_available_nodes` returns.  If not, it never does.
        """
        return self._site.nodes.ownership.by_ring

    def refresh_error(self) -> str | None:
        """Return why the last refresh failed, and the nodes are those of an earlier one."""
        return self._site.nodes.refresh_error

    def node_counts(self) -> virt.NodeCounts:
        """Return how many nodes this host has, as of the last refresh; nobody is asked."""
        counts = super().node_counts()
        if (lease := self.lease) is None:
            return counts
        reports = lease.foreign_reports
        return dataclasses.replace(
            counts, active=lease.holds, lease_age=lease.age(), foreign_reports=reports
        )

    # -- instances ------------------------------------------------------------

    def prepare_for_spawn(self, instance: virt.InstanceLike, *, is_nowhere: bool = False) -> None:
        """Reserve a node for the instance, or raise an error and change nothing.

        :param is_nowhere: by the records: what Ironic still has of it is torn down first, but
            for a reservation that fits.
        """
        site = self._site
        if is_nowhere and (node := site.client.node_of_instance(instance.uuid)) is not None:
            fits = site.by_ironic or node.uuid == instance.node
            if not fits or node.provision_state != states.AVAILABLE:
                self._teardown.tear_down(instance)
        image = self.virtapi.image_of(instance) if self._site.by_ironic else None
        self._spawn.reserve(instance, image, begins=True)

    def prepare_networks_before_block_device_mapping(
        self, instance: virt.InstanceLike, network_info: virt.NetworkInfo
    ) -> None:
        """Attach an instance's VIFs to the node that is reserved for it.

        For a service that prepares block devices before it calls :meth:`spawn`, because the
        volume connector has the address of a VIF.  ``spawn`` attaches what is missing.
        """
        self._network.prepare(instance, network_info)

    def spawn(self, request: virt.DeployRequest) -> None:
        """Deploy the instance, whose node may not be reserved yet; return when it is active."""
        self._spawn.spawn(request)

    def finish_spawn(self, instance: virt.InstanceLike) -> None:
        """Return when a deployment that another process has begun is active."""
        self._completion.finish(instance)

    def failed_spawn_cleanup(self, instance: virt.InstanceLike) -> None:
        """Undo what a failed spawn has left."""
        self._teardown.tear_down(instance, lost=instance.node)

    def destroy(self, instance: virt.InstanceLike) -> None:
        """Tear the instance down; return when no node has it any more."""
        with history.explained_errors(self._site.client):
            self._teardown.tear_down(instance, lost=instance.node)

    def rebuild(self, request: virt.DeployRequest) -> None:
        """Deploy an image onto the instance's node again; return when it is active.

        :raises RebuildFailed: says what is on the disk.
        """
        with history.explained_errors(self._site.client):
            rebuild_instance(self._site, self._drives, self._hooks, request)

    # -- networks, volumes ----------------------------------------------------

    def attach_interface(self, instance: virt.InstanceLike, vif: virt.VifLike) -> None:
        """Attach a virtual interface to an instance, unless it is attached already.

        :raises NoFreePort: its node has no free port.
        :raises VifAttachFailed: says why; it is not attached.
        """
        self._network.attach_interface(instance, vif)

    def detach_interface(self, instance: virt.InstanceLike, vif: virt.VifLike) -> None:
        """Detach a virtual interface from an instance, if it is attached.

        :raises VifDetachFailed: says why; it is still attached.
        """
        self._network.detach_interface(instance, vif)

    def get_volume_connector(self, instance: virt.InstanceLike) -> Mapping[str, Any]:
        """Return what a volume service must know to export a volume to the node.

        :raises InstanceNotFound: its record names no node, and no node carries it.
        """
        return self._volumes.connector(instance, self.node_of(instance))
