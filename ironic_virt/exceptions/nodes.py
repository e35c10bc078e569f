# SPDX-License-Identifier: Apache-2.0

"""What did not happen to a node and its instance."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import ClassVar

from ironic_virt.exceptions.general import IronicVirtError


class InstanceNotFound(IronicVirtError):
    """No node in Ironic carries this instance."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        super().__init__(f"Ironic has no node with instance {instance}")


class NodeError(IronicVirtError):
    """An action on a node did not happen or did not succeed.

    :param node: the node's uuid.
    :param instance: the instance's uuid.
    :param reason: what happened, in one sentence.
    :param request_id: Ironic's request id, where a request led to this.

    :cvar retriable: another node may do better: a scheduler should try again.
        ``False`` means that every node would give the same answer.
    """

    retriable = True

    def __init__(
        self,
        node: str | None,
        instance: str | None,
        reason: str,
        *,
        request_id: str | None = None,
    ) -> None:
        self.node = node
        self.instance = instance
        self.reason = reason
        self.request_id = request_id
        who = f"Node {node}" if node else "No node"
        whose = f", instance {instance}" if instance else ""
        super().__init__(f"{who}{whose}: {reason}")


class NodeNotGiven(NodeError):
    """The caller named no node for the instance."""

    retriable = False


class NodeNotAvailable(NodeError):
    """The node can't take a new instance now; nothing was changed."""


class NodeTaken(NodeNotAvailable):
    """The node carries another instance's uuid; that is never touched.

    :ivar owner: the uuid of the instance that has the node.
    """

    def __init__(
        self, node: str, instance: str | None, owner: str, reason: str | None = None
    ) -> None:
        self.owner = owner
        super().__init__(
            node, instance, reason or f"the node belongs to instance {owner}; it was left alone"
        )


class ClaimRefused(NodeNotAvailable):
    """A scheduler's host state can't take the request; nothing was changed."""


class ReservationFailed(NodeError):
    """Ironic could not be brought to reserve a node; none is left reserved.

    :ivar candidates: how many nodes would have done, in the last round.
    :ivar rounds: why each round failed, in words.
    """

    def __init__(
        self, instance: str, reason: str, *, candidates: int, rounds: Iterable[str] = ()
    ) -> None:
        self.candidates = candidates
        self.rounds = tuple(rounds)
        tried = "".join(
            f"; round {number}: {why}" for number, why in enumerate(self.rounds, start=1)
        )
        super().__init__(None, instance, f"{reason}{tried}")


class NodeNotOurs(NodeError):
    """The node is outside this service's conductor group or shard."""


