# SPDX-License-Identifier: Apache-2.0

"""What a compute service asks of a driver."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions
from ironic_virt.virt.api import VirtAPI
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

    Names are Nova's, and of Nova's arguments there are those that a driver reads.  Every
    method may block, may be called from any thread, and raises
    :class:`~ironic_virt.exceptions.IronicVirtError` or one of its kinds.  A method that a
    driver lacks raises :class:`~ironic_virt.exceptions.OperationNotSupported`.
    """

    def __init__(self, conf: cfg.ConfigOpts, virtapi: VirtAPI) -> None:
        self.conf = conf
        self.virtapi = virtapi

    # the service's life

    @abc.abstractmethod
    def init_host(self, host: str) -> None:
        """Prepare for work; raise if the configuration can't be served."""

    @abc.abstractmethod
    def cleanup_host(self) -> None:
        """Stop background work and wake whoever waits."""

    @abc.abstractmethod
    def manages_several_nodes(self) -> bool:
        """Whether one service has many nodes (true for bare metal)."""

    # nodes

    @abc.abstractmethod
    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """The names of this host's compute nodes; with ``refresh``, asked anew first.

        A name is a node's uuid or, when Ironic picks the node, that of a pool.
        """

    @abc.abstractmethod
    def node_is_available(self, nodename: str) -> bool:
        """Whether the node is one of this host's."""

    @abc.abstractmethod
    def is_node_deleted(self, nodename: str) -> bool:
        """Whether the node is confirmed gone; any doubt is ``False``."""

    def picks_nodes(self) -> bool:
        """Whether the driver picks the node for an instance, and its compute nodes are pools."""
        return False

    def is_pool(self, nodename: str) -> bool:
        """Whether a compute node's name is that of a pool, and not of a node."""
        return False

    def node_of(self, instance: InstanceLike) -> str | None:
        """The uuid of the node that an instance has, where the record may name its pool.

        :raises InstanceNotFound: no node carries it.
        """
        return instance.node

    def rebalances_nodes(self) -> bool:
        """Whether nodes go from host to host by themselves now.

        If so, a service takes over the records of those that it is given by
        :meth:`get_available_nodes`; if not, a record never changes its host so.
        """
        return False

    def node_versions(self) -> Mapping[str, object]:
        """By node uuid, a value that stays equal until there is news of the node.

        As long as it does, :meth:`get_available_resource` and
        :meth:`get_inventory` answer the same, so a service with many nodes needs
        not ask.  Of a node that is left out nothing can be said.
        """
        return {}

    def node_version(self, nodename: str) -> object | None:
        """The same of one node, but an object that stays the same one.

        ``None``: there is no telling.
        """
        return None

    def nodes_age(self) -> float | None:
        """How many seconds ago what is said of the nodes was known for sure.

        ``None``: it never was, or there is no telling.
        """
        return None

    def refresh_error(self) -> str | None:
        """Why the last refresh that was asked for failed; ``None``: it did not.

        What is said of the nodes is then of an earlier one.
        """
        return None

    def node_counts(self) -> Mapping[str, int]:
        """How many of this host's nodes are in each state, in the driver's own words."""
        return {}

    @abc.abstractmethod
    def get_available_resource(self, nodename: str) -> NodeResource:
        """What the node is."""

    @abc.abstractmethod
    def get_inventory(self, nodename: str) -> NodeInventory:
        """What the node offers."""

    # instances

    @abc.abstractmethod
    def list_instances(self) -> list[str]:
        """The names of the instances on this host's nodes."""

    @abc.abstractmethod
    def list_instance_uuids(self) -> list[str]:
        """The uuids of the instances on this host's nodes."""

    def get_num_instances(self) -> int:
        """How many instances there are on this host's nodes."""
        return len(self.list_instance_uuids())

    @abc.abstractmethod
    def instance_exists(self, instance: InstanceLike) -> bool:
        """Whether any node carries the instance."""

    @abc.abstractmethod
    def get_info(self, instance: InstanceLike, use_cache: bool = True) -> InstanceInfo:
        """The instance's power state."""

    @abc.abstractmethod
    def prepare_for_spawn(self, instance: InstanceLike) -> None:
        """Reserve the node for the instance, or refuse and change nothing."""

    def prepare_networks_before_block_device_mapping(
        self, instance: InstanceLike, network_info: NetworkInfo
    ) -> None:
        """Attach an instance's VIFs to the node that is reserved for it.

        For a service that prepares block devices by itself before it calls :meth:`spawn`,
        which attaches what is missing: a volume's connector has the address of a VIF.
        """
        raise exceptions.OperationNotSupported("preparing networks")

    @abc.abstractmethod
    def spawn(self, request: DeployRequest) -> None:
        """Deploy the instance and return when it is active."""

    @abc.abstractmethod
    def failed_spawn_cleanup(self, instance: InstanceLike, *, has_volumes: bool = False) -> None:
        """Undo whatever a failed spawn left behind.

        :param has_volumes: look for them also on a node that doesn't carry the instance
            any more.
        """

    @abc.abstractmethod
    def destroy(self, instance: InstanceLike, *, has_volumes: bool = False) -> None:
        """Tear the instance down; return when no node carries it any more.

        :param has_volumes: see :meth:`failed_spawn_cleanup`.
        """

    @abc.abstractmethod
    def reboot(self, instance: InstanceLike, reboot_type: str) -> None:
        """Reboot, ``reboot_type`` being ``SOFT`` or ``HARD``."""

    @abc.abstractmethod
    def power_off(self, instance: InstanceLike, timeout: int = 0) -> None:
        """Power off; with a ``timeout`` in seconds, ask the system first."""

    @abc.abstractmethod
    def power_on(self, instance: InstanceLike) -> None:
        """Power on."""

    # what not every driver can do

    def rebuild(self, request: DeployRequest) -> None:
        """Deploy an image onto the instance's node again; return when it is active.

        :raises RebuildFailed: with what is on the disk.
        """
        raise exceptions.OperationNotSupported("rebuild")

    def power_update_event(self, instance: InstanceLike) -> None:
        """Be told that the node's power state has changed by itself.

        The service's own records are its own affair.
        """
        raise exceptions.OperationNotSupported("power_update_event")

    def trigger_crash_dump(self, instance: InstanceLike) -> None:
        """Inject an NMI, which makes a system that is set up for it write a crash dump.

        Never done a second time by itself; what comes of it is not waited for.

        :raises CrashDumpFailed: it was not injected, or that can't be told.
        """
        raise exceptions.OperationNotSupported("trigger_crash_dump")

    def get_instance_diagnostics(self, instance: InstanceLike) -> InstanceDiagnostics:
        """What is known of a running instance and of what it runs on."""
        raise exceptions.OperationNotSupported("get_instance_diagnostics")

    def rescue(self, instance: InstanceLike, rescue_password: str) -> None:
        """Boot the rescue system; return when it is there.

        :raises RescueFailed: with what the instance runs now.
        """
        raise exceptions.OperationNotSupported("rescue")

    def unrescue(self, instance: InstanceLike) -> None:
        """Boot the instance's own system again; return when it is there.

        :raises RescueFailed: it isn't.
        """
        raise exceptions.OperationNotSupported("unrescue")

    def attach_interface(self, instance: InstanceLike, vif: VifLike) -> None:
        """Attach a virtual interface to an instance; one that is attached to it is no error.

        :raises NoFreePort: no port of its node is left for it.
        :raises VifAttachFailed: why; it is not attached.
        """
        raise exceptions.OperationNotSupported("attach_interface")

    def detach_interface(self, instance: InstanceLike, vif: VifLike) -> None:
        """Detach a virtual interface from an instance; one that isn't attached is no error.

        :raises VifDetachFailed: why; it is still attached.
        """
        raise exceptions.OperationNotSupported("detach_interface")

    def get_volume_connector(self, instance: InstanceLike) -> Mapping[str, Any]:
        """What a volume service must know to export a volume to the node."""
        raise exceptions.OperationNotSupported("get_volume_connector")

    def get_serial_console(self, instance: InstanceLike) -> ConsoleAddress:
        """Enable the serial console, anew if somebody has it, and say where it is.

        :raises ConsoleUnavailable: there is none to be had.
        """
        raise exceptions.OperationNotSupported("get_serial_console")

    def get_vnc_console(self, instance: InstanceLike) -> ConsoleAddress:
        """Enable the graphical console, unless it is, and say where it is.

        :raises ConsoleUnavailable: there is none to be had.
        """
        raise exceptions.OperationNotSupported("get_vnc_console")
