# SPDX-License-Identifier: Apache-2.0

"""What passes between a compute service and a driver.

What a driver reads is defined twice: as a Protocol that says which attributes it reads,
and as a small frozen dataclass for services without such an object.  Nova's objects
satisfy the Protocols as they are.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, overload


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
    :param user_data: the user's script or document; bytes need not be text.
    :param network_data: network configuration in OpenStack's form.  The driver gives each of
        its ``links`` with a ``vif_id`` the address of the port that has this VIF, and those of
        type ``phy`` that name nothing the addresses of the ports without one, in Ironic's
        order.  A link without an ``mtu`` gets one.  ``None``: the driver makes it of the ports
        that have VIFs.
    :param vendor_data: the operator's additions.
    :param no_json: why Ironic can't be sent the fields, but only an image of them.
    :param make_image: makes an image in the caller's own way; called only if one is needed.
        It is given this config drive, in which hooks may have changed metadata and network
        data meanwhile.
    """

    meta_data: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    user_data: str | bytes | None = dataclasses.field(default=None, repr=False)
    network_data: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    vendor_data: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    no_json: str | None = None
    make_image: Callable[[ConfigDrive], bytes] | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class ServerGroup:
    """A group whose members are spread over failure domains, or packed into one.

    :ivar policy: ``anti-affinity``, ``affinity``, or one of them with ``soft-`` before it.
    :ivar most: members that a failure domain may have with ``anti-affinity``.
    :ivar domains: the failure domains of the other members that may have a node, by their
        uuids; ``None``: not known.
    :ivar building: how many other members have none yet.
    """

    uuid: str
    name: str
    policy: str
    most: int = 1
    domains: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    building: int = 0

    def __str__(self) -> str:
        return f"server group {self.name} ({self.policy})"


@dataclasses.dataclass(frozen=True, slots=True)
class DeployRequest:
    """What is to be deployed, or rebuilt; the caller of the driver makes it once.

    :param image: of no meaning for an instance that boots from a volume.
    :param network_info: the VIFs that the instance is to have; of a rebuild those it has.
    :param injected_files: where files are to be put in the instance, and their contents.
    :param block_devices: its volumes; the one of index 0 is the one that it boots from.
    :param request_id: rebuilds with the same id are one request: a later call resumes where
        the earlier one ended.  ``None``: each call is a separate request.
    :param preserve_ephemeral: a rebuild is to leave the ephemeral disk as it is.
    :param resumes: a rebuild with which an earlier call has not made Ironic begin is to fail.
    """

    instance: InstanceLike
    image: ImageLike
    network_info: NetworkInfo = ()
    injected_files: Sequence[tuple[str, bytes]] = dataclasses.field(default=(), repr=False)
    admin_password: str | None = dataclasses.field(default=None, repr=False)
    block_devices: Sequence[BlockDevice] = ()
    request_id: str | None = None
    preserve_ephemeral: bool = False
    resumes: bool = False

    @property
    def boots_from_volume(self) -> bool:
        """Whether the system is on a volume, and no image is used."""
        return any(device.boot_index == 0 for device in self.block_devices)


# -- what a driver answers ----------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceInfo:
    """What :meth:`IronicDriver.get_info` answers.

    :param active: what was deployed is there, and not a rescue system or a part of it.
    :param deploying: Ironic is deploying it.
    :param rebuild_pending: a rebuild was prepared, with which Ironic has not begun.
    """

    state: PowerState
    active: bool = True
    deploying: bool = False
    rebuild_pending: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceDiagnostics:
    """What :meth:`IronicDriver.get_instance_diagnostics` answers.

    :param hypervisor: what runs the instance, in one word.
    :param uptime: seconds since it was switched on or rebooted from outside; ``None``:
        not known.
    :param config_drive: it was deployed with one.
    :param cpus: cores of its hardware; 0: not known.
    :param memory_mb: MiB of its hardware; ``None``: not known.
    :param macs: the MAC addresses of its hardware's network ports.
    """

    state: PowerState
    hypervisor: str
    uptime: int | None = None
    config_drive: bool = False
    cpus: int = 0
    memory_mb: int | None = None
    macs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class NodeResource:
    """What a node is, for the service's records and for schedulers that match sizes.

    :param uuid: the node's uuid, which is also its ``hypervisor_hostname``; a pool's is made
        from its name.
    :param vcpus: cores; 0 if the node doesn't say.
    :param memory_mb: MiB; 0 if the node doesn't say.
    :param local_gb: GiB; 0 if the node doesn't say.
    :param in_use: an instance has the node: all of it is used.
    :param stats: ``cpu_arch`` and the node's capabilities, by name.
    :param available: the node can take a new instance now.
    :param traits: of a pool, those that all of its nodes have.
    :param name: Ironic's own name of the node, if it has one.
    :param cleaning: Ironic is taking the node back from its last instance, so it may soon be
        available by itself.
    :param failure_domains: a pool's free nodes by failure domain; for a node, 1 in its own
        domain (``""``: in none).  ``None``: no option says what a domain is.
    """

    uuid: str
    hypervisor_hostname: str
    vcpus: int
    memory_mb: int
    local_gb: int
    in_use: bool
    cpu_arch: str | None
    resource_class: str | None
    stats: Mapping[str, str]
    available: bool = False
    traits: frozenset[str] = frozenset()
    name: str | None = None
    cleaning: bool = False
    failure_domains: Mapping[str, int] | None = None


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
    :param used: of a pool, how many instances of this service the records had in it
        when it was counted.
    """

    resource_class: str
    placement_class: str
    total: int
    reserved: int
    traits: frozenset[str]
    used: int = 0


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
