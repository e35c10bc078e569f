# SPDX-License-Identifier: Apache-2.0

"""The contract between a compute service and a driver.

:class:`ComputeDriver` is what a compute service calls, :class:`VirtAPI` is
what the driver asks of the service that loaded it, and the types of
:mod:`ironic_virt.values` pass between the two.  :func:`load_compute_driver`
brings them together.

Nothing here knows Ironic.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from oslo_config import cfg
from stevedore import named

from ironic_virt import exceptions
from ironic_virt.values import (
    BlockDevice,
    ConfigDrive,
    ConsoleAddress,
    Flavor,
    FlavorLike,
    ImageLike,
    ImageMeta,
    Instance,
    InstanceDiagnostics,
    InstanceInfo,
    InstanceLike,
    NetworkInfo,
    NodeInventory,
    NodeResource,
    PowerState,
    Properties,
    Vif,
    VifLike,
)

__all__ = [
    "DRIVER_NAMESPACE",
    "BlockDevice",
    "ComputeDriver",
    "ConfigDrive",
    "ConsoleAddress",
    "Flavor",
    "FlavorLike",
    "ImageLike",
    "ImageMeta",
    "Instance",
    "InstanceDiagnostics",
    "InstanceInfo",
    "InstanceLike",
    "NetworkInfo",
    "NodeInventory",
    "NodeResource",
    "PowerState",
    "Properties",
    "Vif",
    "VifLike",
    "VirtAPI",
    "load_compute_driver",
]

DRIVER_NAMESPACE = "ironic_virt.compute_drivers"


class VirtAPI(abc.ABC):
    """What a driver asks of the compute service that loaded it.

    Called from any thread.

    :cvar move_command: what an operator types to give a node's record to another
        host, with ``{node}`` and ``{host}`` in it; for messages.
    """

    move_command = "ironic-virt-manage ironic-compute-node-move {node} --service {host}"

    @property
    @abc.abstractmethod
    def host(self) -> str:
        """This compute service's host name."""

    @abc.abstractmethod
    def live_hosts(self) -> Collection[str]:
        """The host names of the compute services that are up, this one included."""

    @abc.abstractmethod
    def owned_instance_uuids(self) -> Collection[str]:
        """The uuids of the instances that the records give to this host."""

    def node_owners(self, uuids: Collection[str]) -> Mapping[str, str]:
        """The hosts that the records give nodes to, by the node's uuid.

        A node that another host has is left alone.  Asked at each refresh.

        :param uuids: of the nodes asked about.
        :returns: one without a record is left out.
        """
        return {}

    def instance_places(self) -> Mapping[str, str]:
        """Where the records put this host's instances: uuid to the compute node's name.

        Asked at each refresh if Ironic picks the nodes.

        :returns: ``""`` for one whose record names no compute node.
        """
        return dict.fromkeys(self.owned_instance_uuids(), "")

    def instance_hosts(self, uuids: Collection[str]) -> Mapping[str, str]:
        """The hosts that the records give instances to, by the instance's uuid.

        :returns: one that is not known, or has no host, is left out.
        """
        mine = set(self.owned_instance_uuids())
        return {uuid: self.host for uuid in uuids if uuid in mine}

    def sharing_hosts(self) -> Collection[str]:
        """The hosts that are up and have pools of the same nodes: what is free is shared.

        All that are up, unless the service knows better.
        """
        return self.live_hosts()

    def tried_nodes(self, instance: InstanceLike) -> Collection[str]:
        """The uuids of the nodes that an instance was given up on; Ironic picks others."""
        return ()

    def existing_instances(self, uuids: Collection[str]) -> Collection[str]:
        """Which of these instances the records have, of whichever host; not deleted ones.

        What is reserved for one that they don't have is given up, so doubt is an error.
        """
        return set(self.owned_instance_uuids()).intersection(uuids)

    def image_of(self, instance: InstanceLike) -> ImageLike | None:
        """The image that an instance is to be deployed from, asked before it is spawned.

        :returns: ``None``: not known; what it requires is then seen only by ``spawn``.
        """
        return None

    @abc.abstractmethod
    def abort_reason(self, instance: InstanceLike) -> str | None:
        """Why a running build is no longer wanted; ``None`` while it is.

        Asked again and again while a deployment is waited for: be quick.

        :raises WaitCancelled: the instance is not this host's any more: the build
            is left as it is, and nothing is undone.
        """

    def config_drive(
        self,
        context: Any,
        instance: InstanceLike,
        *,
        network_info: NetworkInfo,
        injected_files: Sequence[tuple[str, bytes]],
        admin_password: str | None,
    ) -> ConfigDrive | None:
        """The contents of the instance's config drive; ``None``: none is wanted."""
        return None

    def instance_metadata(self, instance: InstanceLike) -> Mapping[str, str]:
        """What the instance's user has set on it, by name; asked only if there are hooks."""
        return {}

    def deploy_metadata(
        self, instance: InstanceLike, network_info: NetworkInfo
    ) -> Mapping[str, str]:
        """More to write into the node's ``instance_info`` for operators' tools.

        Nova's keys are ``project_name``, ``user_name``, ``fixed_ips`` and
        ``floating_ips``.
        """
        return {}

    def fixed_addresses(self, instance: InstanceLike) -> Mapping[str, Sequence[str]]:
        """The fixed IP addresses of an instance's VIFs by VIF, as far as they are known."""
        return {}

    def instance_names(self, uuids: Collection[str]) -> Mapping[str, str]:
        """The names of instances by uuid; one that is not known is left out."""
        return {}

    def report_progress(self, instance: InstanceLike, step: str, detail: str = "") -> None:  # noqa: B027
        """Be told that a long action has reached a step.

        :param step: ``reserving``, ``configuring``, ``validating``,
            ``deploying``, ``active``, ``tearing down``, ``released``, ...
        :param detail: Ironic's provision state, where there is one.
        """

    def report_request(self, method: str, status: int | None, seconds: float) -> None:  # noqa: B027
        """Be told of a request that the driver sent to the API that it drives.

        :param status: the answer's HTTP status; ``None`` if there was no answer.
        """