class NodeValidationFailed(NodeError):
    """Ironic's validation of the node failed.

    :ivar reasons: interface name to Ironic's reason, the failed ones only.
    """

    def __init__(self, node: str, instance: str | None, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        listed = "; ".join(f"{name}: {why}" for name, why in sorted(self.reasons.items()))
        super().__init__(node, instance, f"Ironic's validation of the node failed ({listed})")


class _IronicFailed(NodeError):
    """What Ironic may have tried and failed at."""

    def __init__(
        self,
        node: str | None,
        instance: str | None,
        reason: str,
        *,
        last_error: str | None = None,
        request_id: str | None = None,
    ) -> None:
        self.last_error = last_error
        super().__init__(node, instance, reason, request_id=request_id)


class DeployFailed(_IronicFailed):
    """Ironic tried to deploy and failed.

    :ivar last_error: Ironic's own ``last_error``, as one line of 4,000 characters at most.
    """


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

    A hook that fails says nothing of the node, and the next node would wait for the same
    service or trip over the same mistake.

    :ivar hook: its name in ``[ironic] hooks``.
    :ivar retriable: the hook itself has said that another node may do.
    """

    retriable = False

    def __init__(
        self, node: str, instance: str, hook: str, what: str, *, retriable: bool = False
    ) -> None:
        self.hook = hook
        super().__init__(node, instance, f"hook {hook!r} {what}")
        self.retriable = retriable


class BuildAborted(NodeError):
    """The build is not wanted any more, says the compute service."""

    retriable = False


class Disk(enum.Enum):
    """What is on a node's disk after a rebuild that failed; the value is for people."""

    UNTOUCHED = "the disk is as it was"
    REWRITTEN = "the new image is on the disk"
    UNKNOWN = "the disk may be rewritten in part"


class RebuildFailed(DeployFailed):
    """The instance's node was not deployed to anew.

    What led to it is its cause, if that was an error of its own.

    :ivar disk: what is on the disk.
    """

    retriable = False

    def __init__(
        self,
        node: str | None,
        instance: str | None,
        reason: str,
        disk: Disk,
        *,
        last_error: str | None = None,
        request_id: str | None = None,
    ) -> None:
        self.disk = disk
        super().__init__(
            node,
            instance,
            f"the rebuild failed, and {disk.value}: {reason}",
            last_error=last_error,
            request_id=request_id,
        )


class System(enum.Enum):
    """What a node runs after a rescue or an unrescue that failed."""

    UNTOUCHED = "what it did before"
    OWN = "the instance's own system"
    UNKNOWN = "not known"


class RescueFailed(_IronicFailed):
    """The instance was not brought into the rescue system, or out of it.

    :ivar last_error: Ironic's own ``last_error``, as one line of 4,000 characters at most.
    :ivar system: what the node runs now, for programs; ``reason`` says it too.
    """

    retriable = False

    def __init__(
        self,
        node: str | None,
        instance: str | None,
        reason: str,
        *,
        last_error: str | None = None,
        request_id: str | None = None,
        system: System = System.UNKNOWN,
    ) -> None:
        self.system = system
        super().__init__(node, instance, reason, last_error=last_error, request_id=request_id)


class ConsoleUnavailable(NodeError):
    """The instance's console can't be had.

    :param kind: ``serial`` or ``vnc``.
    """

    retriable = False

    def __init__(
        self,
        node: str | None,
        instance: str | None,
        kind: str,
        reason: str,
        *,
        request_id: str | None = None,
    ) -> None:
        self.kind = kind
        super().__init__(node, instance, reason, request_id=request_id)


class TearDownFailed(_IronicFailed):
    """The node could not be torn down; the instance still has it.

    :ivar last_error: Ironic's own ``last_error``, whole, where Ironic tried and failed.
    """

    retriable = False


class PowerFailed(NodeError):
    """The node did not reach the power state asked for."""

    retriable = False


class PowerOffDisabled(PowerFailed):
    """The node can't be powered off (``disable_power_off``); nothing was done."""


class CrashDumpFailed(NodeError):
    """The node was not sent an NMI, or nobody can tell whether it was."""

    retriable = False


class _VifFailed(NodeError):
    """What was not done to a virtual interface.

    :cvar what: in words, what wasn't.
    """

    what: ClassVar[str]

    def __init__(
        self,
        node: str,
        instance: str | None,
        vif: str,
        reason: str,
        *,
        request_id: str | None = None,
    ) -> None:
        self.vif = vif
        super().__init__(
            node, instance, f"VIF {vif} could not be {self.what}: {reason}", request_id=request_id
        )


class VifAttachFailed(_VifFailed):
    """A virtual interface could not be attached to the node.

    :ivar vif: the id of the VIF (Neutron's port).
    :ivar left: whether the node has it all the same, unconnected perhaps; ``None`` where
        that isn't known.  The reason says it too, with what to do.
    """

    what = "attached"

    def __init__(
        self,
        node: str,
        instance: str | None,
        vif: str,
        reason: str,
        *,
        request_id: str | None = None,
        left: bool | None = False,
    ) -> None:
        self.left = left
        super().__init__(node, instance, vif, reason, request_id=request_id)


class NoFreePort(VifAttachFailed):
    """All of the node's ports and port groups have a VIF, or none suits this one."""


class VifDetachFailed(_VifFailed):
    """A virtual interface could not be detached: the node still has it.

    :ivar vif: the id of the VIF (Neutron's port).
    """

    retriable = False
    what = "detached"


class VolumeFailed(NodeError):
    """A volume could not be given to the node, or taken from it.

    :ivar volume: the volume's id.
    """

    def __init__(
        self,
        node: str,
        instance: str | None,
        volume: str,
        reason: str,
        *,
        request_id: str | None = None,
    ) -> None:
        self.volume = volume
        super().__init__(node, instance, f"volume {volume}: {reason}", request_id=request_id)


class WaitTimeout(NodeError):
    """A wait reached its deadline.

    :ivar seconds: how long was waited.
    :ivar last_seen: provision state, target and power state when last seen.
    """

    def __init__(
        self, node: str, instance: str | None, what: str, seconds: float, last_seen: str
    ) -> None:
        self.what = what
        self.seconds = seconds
        self.last_seen = last_seen
        super().__init__(
            node, instance, f"timed out after {seconds:.0f} s waiting to {what}; {last_seen}"
        )


class WaitCancelled(NodeError):
    """A wait was ended before its end, because the service stops."""

    retriable = False
