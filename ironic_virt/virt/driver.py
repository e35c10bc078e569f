# SPDX-License-Identifier: Apache-2.0

"""What a compute service asks of a driver."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions
from ironic_virt.virt.api import VirtAPI
from ironic_virt.virt.metrics import NodeCounts
from ironic_virt.virt.values import (
    ConsoleAddress,
    DeployRequest,
    InstanceDiagnostics,
    InstanceInfo,
    InstanceLike,
    NetworkInfo,
    NodeInventory,
    NodeResource,
    VifLike,
)

if TYPE_CHECKING:
    from oslo_config import cfg


class ComputeDriver(abc.ABC):
    """What a compute service asks of a driver.

    The names are Nova's.  The arguments are those of Nova's that a driver reads.  Every
    method may block, may be called from any thread, and raises
    :class:`~ironic_virt.exceptions.IronicVirtError` or one of its kinds.  A method that a
    driver does not have raises :class:`~ironic_virt.exceptions.OperationNotSupported`.
    """

    def __init__(self, conf: cfg.ConfigOpts, virtapi: VirtAPI) -> None:
        self.conf = conf
        self.virtapi = virtapi

    # the service's life

    @abc.abstractmethod
    def init_host(self, host: str) -> None:
        """Prepare for work; raise an error if the configuration can't be used."""

    @abc.abstractmethod
    def cleanup_host(self) -> None:
        """Stop background work, and end all waits."""

    def let_go(self) -> None:  # noqa: B027
        """Let another process of this host name take over.

        Called at the very end, when nothing of this process acts any more.
        """

    # nodes

    @abc.abstractmethod
    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """Return the names of this host's compute nodes.

        A name is a node's uuid or, if the driver picks the nodes, the name of a pool.

        :param refresh: list the nodes again first.
        """

    @abc.abstractmethod
    def node_is_available(self, nodename: str) -> bool:
        """Whether the node is one of this host's."""

    @abc.abstractmethod
    def is_node_deleted(self, nodename: str) -> bool:
        """Whether it is certain that the node does not exist any more."""

    def picks_nodes(self) -> bool:
        """Whether the driver picks the nodes, so that its compute nodes are pools."""
        return False

    def is_pool(self, nodename: str) -> bool:
        """Whether a compute node's name is the name of a pool, and not of a node."""
        return False

    def node_of(self, instance: InstanceLike) -> str | None:
        """Return the uuid of the node that an instance has; its record may name a pool.

        :raises InstanceNotFound: no node carries it.
        """
        return instance.node

    def rebalances_nodes(self) -> bool:
        """Whether the driver moves nodes between hosts.

        If so, a service takes over the records of the nodes that
        :meth:`get_available_nodes` returns.  If not, it never does.
        """
        return False

    def node_versions(self) -> Mapping[str, object]:
        """Return, by node uuid, a value that is equal as long as the node is the same.

        As long as it is, :meth:`get_available_resource` and :meth:`get_inventory` return
        the same, so a service with many nodes need not call them.  A node that is left
        out may have changed.
        """
        return {}

    def node_version(self, nodename: str) -> object | None:
        """Return an object that is the same one as long as the node is the same.

        ``None``: the node may have changed.
        """
        return None

    def refresh_error(self) -> str | None:
        """Return why the last refresh failed; ``None``: it did not.

        The nodes are then as an earlier refresh found them.
        """
        return None

    def node_counts(self) -> NodeCounts:
        """Return how many nodes this host has, as of the last refresh; nobody is asked."""
        return NodeCounts()

    @abc.abstractmethod
    def get_available_resource(self, nodename: str) -> NodeResource:
        """Return what the compute node is."""

    @abc.abstractmethod
    def get_inventory(self, nodename: str) -> NodeInventory:
        """Return what the compute node offers."""

    # instances

    @abc.abstractmethod
    def list_instance_uuids(self) -> list[str]:
        """Return the uuids of the instances on this host's nodes."""

    @abc.abstractmethod
    def instance_exists(self, instance: InstanceLike) -> bool:
        """Whether any node has the instance."""

    @abc.abstractmethod
    def get_info(self, instance: InstanceLike, use_cache: bool = True) -> InstanceInfo:
        """Return the instance's power state.

        :param use_cache: the state as of the last refresh is enough.
        :raises InstanceNotFound: no node has it.
        """

    @abc.abstractmethod
    def prepare_for_spawn(self, instance: InstanceLike) -> None:
        """Reserve a node for the instance, or raise an error and change nothing."""

    def prepare_networks_before_block_device_mapping(
        self, instance: InstanceLike, network_info: NetworkInfo
    ) -> None:
        """Attach an instance's VIFs to the node that is reserved for it.

        For a service that prepares block devices before it calls :meth:`spawn`, because the
        volume connector has the address of a VIF.  ``spawn`` attaches what is missing.
        """
        raise exceptions.OperationNotSupported("preparing networks")

    @abc.abstractmethod
    def spawn(self, request: DeployRequest) -> None:
        """Deploy the instance and return when it is active.

        The node that the scheduler has picked need not be reserved before: this does it.
        """

    @abc.abstractmethod
    def failed_spawn_cleanup(self, instance: InstanceLike, *, has_volumes: bool = False) -> None:
        """Undo what a failed spawn has left.

        :param has_volumes: the instance has volumes: look for them also on a node that does
            not have the instance any more.
        """

    @abc.abstractmethod
    def destroy(self, instance: InstanceLike, *, has_volumes: bool = False) -> None:
        """Tear the instance down; return when no node has it any more.

        :param has_volumes: see :meth:`failed_spawn_cleanup`.
        """

    @abc.abstractmethod
    def reboot(self, instance: InstanceLike, reboot_type: str) -> None:
        """Reboot.

        :param reboot_type: ``SOFT`` or ``HARD``.
        """

    @abc.abstractmethod
    def power_off(self, instance: InstanceLike, timeout: int = 0) -> None:
        """Power off.

        :param timeout: seconds for the system to shut down by itself; 0: cut the power.
        """

    @abc.abstractmethod
    def power_on(self, instance: InstanceLike) -> None:
        """Power on."""

    # what not every driver can do

    def rebuild(self, request: DeployRequest) -> None:
        """Deploy an image onto the instance's node again; return when it is active.

        :raises RebuildFailed: says what is on the disk.
        """
        raise exceptions.OperationNotSupported("rebuild")

    def power_update_event(self, instance: InstanceLike) -> None:
        """Called when the node's power state has changed without a request of the service.

        The service updates its own records.
        """
        raise exceptions.OperationNotSupported("power_update_event")

    def trigger_crash_dump(self, instance: InstanceLike) -> None:
        """Inject an NMI, which makes a system that is set up for it write a crash dump.

        The driver never injects a second one, and does not wait for the dump.

        :raises CrashDumpFailed: it was not injected, or this is not known.
        """
        raise exceptions.OperationNotSupported("trigger_crash_dump")

    def get_instance_diagnostics(self, instance: InstanceLike) -> InstanceDiagnostics:
        """Return what is known of a running instance and of its hardware."""
        raise exceptions.OperationNotSupported("get_instance_diagnostics")

    def rescue(self, instance: InstanceLike, rescue_password: str) -> None:
        """Boot the rescue system; return when it is there.

        :raises RescueFailed: says which system the instance runs now.
        """
        raise exceptions.OperationNotSupported("rescue")

    def unrescue(self, instance: InstanceLike) -> None:
        """Boot the instance's own system again; return when it is there.

        :raises RescueFailed: it is not there.
        """
        raise exceptions.OperationNotSupported("unrescue")

    def attach_interface(self, instance: InstanceLike, vif: VifLike) -> None:
        """Attach a virtual interface to an instance, unless it is attached already.

        :raises NoFreePort: its node has no free port.
        :raises VifAttachFailed: says why; it is not attached.
        """
        raise exceptions.OperationNotSupported("attach_interface")

    def detach_interface(self, instance: InstanceLike, vif: VifLike) -> None:
        """Detach a virtual interface from an instance, if it is attached.

        :raises VifDetachFailed: says why; it is still attached.
        """
        raise exceptions.OperationNotSupported("detach_interface")

    def get_volume_connector(self, instance: InstanceLike) -> Mapping[str, Any]:
        """Return what a volume service must know to export a volume to the node."""
        raise exceptions.OperationNotSupported("get_volume_connector")

    def get_serial_console(self, instance: InstanceLike) -> ConsoleAddress:
        """Enable the serial console, and return its address.

        A console that is enabled already is disabled first, which ends its session.

        :raises ConsoleUnavailable: there is none.
        """
        raise exceptions.OperationNotSupported("get_serial_console")

    def get_vnc_console(self, instance: InstanceLike) -> ConsoleAddress:
        """Enable the graphical console, and return its address.

        :raises ConsoleUnavailable: there is none.
        """
        raise exceptions.OperationNotSupported("get_vnc_console")
