# SPDX-License-Identifier: Apache-2.0

"""The contract between a compute service and a driver.

:class:`ComputeDriver` is what a compute service calls, :class:`VirtAPI` is
what the driver asks of the service that loaded it, and the value types pass
between the two.  :func:`load_compute_driver` brings them together.

The value types come twice: as a Protocol that says which attributes a driver
reads, and as a small frozen dataclass for services that have no such object of
their own.  Nova's objects satisfy the Protocols as they are.

Nothing here knows Ironic.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol, overload

from oslo_config import cfg
from stevedore import named

from ironic_virt import exceptions

DRIVER_NAMESPACE = "ironic_virt.compute_drivers"


class PowerState(enum.IntEnum):
    """Power states, with the numbers that Nova's database keeps."""

    NOSTATE = 0
    RUNNING = 1
    PAUSED = 3
    SHUTDOWN = 4
    CRASHED = 6
    SUSPENDED = 7


# -- what a driver reads ------------------------------------------------------


class FlavorLike(Protocol):
    """What was asked for.  Sizes in GiB for disks, MiB for memory and swap."""

    @property
    def name(self) -> str: ...
    @property
    def vcpus(self) -> int: ...
    @property
    def memory_mb(self) -> int: ...
    @property
    def root_gb(self) -> int: ...
    @property
    def ephemeral_gb(self) -> int: ...
    @property
    def swap(self) -> int: ...
    @property
    def extra_specs(self) -> Mapping[str, str]: ...