class ComputeDriver(abc.ABC):
    """What a compute service asks of a driver.

    Names and argument order are Nova's.  Every method may block, may be called
    from any thread, and raises :class:`~ironic_virt.exceptions.IronicVirtError`
    or one of its kinds.  A method that a driver lacks raises
    :class:`~ironic_virt.exceptions.OperationNotSupported`.
    """

    def __init__(self, conf: cfg.ConfigOpts, virtapi: VirtAPI) -> None:
        self.conf = conf
        self.virtapi = virtapi

    # the service's life

    @abc.abstractmethod
    def init_host(self, host: str) -> None:
        """Prepare for work; raise if the configuration can't be served."""

    @abc.abstractmethod
    def cleanup_host(self, host: str) -> None:
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
    def spawn(
        self,
        context: Any,
        instance: InstanceLike,
        image_meta: ImageLike,
        injected_files: Sequence[tuple[str, bytes]],
        admin_password: str | None,
        allocations: Mapping[str, Any] | None,
        network_info: NetworkInfo | None = None,
        block_device_info: Sequence[BlockDevice] | None = None,
        power_on: bool = True,
        accel_info: Any = None,
    ) -> None:
        """Deploy the instance and return when it is active."""

    @abc.abstractmethod
    def failed_spawn_cleanup(
        self,
        instance: InstanceLike,
        block_device_info: Sequence[BlockDevice] | None = None,
    ) -> None:
        """Undo whatever a failed spawn left behind.

        :param block_device_info: its volumes: they are looked for also on a node that
            doesn't carry the instance any more.
        """

    @abc.abstractmethod
    def destroy(
        self,
        context: Any,
        instance: InstanceLike,
        network_info: NetworkInfo | None,
        block_device_info: Sequence[BlockDevice] | None = None,
        destroy_disks: bool = True,
        destroy_secrets: bool = True,
    ) -> None:
        """Tear the instance down; return when no node carries it any more."""

    @abc.abstractmethod
    def reboot(
        self,
        context: Any,
        instance: InstanceLike,
        network_info: NetworkInfo | None,
        reboot_type: str,
        block_device_info: Sequence[BlockDevice] | None = None,
        bad_volumes_callback: Any = None,
        accel_info: Any = None,
        share_info: Any = None,
    ) -> None:
        """Reboot, ``reboot_type`` being ``SOFT`` or ``HARD``."""

    @abc.abstractmethod
    def power_off(self, instance: InstanceLike, timeout: int = 0, retry_interval: int = 0) -> None:
        """Power off; with a ``timeout`` in seconds, ask the system first."""

    @abc.abstractmethod
    def power_on(
        self,
        context: Any,
        instance: InstanceLike,
        network_info: NetworkInfo | None,
        block_device_info: Sequence[BlockDevice] | None = None,
        accel_info: Any = None,
        share_info: Any = None,
    ) -> None:
        """Power on."""

    # what not every driver can do

    def rebuild(
        self,
        context: Any,
        instance: InstanceLike,
        image_meta: ImageLike,
        injected_files: Sequence[tuple[str, bytes]],
        admin_password: str | None,
        allocations: Mapping[str, Any] | None,
        bdms: Any = None,
        detach_block_devices: Any = None,
        attach_block_devices: Any = None,
        network_info: NetworkInfo | None = None,
        evacuate: bool = False,
        block_device_info: Sequence[BlockDevice] | None = None,
        preserve_ephemeral: bool = False,
        accel_uuids: Any = None,
        reimage_boot_volume: bool = False,
    ) -> None:
        """Deploy an image onto the instance's node anew; return when it is active.

        :param context: calls whose ``request_id`` is the same are the same wish: a
            later one goes on where the former one ended.
        :param reimage_boot_volume: of no meaning for an instance without one.
        :raises RebuildFailed: with what is on the disk.
        """
        raise exceptions.OperationNotSupported("rebuild")

    def power_update_event(self, instance: InstanceLike, target_power_state: str) -> None:
        """Be told that the node's power state has changed by itself.

        The service's own records are its own affair.

        :param target_power_state: what it is now, ``POWER_ON`` or ``POWER_OFF``.
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

    def rescue(
        self,
        context: Any,
        instance: InstanceLike,
        network_info: NetworkInfo | None,
        image_meta: ImageLike | None,
        rescue_password: str,
        block_device_info: Sequence[BlockDevice] | None = None,
        share_info: Any = None,
    ) -> None:
        """Boot the rescue system; return when it is there.

        :raises RescueFailed: with what the instance runs now.
        """
        raise exceptions.OperationNotSupported("rescue")

    def unrescue(self, context: Any, instance: InstanceLike) -> None:
        """Boot the instance's own system again; return when it is there.

        :raises RescueFailed: it isn't.
        """
        raise exceptions.OperationNotSupported("unrescue")

    def attach_interface(
        self, context: Any, instance: InstanceLike, image_meta: ImageLike, vif: VifLike
    ) -> None:
        """Attach a virtual interface to an instance; one that is attached to it is no error.

        :param image_meta: of no meaning for bare metal.
        :raises NoFreePort: no port of its node is left for it.
        :raises VifAttachFailed: why; it is not attached.
        """
        raise exceptions.OperationNotSupported("attach_interface")

    def detach_interface(self, context: Any, instance: InstanceLike, vif: VifLike) -> None:
        """Detach a virtual interface from an instance; one that isn't attached is no error.

        :raises VifDetachFailed: why; it is still attached.
        """
        raise exceptions.OperationNotSupported("detach_interface")

    def get_volume_connector(self, instance: InstanceLike) -> Mapping[str, Any]:
        """What a volume service must know to export a volume to the node."""
        raise exceptions.OperationNotSupported("get_volume_connector")

    def get_node_volume_connector(self, nodename: str) -> Mapping[str, Any]:
        """The same of a node that has no instance yet, as far as nothing depends on one."""
        raise exceptions.OperationNotSupported("get_node_volume_connector")

    def attach_volume(
        self, context: Any, connection_info: Mapping[str, Any], instance: InstanceLike
    ) -> None:
        """Attach a volume to a running instance."""
        raise exceptions.OperationNotSupported("attach_volume")

    def detach_volume(
        self, context: Any, connection_info: Mapping[str, Any], instance: InstanceLike
    ) -> None:
        """Detach a volume from a running instance."""
        raise exceptions.OperationNotSupported("detach_volume")

    def get_serial_console(self, context: Any, instance: InstanceLike) -> ConsoleAddress:
        """Enable the serial console, anew if somebody has it, and say where it is.

        :raises ConsoleUnavailable: there is none to be had.
        """
        raise exceptions.OperationNotSupported("get_serial_console")

    def get_vnc_console(self, context: Any, instance: InstanceLike) -> ConsoleAddress:
        """Enable the graphical console, unless it is, and say where it is.

        :raises ConsoleUnavailable: there is none to be had.
        """
        raise exceptions.OperationNotSupported("get_vnc_console")

    def network_binding_host_id(self, context: Any, instance: InstanceLike) -> str | None:
        """The host that Neutron binds the instance's ports to; ``None`` leaves it to Ironic."""
        return None


