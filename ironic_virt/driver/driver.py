# SPDX-License-Identifier: Apache-2.0

"""The façade: the contract's methods, each handed to the module that does it.

Constructing a driver sends nothing; :meth:`IronicDriver.init_host` does.
Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import virt
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.driver import diagnostics, history, resources
from ironic_virt.driver.console import Console
from ironic_virt.driver.deploy import project_fields
from ironic_virt.driver.deploy.config_drive import ConfigDrives
from ironic_virt.driver.deploy.deployment import Deployment
from ironic_virt.driver.deploy.rebuild import Rebuild
from ironic_virt.driver.deploy.teardown import TearDown
from ironic_virt.driver.hooks import Hooks
from ironic_virt.driver.host_nodes import HostNodes
from ironic_virt.driver.network import Network
from ironic_virt.driver.network_data import Link
from ironic_virt.driver.pools.reservation import Reservation
from ironic_virt.driver.power import Power
from ironic_virt.driver.rescue import Rescue
from ironic_virt.driver.volumes import Volumes

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
        self._client = client or IronicClient.from_conf(conf, virtapi.report_request)
        self._nodes = nodes = HostNodes(
            conf, self._client, virtapi, lambda one: self._teardown.take_off(one), clock
        )
        self._ownership = nodes.ownership
        self._access = nodes.access
        self._watcher = watcher or Watcher(
            self._client.single_try(),
            node_filter=lambda: self._ownership.target.node_filter(),
            interval=float(conf.ironic.api_retry_interval),
        )
        self._network = Network(self._client, self._access)
        self._power = Power(conf, self._client, self._access, self._watcher)
        self._volumes = Volumes(self._client, self._access, self._power, virtapi)
        self._stopping = threading.Event()
        self._reservation = Reservation(
            conf,
            self._client,
            self._access,
            virtapi,
            snapshot=lambda fresh: nodes.snapshot(refresh=fresh),
            allowed=nodes.pools.allowed,
            pause=pause or self._stopping.wait,
            clock=clock,
        )
        self._console = Console(conf, self._client, self._access, self._watcher, clock)
        self._teardown = TearDown(
            conf,
            self._client,
            self._access,
            self._network,
            self._volumes,
            self._console,
            self._watcher,
            virtapi,
            release=self._release_reservation,
            clock=clock,
        )
        hooks = Hooks.from_conf(conf, self._client, virtapi)
        drives = ConfigDrives(conf, self._client, self._network, virtapi)
        self._deployment = Deployment(
            conf,
            self._client,
            self._access,
            self._network,
            self._volumes,
            self._watcher,
            self._teardown,
            virtapi,
            nodes.selection,
            self._reservation,
            drives,
            hooks,
        )
        self._rebuild = Rebuild(
            conf, self._client, self._access, self._watcher, virtapi, drives, hooks
        )
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
        for name in self.conf.ironic.project_fields:
            self._client.require(project_fields.FEATURES[name])
        LOG.info("Compute service %s serves the nodes of %s", host, policy)
        if self._by_ironic:
            LOG.info("Ironic picks the nodes; pools say how many there are")

    def cleanup_host(self) -> None:
        """Wake whoever waits; deployments go on in Ironic."""
        self._stopping.set()
        self._watcher.stop()

    def manages_several_nodes(self) -> bool:
        """One service has many nodes."""
        return True

    @property
    def _by_ironic(self) -> bool:
        return self._nodes.selection.by_ironic

    def _release_reservation(self, instance: virt.InstanceLike) -> bool:
        return not self._nodes.may_be_allocated(instance) or self._reservation.release(instance)

    # -- nodes ----------------------------------------------------------------

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """See :meth:`HostNodes.names`."""
        return self._nodes.names(refresh)

    def node_is_available(self, nodename: str) -> bool:
        """See :meth:`HostNodes.is_available`."""
        return self._nodes.is_available(nodename)

    def is_node_deleted(self, nodename: str) -> bool:
        """See :meth:`HostNodes.is_deleted`."""
        return self._nodes.is_deleted(nodename)

    def picks_nodes(self) -> bool:
        """Whether Ironic picks."""
        return self._by_ironic

    def is_pool(self, nodename: str) -> bool:
        """Whether it is the name of a pool of this host, be there such a pool or not."""
        return self._nodes.pools.is_pool(nodename)

    def rebalances_nodes(self) -> bool:
        """Whether the hash ring of ``[ironic] peer_list`` is in force."""
        return self._ownership.by_ring

    def node_versions(self) -> Mapping[str, object]:
        """See :meth:`HostNodes.versions`."""
        return self._nodes.versions()

    def node_version(self, nodename: str) -> object | None:
        """See :meth:`HostNodes.version`."""
        return self._nodes.version(nodename)

    def nodes_age(self) -> float | None:
        """See :meth:`HostNodes.age`."""
        return self._nodes.age()

    def refresh_error(self) -> str | None:
        """See :attr:`HostNodes.refresh_error`."""
        return self._nodes.refresh_error

    def node_counts(self) -> Mapping[str, int]:
        """See :meth:`HostNodes.counts`."""
        return self._nodes.counts()

    def get_available_resource(self, nodename: str) -> virt.NodeResource:
        """See :meth:`HostNodes.resource`."""
        return self._nodes.resource(nodename)

    def get_inventory(self, nodename: str) -> virt.NodeInventory:
        """See :meth:`HostNodes.inventory_of`."""
        return self._nodes.inventory_of(nodename)

    def vif_links(self, nodename: str) -> Mapping[str, Link]:
        """The physical link of each VIF on a node, by VIF."""
        return self._network.links(nodename)

    def record_uuid(self, nodename: str) -> str:
        """See :meth:`HostNodes.record_uuid`."""
        return self._nodes.record_uuid(nodename)

    def node_of(self, instance: virt.InstanceLike) -> str:
        """See :meth:`HostNodes.node_of`."""
        return self._nodes.node_of(instance)

    # -- instances ------------------------------------------------------------

    def list_instances(self) -> list[str]:
        """Names of the instances on our nodes; the uuid where no name is known."""
        uuids = self.list_instance_uuids()
        names = self.virtapi.instance_names(uuids)
        return [names.get(uuid, uuid) for uuid in uuids]

    def list_instance_uuids(self) -> list[str]:
        """The uuids of the instances on our nodes."""
        ours, elsewhere = self._nodes.ours()
        return [*(node.instance_uuid for node in ours if node.instance_uuid), *elsewhere]

    def instance_exists(self, instance: virt.InstanceLike) -> bool:
        """Whether any node in Ironic carries the instance."""
        return self._client.node_of_instance(instance.uuid) is not None

    def get_info(self, instance: virt.InstanceLike, use_cache: bool = True) -> virt.InstanceInfo:
        """The instance's power state.

        :raises InstanceNotFound: no node carries it.
        """
        node = self._nodes.snapshot().by_instance(instance.uuid) if use_cache else None
        return resources.instance_info(node or self._access.of_instance(instance))

    def prepare_for_spawn(self, instance: virt.InstanceLike) -> None:
        """See :meth:`Deployment.reserve`."""
        image = self.virtapi.image_of(instance) if self._by_ironic else None
        self._deployment.reserve(instance, image)

    def prepare_networks_before_block_device_mapping(
        self, instance: virt.InstanceLike, network_info: virt.NetworkInfo
    ) -> None:
        """See :meth:`Network.prepare`."""
        self._network.prepare(instance, network_info)

    def spawn(self, request: virt.DeployRequest) -> None:
        """See :meth:`Deployment.spawn`."""
        self._deployment.spawn(request)

    def failed_spawn_cleanup(
        self, instance: virt.InstanceLike, *, has_volumes: bool = False
    ) -> None:
        """See :meth:`Deployment.undo`."""
        self._deployment.undo(instance, has_volumes=has_volumes)

    def destroy(self, instance: virt.InstanceLike, *, has_volumes: bool = False) -> None:
        """See :meth:`TearDown.tear_down`."""
        with history.explained(self._client):
            self._teardown.tear_down(instance, has_volumes=has_volumes)

    def rebuild(self, request: virt.DeployRequest) -> None:
        """See :meth:`Rebuild.rebuild`; it stays on its node."""
        with history.explained(self._client):
            self._rebuild.rebuild(request)

    def rescue(self, instance: virt.InstanceLike, rescue_password: str) -> None:
        """See :meth:`Rescue.rescue`; which system it is, is Ironic's affair."""
        self._rescue.rescue(instance, rescue_password)

    def unrescue(self, instance: virt.InstanceLike) -> None:
        """See :meth:`Rescue.unrescue`."""
        with history.explained(self._client):
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
        """See :meth:`Power.look_again`: the node says more than who told of it."""
        self._power.look_again(instance)

    def trigger_crash_dump(self, instance: virt.InstanceLike) -> None:
        """See :meth:`Power.inject_nmi`."""
        self._power.inject_nmi(instance)

    # -- diagnostics ----------------------------------------------------------

    def get_instance_diagnostics(self, instance: virt.InstanceLike) -> virt.InstanceDiagnostics:
        """See :func:`diagnostics.diagnose`."""
        return diagnostics.diagnose(self._client, self._access, instance)
