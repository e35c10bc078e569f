# SPDX-License-Identifier: Apache-2.0

"""Errors of actions on a node and its instance: deploy, rescue, power and so on."""

from __future__ import annotations

import enum
from typing import ClassVar

from ironic_virt.exceptions.nodes import NodeError


class DeployFailed(NodeError):
    """Ironic tried to deploy and failed."""


class ImageRefused(DeployFailed):
    """The image itself is at fault: no other node would do better."""

    retriable = False


class ConfigDriveFailed(NodeError):
    """The instance's config drive can't be made, or Ironic does not take it."""

    retriable = False


class ConfigDriveTooLarge(ConfigDriveFailed):
    """The instance's config drive is larger than Ironic takes; it was not sent.

    :ivar size: its bytes, in the form that is limited.
    :ivar limit: how many there may be.
    """

    def __init__(self, node: str, instance: str, size: int, limit: int, form: str) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            node,
            instance,
            f"the config drive is too large: {_mib(size)} {form}, of {_mib(limit)} at most. Give "
            "less user data, or fewer files",
        )


def _mib(size: int) -> str:
    # Rounded up, or what is just too large would look as if it were not.
    return f"{-(-size * 10 // 1024**2) / 10:.1f} MiB"


class HookFailed(NodeError):
    """A hook of the operator's has refused a deployment, or has failed.

    One that fails would fail on the next node, too.

    :ivar hook: its name in ``[ironic] hooks``.
    :ivar retriable: the hook itself has said that another node may do.
    """

    retriable = False

    def __init__(
        self, node: str, instance: str, hook: str, failure: str, *, retriable: bool = False
    ) -> None:
        self.hook = hook
        super().__init__(node, instance, f"hook {hook!r} {failure}")
        self.retriable = retriable


class Disk(enum.Enum):
    """What is on a node's disk after a rebuild that failed; the value is for people."""

    UNTOUCHED = "the disk is as it was"
    KEPT = "the disk is as it was, but the server may not run"
    REWRITTEN = "the new image is on the disk"
    UNKNOWN = "the disk may be rewritten in part"


class RebuildFailed(DeployFailed):
    """The rebuild of an instance failed; what led to it is its cause.

    :ivar disk: what is on the disk.
    """

    retriable = False

    def __init__(
        self, node: str | None, instance: str | None, reason: str, disk: Disk, **more: str | None
    ) -> None:
        self.disk = disk
        super().__init__(node, instance, f"the rebuild failed, and {disk.value}: {reason}", **more)


class System(enum.Enum):
    """What a node runs after a rescue or an unrescue that failed."""

    UNTOUCHED = "what it did before"
    OWN = "the server's own system"
    UNKNOWN = "not known"


class RescueFailed(NodeError):
    """The instance was not brought into the rescue system, or out of it.

    :ivar system: what the node runs now, for programs; ``reason`` says it too.
    """

    retriable = False

    def __init__(
        self,
        node: str | None,
        instance: str | None,
        reason: str,
        *,
        system: System = System.UNKNOWN,
        **more: str | None,
    ) -> None:
        self.system = system
        super().__init__(node, instance, reason, **more)


class ConsoleUnavailable(NodeError):
    """The instance has no console, or it is not available.

    :param kind: ``serial`` or ``vnc``.
    """

    retriable = False

    def __init__(
        self, node: str | None, instance: str | None, kind: str, reason: str, **more: str | None
    ) -> None:
        self.kind = kind
        super().__init__(node, instance, reason, **more)


class TearDownFailed(NodeError):
    """The node could not be torn down; the instance still has it."""

    retriable = False


class PowerFailed(NodeError):
    """The node did not reach the power state asked for."""

    retriable = False


class PowerOffDisabled(PowerFailed):
    """The node can't be powered off (``disable_power_off``); nothing was done."""


class CrashDumpFailed(NodeError):
    """The node was not sent an NMI, or it is not known whether it was."""

    retriable = False


class _VifFailed(NodeError):
    """A change of a virtual interface that failed.

    :cvar change: what could not be done, such as ``attached``.
    """

    change: ClassVar[str]

    def __init__(
        self, node: str, instance: str | None, vif: str, reason: str, **more: str | None
    ) -> None:
        self.vif = vif
        super().__init__(node, instance, f"VIF {vif} could not be {self.change}: {reason}", **more)


class VifAttachFailed(_VifFailed):
    """A virtual interface could not be attached to the node.

    :ivar vif: the id of the VIF (Neutron's port).
    :ivar left: whether the node has it all the same, unconnected perhaps; ``None`` where
        that isn't known.  The reason says it too, with what to do.
    """

    change = "attached"

    def __init__(
        self,
        node: str,
        instance: str | None,
        vif: str,
        reason: str,
        *,
        left: bool | None = False,
        **more: str | None,
    ) -> None:
        self.left = left
        super().__init__(node, instance, vif, reason, **more)


class NoFreePort(VifAttachFailed):
    """All of the node's ports and port groups have a VIF, or none suits this one."""


class VifDetachFailed(_VifFailed):
    """A virtual interface could not be detached: the node still has it.

    :ivar vif: the id of the VIF (Neutron's port).
    """

    retriable = False
    change = "detached"


class VolumeFailed(NodeError):
    """A volume could not be given to the node, or taken from it.

    :ivar volume: the volume's id.
    """

    def __init__(
        self, node: str, instance: str | None, volume: str, reason: str, **more: str | None
    ) -> None:
        self.volume = volume
        super().__init__(node, instance, f"volume {volume}: {reason}", **more)
