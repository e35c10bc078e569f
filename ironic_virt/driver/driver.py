# SPDX-License-Identifier: Apache-2.0

"""The façade: the contract's methods, each handed to the module that does it.

Constructing a driver sends nothing; :meth:`IronicDriver.init_host` does.
Thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory import Inventory, Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.watcher import Watcher
from ironic_virt.driver import resources
from ironic_virt.driver.access import NodeAccess
from ironic_virt.driver.deploy import Deployment
from ironic_virt.driver.network import Network
from ironic_virt.driver.power import Power
from ironic_virt.driver.teardown import TearDown
from ironic_virt.sharding.selector import TargetSet

LOG = logging.getLogger(__name__)


class IronicDriver(virt.ComputeDriver):
    """Deploys instances on bare metal through Ironic.

    :param conf: with the ``[ironic]`` options.
    :param virtapi: the compute service's side of the contract.
    :param client: for tests; made from ``conf`` otherwise.
    :param watcher: for tests; made from ``conf`` otherwise.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        virtapi: virt.VirtAPI,
        *,
        client: IronicClient | None = None,
        watcher: Watcher | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(conf, virtapi)
        self._client = client or IronicClient.from_conf(conf)
        self._inventory = Inventory(self._list_nodes, clock=clock)
        self._watcher = watcher or Watcher(
            self._client.single_try(),
            node_filter=lambda: TargetSet.from_conf(conf).node_filter(),
            interval=float(conf.ironic.api_retry_interval),
        )
        self._access = NodeAccess(conf, self._client, self._inventory)
        self._network = Network(self._client, self._access)
        self._teardown = TearDown(
            conf,
            self._client,
            self._access,
            self._network,
            self._watcher,
            virtapi,
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
        )
        self._power = Power(conf, self._client, self._access, self._watcher)

    # -- the service's life ---------------------------------------------------

    def init_host(self, host: str) -> None:
        """See that Ironic can be spoken to and can apply our filter.

        :raises MicroversionNotSupported: it can't filter by ``shard_key`` or
            ``conductor_group``; nothing is ever listed without the filter.
        :raises IronicError: it can't be reached or refuses our credentials.
        """
        target = self._access.target
        target.check_server(self._client.versions)
        LOG.info("Compute service %s serves the nodes of %s", host, target)

    def cleanup_host(self, host: str) -> None:
        """Wake whoever waits; deployments go on in Ironic."""
        self._watcher.stop()

    def manages_several_nodes(self) -> bool:
        """One service has many nodes."""
        return True

    # -- nodes ----------------------------------------------------------------

    def _list_nodes(self) -> list[Node]:
        return self._client.list_nodes(self._access.target.node_filter())

    def _snapshot(self, *, refresh: bool = False) -> Snapshot:
        """The inventory; if a refresh fails, the former one stays in force."""
        known = self._inventory.snapshot
        if not refresh and known.taken_at is not None:
            return known
        try:
            return self._inventory.refresh()
        except exceptions.IronicError:
            if known.taken_at is None:
                raise
            return self._inventory.snapshot

    def _node(self, uuid: str) -> Node:
        """A node from the inventory, else from Ironic."""
        return self._snapshot().nodes.get(uuid) or self._access.fresh(uuid)

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """The uuids of the nodes in the target set, in any state.

        :raises IronicError: there is no inventory yet and none could be had.
        """
        return list(self._snapshot(refresh=refresh).nodes)

    def node_is_available(self, nodename: str) -> bool:
        """Whether the node is in the target set."""
        if nodename in self._snapshot().nodes:
            return True
        try:
            node = self._client.get_node(nodename)
        except exceptions.NodeNotFound:
            return False
        return self._access.target.why_outside(node) is None

    def is_node_deleted(self, nodename: str) -> bool:
        """Whether Ironic itself says that it has no such node, in any shard or group."""
        try:
            self._client.get_node(nodename)
        except exceptions.NodeNotFound as exc:
            # Some proxy's 404 doesn't count: Ironic names the node.
            return nodename in exc.message
        except exceptions.IronicError as exc:
            LOG.warning("Whether node %s is deleted can't be told: %s", nodename, exc)
        return False

    def get_available_resource(self, nodename: str) -> virt.NodeResource:
        """What the node is.

        :raises NodeNotAvailable: Ironic has no such node.
        """
        return resources.node_resource(self._node(nodename))

    def get_inventory(self, nodename: str) -> virt.NodeInventory:
        """What the node offers."""
        return resources.node_inventory(self._node(nodename))

    # -- instances ------------------------------------------------------------

    def list_instances(self) -> list[str]:
        """Names of the instances on our nodes; the uuid where no name is known."""
        uuids = self.list_instance_uuids()
        names = self.virtapi.instance_names(uuids)
        return [names.get(uuid, uuid) for uuid in uuids]

    def list_instance_uuids(self) -> list[str]:
        """The uuids of the instances on our nodes."""
        return list(self._snapshot().instance_uuids)

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
        self._deployment.reserve(instance)

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