def load_compute_driver(conf: cfg.ConfigOpts, virtapi: VirtAPI) -> ComputeDriver:
    """Load the driver that ``[DEFAULT] compute_driver`` names.

    :param conf: options, registered and checked (:func:`ironic_virt.conf.load`).
    :param virtapi: the service's side of the contract.
    :raises ComputeDriverNotFound: no entry point of that name in
        ``ironic_virt.compute_drivers``; lists those found.
    :raises ComputeDriverFailed: it exists but can't be imported or constructed.
    """
    name = conf.compute_driver
    failures: list[BaseException] = []
    try:
        found: named.NamedExtensionManager[Any] = named.NamedExtensionManager(
            DRIVER_NAMESPACE,
            [name],
            invoke_on_load=True,
            invoke_args=(conf, virtapi),
            on_load_failure_callback=lambda _manager, _entrypoint, exc: failures.append(exc),
            on_missing_entrypoints_callback=lambda _names: None,
        )
    except AssertionError as exc:
        # The one error that stevedore does not hand to the callback.
        raise exceptions.ComputeDriverFailed(name, repr(exc)) from exc
    for failure in failures:
        if isinstance(failure, exceptions.IronicVirtError):
            raise failure
        raise exceptions.ComputeDriverFailed(name, repr(failure)) from failure
    drivers = [extension.obj for extension in found]
    if not drivers:
        raise exceptions.ComputeDriverNotFound(name, found.entry_points_names())
    if len(drivers) > 1:
        raise exceptions.ComputeDriverFailed(
            name, "several installed packages bring a driver of this name"
        )
    if not isinstance(drivers[0], ComputeDriver):
        raise exceptions.ComputeDriverFailed(
            name, f"{type(drivers[0]).__name__} is no ironic_virt.virt.ComputeDriver"
        )
    return drivers[0]
