# SPDX-License-Identifier: Apache-2.0

"""What the records say, as frozen values: all that leaves this room.

Times are aware and in UTC, sizes in GiB for disks and MiB for memory and swap.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any, ClassVar

from ironic_virt import virt
from ironic_virt.compute.errors import one_line
from ironic_virt.compute.networks import Network
from ironic_virt.compute.states import VmState


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeService:
    """A compute service.

    :param incarnation: the process that is the service now.
    :param conductor_group: ``None`` is any, ``""`` the default group.
    :param forced_down: an operator says that it is down; its reports don't count.
    :param last_seen_at: when it last reported.
    """

    host: str
    version: str
    incarnation: str
    conductor_group: str | None = None
    shard_key: str | None = None
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    last_seen_at: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeNode:
    """An Ironic node as of its service's last refresh; sizes are 0 if not known.

    :param in_use: an instance has the node in Ironic.
    :param available: Ironic could deploy on it now; without effect if ``in_use``.
    :param name: Ironic's own name of it.
    :param cleaning: Ironic cleans it after its last instance, or is about to.
    :param host: the service that has it; this and what follows is not reported at a refresh.
    :param instance_uuid: the instance that has claimed it.
    """

    uuid: str
    vcpus: int = 0
    memory_mb: int = 0
    local_gb: int = 0
    cpu_arch: str | None = None
    resource_class: str | None = None
    traits: frozenset[str] = frozenset()
    stats: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    in_use: bool = False
    available: bool = True
    name: str | None = None
    cleaning: bool = False
    host: str = ""
    instance_uuid: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class NodePool:
    """A pool of a service's: how many nodes of a kind it has, and how many are given out.

    Sizes are what each of its nodes has, 0 where they differ or it isn't known.  Schedulers
    take it as they take a compute node; see
    :class:`~ironic_virt.scheduler.host_state.ComputeNodeLike`.

    :param used: how many instances have a place in it.
    :param reserved: how many of the others can't be given to an instance.
    """

    in_use: ClassVar[bool] = False
    instance_uuid: ClassVar[str | None] = None

    name: str
    host: str
    resource_class: str
    total: int
    used: int = 0
    reserved: int = 0
    traits: frozenset[str] = frozenset()
    stats: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    vcpus: int = 0
    memory_mb: int = 0
    local_gb: int = 0
    cpu_arch: str | None = None

    def with_used(self, used: int) -> NodePool:
        """The pool when so many instances have a place, by what its service has counted."""
        total = max(self.total, used)
        # The nodes of those that have left since then are being cleaned.
        reserved = min(self.reserved + max(0, self.used - used), total - used)
        return dataclasses.replace(self, total=total, used=used, reserved=reserved)

    @property
    def free(self) -> int:
        """How many more instances it takes."""
        return self.total - self.used - self.reserved

    @property
    def uuid(self) -> str:
        """The name, which schedulers use as its id."""
        return self.name

    @property
    def available(self) -> bool:
        """Whether it takes an instance."""
        return self.free > 0


@dataclasses.dataclass(frozen=True, slots=True)
class NewInstance:
    """What a new instance is to be.

    :param user_data: the user's script or document, bytes if it is not text; never logged.
    :param request_id: of what was asked of it last.
    :param requested_node: the uuid of the only node that will do; ``None``: any that fits.
    """

    uuid: str
    flavor: virt.Flavor
    image: virt.ImageMeta
    display_name: str | None = None
    ports: tuple[virt.Vif, ...] = ()
    networks: tuple[Network, ...] = ()
    user_data: str | bytes | None = dataclasses.field(default=None, repr=False)
    key_name: str | None = None
    public_key: str | None = dataclasses.field(default=None, repr=False)
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    project_id: str | None = None
    user_id: str | None = None
    request_id: str | None = None
    requested_node: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong with an instance.

    :param message: one line for the instance's owner.
    :param details: what more an operator may want to know.
    :param created_at: in ISO 8601; it and the request are added when it is written down.
    :param request_id: of the request that failed; ``None``: it goes on, or there was none.
    """

    message: str
    details: str | None = None
    created_at: str = ""
    request_id: str | None = None

    @classmethod
    def of(cls, error: BaseException, message: str | None = None) -> Fault:
        """What to write down of an error.

        :param message: more than what it says itself.
        """
        notes = "\n".join(getattr(error, "__notes__", ()))
        return cls(message or one_line(error), details=notes or None)

    def at(self, now: datetime.datetime, request_id: str | None) -> Fault:
        """It as the record has it."""
        created_at = now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return dataclasses.replace(self, created_at=created_at, request_id=request_id)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Instance(NewInstance):
    """An instance, and what is wanted of it; a driver takes it as it is.

    :param host: the service that has it.
    :param node: the uuid of its node; where Ironic picks that, only since it has.
    :param pool: the pool that it has a place of.
    :param vm_state: what it is (:class:`~ironic_virt.compute.states.VmState`).
    :param task_state: what is wanted of it and not yet so.
    :param arguments: of what is wanted, by name; a password may be among them.
    :param fault: what went wrong last.
    :param refusals: how many of its attempts the guard ended before anything was changed.
    :param tried_nodes: uuids of the nodes that it was given up on, and names of the pools
        that had none for it.
    """

    host: str | None = None
    node: str | None = None
    pool: str | None = None
    vm_state: str = VmState.BUILDING
    task_state: str | None = None
    power_state: int = virt.PowerState.NOSTATE
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, hash=False)
    fault: Fault | None = None
    progress_step: str | None = None
    progress_detail: str | None = None
    attempts: int = 1
    refusals: int = 0
    tried_nodes: tuple[str, ...] = ()
    launched_at: datetime.datetime | None = None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None = None

    @property
    def name(self) -> str:
        """What to call it: its display name, or its uuid."""
        return self.display_name or self.uuid

    @property
    def is_deleted(self) -> bool:
        """Whether nothing of it is left, and its record is gone."""
        return self.vm_state == VmState.DELETED

    def as_deleted(self, request_id: str | None = None) -> Instance:
        """The instance when its record is gone.

        :param request_id: of the delete; ``None``: as it is.
        """
        return dataclasses.replace(
            self,
            vm_state=VmState.DELETED,
            task_state=None,
            power_state=virt.PowerState.NOSTATE,
            progress_step=None,
            progress_detail=None,
            request_id=request_id or self.request_id,
        )


def fields(value: Any) -> dict[str, Any]:
    """The fields of a value, by name."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