class InstanceLike(Protocol):
    """An instance: who it is, and the node that it has."""

    @property
    def uuid(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def display_name(self) -> str | None: ...
    @property
    def host(self) -> str | None: ...
    @property
    def node(self) -> str | None: ...
    @property
    def project_id(self) -> str | None: ...
    @property
    def user_id(self) -> str | None: ...
    @property
    def flavor(self) -> FlavorLike: ...


class Properties(Protocol):
    """Named properties of an image: a mapping, or Nova's ``ImageMetaProps``."""

    # Two signatures, or type checkers would not let a Mapping pass.
    @overload
    def get(self, name: str, /) -> Any: ...
    @overload
    def get(self, name: str, default: Any, /) -> Any: ...


class ImageLike(Protocol):
    """An image.

    ``id`` is what Ironic gets as ``image_source``: a Glance image's id, or an
    ``http(s)://`` or ``file://`` URL; for a URL, ``checksum`` is needed too.
    """

    @property
    def id(self) -> str | None: ...
    @property
    def properties(self) -> Properties: ...


class VifLike(Protocol):
    """A virtual interface: ``id`` is what Ironic calls the VIF (Neutron's port)."""

    @property
    def id(self) -> str: ...
    @property
    def address(self) -> str | None: ...


NetworkInfo = Sequence[VifLike]


# -- the same as plain values -------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    """A :class:`FlavorLike`."""

    name: str
    vcpus: int = 0
    memory_mb: int = 0
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap: int = 0
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Instance:
    """An :class:`InstanceLike`."""

    uuid: str
    name: str
    flavor: Flavor
    display_name: str | None = None
    host: str | None = None
    node: str | None = None
    project_id: str | None = None
    user_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ImageMeta:
    """An :class:`ImageLike`.

    :param checksum: for a URL: an MD5, SHA-256 or SHA-512 hex digest, or the
        URL of a file of such digests; Ironic tells them apart.
    :param properties: ``kernel_id`` and ``ramdisk_id`` (URLs or ids) make it a
        partition image, ``traits_required`` a list of traits.
    """

    id: str
    checksum: str | None = None
    disk_format: str | None = None
    properties: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Vif:
    """A :class:`VifLike`."""

    id: str
    address: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class BlockDevice:
    """A volume of an instance.

    :param connection_info: as the volume service returned it: the keys
        ``driver_volume_type`` and ``data``.  Holds credentials: never logged.
    """

    volume_id: str
    boot_index: int
    connection_info: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigDrive:
    """What goes onto an instance's config drive; never logged.

    :param meta_data: the instance's metadata, as JSON-able values.
    :param user_data: the user's script or document.
    :param network_data: network configuration in OpenStack's form.
    :param vendor_data: the operator's additions (API 1.59).
    :param iso_gzip_base64: a config drive that the caller made: an ISO 9660
        image, gzipped, in base64; then all other fields are ignored.
    """

    meta_data: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    user_data: str | None = dataclasses.field(default=None, repr=False)
    network_data: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    vendor_data: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    iso_gzip_base64: str | None = dataclasses.field(default=None, repr=False)


# -- what a driver answers ----------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceInfo:
    """What :meth:`ComputeDriver.get_info` answers."""

    state: PowerState
    internal_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class NodeResource:
    """What a node is, for the service's records and for schedulers that match sizes.

    :param uuid: the node's uuid, which is also its ``hypervisor_hostname``; a pool
        has a name of its own.
    :param vcpus: cores; 0 if the node doesn't say.
    :param memory_mb: MiB; 0 if the node doesn't say.
    :param local_gb: GiB; 0 if the node doesn't say.
    :param in_use: an instance has the node: all of it is used.
    :param stats: ``cpu_arch`` and the node's capabilities, by name.
    :param available: the node can take a new instance now.
    :param traits: of a pool, those that all of its nodes have.
    """

    uuid: str
    hypervisor_hostname: str
    hypervisor_type: str
    hypervisor_version: int
    vcpus: int
    memory_mb: int
    local_gb: int
    in_use: bool
    cpu_arch: str | None
    resource_class: str | None
    stats: Mapping[str, str]
    available: bool = False
    traits: frozenset[str] = frozenset()

    @property
    def vcpus_used(self) -> int:
        """Cores in use: all or none."""
        return self.vcpus if self.in_use else 0

    @property
    def memory_mb_used(self) -> int:
        """MiB in use: all or none."""
        return self.memory_mb if self.in_use else 0

    @property
    def local_gb_used(self) -> int:
        """GiB in use: all or none."""
        return self.local_gb if self.in_use else 0


@dataclasses.dataclass(frozen=True, slots=True)
class NodeInventory:
    """What a compute node offers to a scheduler by resource class.

    :param resource_class: Ironic's own name of it.
    :param placement_class: the same in Placement's form, ``CUSTOM_…``.
    :param total: how many instances it can hold: 1, or of a pool several.
    :param reserved: how many of them it can't take: of a node 1 when it is taken, in
        maintenance, retired, or in any state but available; of a pool those that
        are in such a state or have another service's instance.
    :param traits: the traits set on the node, or on all nodes of the pool.
    :param pools: child pools by name; empty, as long as each pool has its own record.
    """

    resource_class: str
    placement_class: str
    total: int
    reserved: int
    traits: frozenset[str]
    capabilities: Mapping[str, str]
    pools: Mapping[str, NodeInventory] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class ConsoleAddress:
    """Where an instance's console is, for a proxy that can reach it.

    :param kind: ``serial``: a bare TCP stream; ``vnc``: the RFB protocol.
    :param port: TCP.
    :param path: to ask for over HTTP before the stream begins; ``None``: there is none.
    :param url: what a person can open; ``None``: there is none.  Who has it has the
        console: never logged.
    """

    kind: Literal["serial", "vnc"]
    host: str
    port: int
    path: str | None = dataclasses.field(default=None, repr=False)
    url: str | None = dataclasses.field(default=None, repr=False)


# -- the two sides ------------------------------------------------------------


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

    def deploy_metadata(
        self, instance: InstanceLike, network_info: NetworkInfo
    ) -> Mapping[str, str]:
        """More to write into the node's ``instance_info`` for operators' tools.

        Nova's keys are ``project_name``, ``user_name``, ``fixed_ips`` and
        ``floating_ips``.
        """
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
    def failed_spawn_cleanup(self, instance: InstanceLike) -> None:
        """Undo whatever a failed spawn left behind."""

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
        """Be told that the node's power state has changed by itself."""
        raise exceptions.OperationNotSupported("power_update_event")

    def trigger_crash_dump(self, instance: InstanceLike) -> None:
        """Inject an NMI."""
        raise exceptions.OperationNotSupported("trigger_crash_dump")

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
        """Attach a virtual interface to a running instance."""
        raise exceptions.OperationNotSupported("attach_interface")

    def detach_interface(self, context: Any, instance: InstanceLike, vif: VifLike) -> None:
        """Detach a virtual interface from a running instance."""
        raise exceptions.OperationNotSupported("detach_interface")

    def get_volume_connector(self, instance: InstanceLike) -> Mapping[str, Any]:
        """What a volume service must know to export a volume to the node."""
        raise exceptions.OperationNotSupported("get_volume_connector")

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
