# SPDX-License-Identifier: Apache-2.0

"""The façade: the contract's methods, each handed to the module that does it.

Constructing a driver sends nothing; :meth:`IronicDriver.init_host` does.
Thread-safe.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import virt
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.driver import history
from ironic_virt.driver.compute_nodes import ComputeNodes
from ironic_virt.driver.console import Console
from ironic_virt.driver.deploy.completion import Completion
from ironic_virt.driver.deploy.config_drive import ConfigDrives
from ironic_virt.driver.deploy.rebuild import Rebuild
from ironic_virt.driver.deploy.spawn import Spawn
from ironic_virt.driver.deploy.teardown import TearDown
from ironic_virt.driver.hooks import Hooks
from ironic_virt.driver.instances import Instances
from ironic_virt.driver.left_volumes import LeftVolumes
from ironic_virt.driver.network import Network
from ironic_virt.driver.pools.reconciliation import Reconciliation
from ironic_virt.driver.pools.records import PoolRecords
from ironic_virt.driver.pools.reservation import Reservation
from ironic_virt.driver.power import Power
from ironic_virt.driver.rescue import Rescue
from ironic_virt.driver.site import Site
from ironic_virt.driver.volumes import Volumes

if TYPE_CHECKING:
    from ironic_virt.standby import Lease

LOG = logging.getLogger(__name__)


class IronicDriver(virt.ComputeDriver):
    """Deploys instances on bare metal through Ironic.

    :param conf: with the ``[ironic]`` options.
    :param virtapi: the compute service's side of the contract.
    :param client: for tests; made from ``conf`` otherwise.
    :param watcher: for tests; made from ``conf`` otherwise.
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
        super().__init__(conf, virtapi)
        self.lease = _lease(conf)
        client = client or IronicClient.from_conf(conf, virtapi.metrics.request, self.lease)
        self._stopping = threading.Event()
        self._site = site = Site.survey(
            conf,
            virtapi,
            client,
            watcher=watcher,
            clock=clock,
            pause=pause or self._stopping.wait,
        )
        self._pools = pools = PoolRecords(site)
        self._compute_nodes = ComputeNodes(site, pools)
        self._instances = Instances(site)
        self._network = Network(site)
        self._power = Power(site)
        self._volumes = Volumes(site, self._power)
        self._console = Console(site)
        reservation = Reservation(site, pools)
        self._teardown = TearDown(site, self._network, self._volumes, self._console, reservation)
        hooks = Hooks.from_conf(conf, client, virtapi)
        drives = ConfigDrives(site, self._network)
        self._completion = Completion(site, hooks, self._teardown)
        self._spawn = Spawn(
            site, self._network, self._volumes, drives, hooks, reservation, self._completion
        )
        self._rebuild = Rebuild(site, drives, hooks)
        self._rescue = Rescue(site)
        self._reconciliation = Reconciliation(site, pools, self._teardown.take_off)
        self._left_volumes = LeftVolumes(site)

    # -- the service's life ---------------------------------------------------

    def init_host(self, host: str) -> None:
        """Wait until this process is the active one; check that Ironic is not too old.

        :raises InvalidConfiguration: ``conductor_group`` is set with a
            ``peer_list`` that lacks this host, or the hash ring's package is missing.
        :raises MicroversionNotSupported: it is.
        :raises IronicError: it can't be reached or refuses our credentials.
        """
        if self.lease is not None:
            self.lease.wait(host, self.virtapi.standing_by)
        policy = self._site.nodes.ownership.adopt()
        newest = self._site.client.versions.maximum
        LOG.info("Compute service %s serves the nodes of %s; API %s", host, policy, newest)
        if self._site.by_ironic:
            LOG.info("Ironic picks the nodes; pools say how many there are")

    def cleanup_host(self) -> None:
        """End all waits; deployments continue in Ironic."""
        self._stopping.set()
        self._site.watcher.stop()

    def let_go(self) -> None:
        """Give the lease to a standby, if there is one."""
        if self.lease is not None:
            self.lease.release()

    # -- nodes ----------------------------------------------------------------

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """See :meth:`ComputeNodes.names`; with ``refresh``, what was left behind is looked for."""
        names = self._compute_nodes.names(refresh)
        if refresh:
            self._reconciliation.look()
            self._left_volumes.look()
        return names

    def node_is_available(self, nodename: str) -> bool:
        """See :meth:`ComputeNodes.is_available`."""
        return self._compute_nodes.is_available(nodename)

    def is_node_deleted(self, nodename: str) -> bool:
        """See :meth:`ComputeNodes.is_deleted`."""
        return self._compute_nodes.is_deleted(nodename)

    def picks_nodes(self) -> bool:
        """Whether Ironic picks."""
        return self._site.by_ironic

    def is_pool(self, nodename: str) -> bool:
        """Whether it is the name of a pool of this host; the pool need not exist."""
        return self._pools.is_pool(nodename)

    def rebalances_nodes(self) -> bool:
        """Whether the hash ring of ``[ironic] peer_list`` is in force."""
        return self._site.nodes.ownership.by_ring

    def node_versions(self) -> Mapping[str, object]:
        """See :meth:`ComputeNodes.versions`."""
        return self._compute_nodes.versions()

    def node_version(self, nodename: str) -> object | None:
        """See :meth:`ComputeNodes.version`."""
        return self._compute_nodes.version(nodename)

    def refresh_error(self) -> str | None:
        """See :attr:`HostNodes.refresh_error`."""
        return self._site.nodes.refresh_error

    def node_counts(self) -> virt.NodeCounts:
        """See :meth:`ComputeNodes.counts`; with the lease, if there may be a standby."""
        counts = self._compute_nodes.counts()
        if self.lease is None:
            return counts
        return dataclasses.replace(counts, active=self.lease.holds, lease_age=self.lease.age())

    def get_available_resource(self, nodename: str) -> virt.NodeResource:
        """See :meth:`ComputeNodes.resource`."""
        return self._compute_nodes.resource(nodename)

    def get_inventory(self, nodename: str) -> virt.NodeInventory:
        """See :meth:`ComputeNodes.inventory_of`."""
        return self._compute_nodes.inventory_of(nodename)

    def record_uuid(self, nodename: str) -> str:
        """See :meth:`ComputeNodes.record_uuid`."""
        return self._compute_nodes.record_uuid(nodename)

    def node_of(self, instance: virt.InstanceLike) -> str:
        """See :meth:`ComputeNodes.node_of`."""
        return self._compute_nodes.node_of(instance)

    # -- instances ------------------------------------------------------------

    def list_instance_uuids(self) -> list[str]:
        """See :meth:`Instances.uuids`."""
        return self._instances.uuids()

    def instance_exists(self, instance: virt.InstanceLike) -> bool:
        """See :meth:`Instances.exists`."""
        return self._instances.exists(instance)

    def get_info(self, instance: virt.InstanceLike, use_cache: bool = True) -> virt.InstanceInfo:
        """See :meth:`Instances.info`."""
        return self._instances.info(instance, use_cache=use_cache)

    def get_instance_diagnostics(self, instance: virt.InstanceLike) -> virt.InstanceDiagnostics:
        """See :meth:`Instances.diagnose`."""
        return self._instances.diagnose(instance)

    def prepare_for_spawn(self, instance: virt.InstanceLike) -> None:
        """See :meth:`Spawn.reserve`."""
        image = self.virtapi.image_of(instance) if self._site.by_ironic else None
        self._spawn.reserve(instance, image)

    def prepare_networks_before_block_device_mapping(
        self, instance: virt.InstanceLike, network_info: virt.NetworkInfo
    ) -> None:
        """See :meth:`Network.prepare`."""
        self._network.prepare(instance, network_info)

    def spawn(self, request: virt.DeployRequest) -> None:
        """See :meth:`Spawn.spawn`."""
        self._spawn.spawn(request)

    def finish_spawn(self, instance: virt.InstanceLike, *, has_volumes: bool = False) -> None:
        """See :meth:`Completion.finish`."""
        self._completion.finish(instance, has_volumes=has_volumes)

    def failed_spawn_cleanup(
        self, instance: virt.InstanceLike, *, has_volumes: bool = False
    ) -> None:
        """See :meth:`Completion.undo`."""
        self._completion.undo(instance, has_volumes=has_volumes)

    def destroy(self, instance: virt.InstanceLike, *, has_volumes: bool = False) -> None:
        """See :meth:`TearDown.tear_down`."""
        with history.explained(self._site.client):
            self._teardown.tear_down(instance, has_volumes=has_volumes)

    def rebuild(self, request: virt.DeployRequest) -> None:
        """See :meth:`Rebuild.rebuild`; it stays on its node."""
        with history.explained(self._site.client):
            self._rebuild.rebuild(request)

    def rescue(self, instance: virt.InstanceLike, rescue_password: str) -> None:
        """See :meth:`Rescue.rescue`; the rescue system is the one that Ironic has."""
        self._rescue.rescue(instance, rescue_password)

    def finish_rescue(self, instance: virt.InstanceLike) -> None:
        """See :meth:`Rescue.finish_rescue`."""
        self._rescue.finish_rescue(instance)

    def unrescue(self, instance: virt.InstanceLike) -> None:
        """See :meth:`Rescue.unrescue`."""
        with history.explained(self._site.client):
            self._rescue.unrescue(instance)

    # -- consoles -------------------------------------------------------------

    def get_serial_console(self, instance: virt.InstanceLike) -> virt.ConsoleAddress:
        """See :meth:`Console.serial`."""
        return self._console.serial(instance)

    def get_vnc_console(self, instance: virt.InstanceLike) -> virt.ConsoleAddress:
        """See :meth:`Console.vnc`."""
        return self._console.vnc(instance)

    # -- networks -------------------------------------------------------------

    def attach_interface(self, instance: virt.InstanceLike, vif: virt.VifLike) -> None:
        """See :meth:`Network.attach_interface`."""
        self._network.attach_interface(instance, vif)

    def detach_interface(self, instance: virt.InstanceLike, vif: virt.VifLike) -> None:
        """See :meth:`Network.detach_interface`."""
        self._network.detach_interface(instance, vif)

    # -- volumes --------------------------------------------------------------

    def get_volume_connector(self, instance: virt.InstanceLike) -> Mapping[str, Any]:
        """See :meth:`Volumes.connector`.

        :raises InstanceNotFound: its record names no node, and no node carries it.
        """
        return self._volumes.connector(instance, self.node_of(instance))

    # -- power ----------------------------------------------------------------

    def reboot(self, instance: virt.InstanceLike, reboot_type: str) -> None:
        """Reboot; a soft one falls back to a hard one."""
        self._power.reboot(instance, soft=reboot_type == "SOFT")

    def power_off(self, instance: virt.InstanceLike, timeout: int = 0) -> None:
        """Power off; Ironic itself watches a soft one."""
        self._power.off(instance, timeout)

    def power_on(self, instance: virt.InstanceLike) -> None:
        """Power on."""
        self._power.on(instance)

    def power_update_event(self, instance: virt.InstanceLike) -> None:
        """See :meth:`Power.look_again`."""
        self._power.look_again(instance)

    def trigger_crash_dump(self, instance: virt.InstanceLike) -> None:
        """See :meth:`Power.inject_nmi`."""
        self._power.inject_nmi(instance)


def _lease(conf: cfg.ConfigOpts) -> Lease | None:
    if not conf.ironic.standby_backend_url:
        return None
    # It imports tooz, which only a standby needs.
    from ironic_virt import standby

    return standby.from_conf(conf)
