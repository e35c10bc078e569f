# SPDX-License-Identifier: Apache-2.0

"""Our errors as Nova's: what nova-compute does next depends on the kind alone.

One table.  Its rows are verdicts on what went wrong (:func:`verdict_on`), its columns
what was being done; a field says which of Nova's errors is raised.  What they lead to:

- a build is *rescheduled* to another node, or *aborted*: the server is in ERROR with
  our text in its fault, at once and without wearing out further nodes;
- a server that could not be torn down is in ERROR and keeps its ports, because what
  runs on the node may still run;
- a server whose rebuild failed is in ERROR, but for one whose node Ironic has not begun with:
  that stays as it is, with a fault;
- a server whose rescue or unrescue failed is in ERROR, even if its system runs: Nova knows
  no other way;
- a failed power change or reboot leaves the server as it is, with a fault;
- if there is no console, its user reads why, and nothing else changes;
- nodes that could not be listed are listed again in the next period.

Nova cuts a fault's text at 255 characters, so it starts with the reason.  The log has
all of it, with node, instance and request id.
"""

from __future__ import annotations

import contextlib
import copy
import enum
from collections.abc import Callable, Iterator
from typing import Any

from nova import exception
from oslo_context import context
from oslo_log import log as logging

from ironic_virt import exceptions

LOG = logging.getLogger(__name__)


class Doing(enum.Enum):
    """What was being done when an error came."""

    START = "starting"
    LIST = "listing nodes"
    LOOK = "looking at an instance"
    NODE = "looking at a node"
    PREPARE = "reserving the node"
    NETWORKS = "attaching the server's ports"
    SPAWN = "deploying"
    VOLUMES = "changing the volumes of a server"
    REBUILD = "rebuilding"
    DESTROY = "tearing down"
    REBOOT = "rebooting"
    POWER_ON = "powering on"
    POWER_OFF = "powering off"
    ATTACH_INTERFACE = "attaching an interface"
    DETACH_INTERFACE = "detaching an interface"
    RESCUE = "rescuing"
    UNRESCUE = "unrescuing"
    CRASH_DUMP = "injecting an NMI"
    SERIAL_CONSOLE = "getting the serial console"
    VNC_CONSOLE = "getting the VNC console"


class Verdict(enum.Enum):
    """What an error says about trying again."""

    ELSEWHERE = "another node may do better"
    POINTLESS = "every node would give the same answer"
    UNWANTED = "the instance is being deleted"
    UNSUPPORTED = "the driver can't do this at all"
    ABSENT = "Ironic has no node with this instance"
    NO_NODE = "the node is gone or not free"
    UNTOUCHED = "nothing was done, and the disk is as it was"


def verdict_on(error: exceptions.IronicVirtError) -> Verdict:
    """What one of our errors says about trying again."""
    match error:
        case exceptions.InstanceNotFound():
            return Verdict.ABSENT
        case exceptions.OperationNotSupported():
            return Verdict.UNSUPPORTED
        case exceptions.BuildAborted():
            return Verdict.UNWANTED
        case exceptions.NodeNotAvailable():
            return Verdict.NO_NODE
        case exceptions.RebuildFailed(disk=exceptions.Disk.UNTOUCHED):
            return Verdict.UNTOUCHED
        case exceptions.NodeError():
            return Verdict.ELSEWHERE if error.retriable else Verdict.POINTLESS
        case (
            exceptions.IronicUnauthorized()
            | exceptions.CertificateNotTrusted()
            | exceptions.MicroversionNotSupported()
        ):
            return Verdict.POINTLESS
        case exceptions.IronicError():
            return Verdict.ELSEWHERE
        case _:
            return Verdict.POINTLESS


class NotTornDown(exception.InstancePowerOffFailure):  # type: ignore[misc]
    """Destroying failed.  By this kind Nova knows not to release the ports."""

    msg_fmt = "The server could not be torn down: %(reason)s"


class NotDeployed(exception.InstanceDeployFailure):  # type: ignore[misc]
    """Deploying failed on this node."""

    msg_fmt = "The server could not be deployed: %(reason)s"


class NotRebuilt(exception.InstanceDeployFailure):  # type: ignore[misc]
    """Rebuilding failed; the reason says so, and what is on the disk."""

    msg_fmt = "%(reason)s"


# Nova's classes have no types.
_Make = Callable[[exceptions.IronicVirtError, Any], Any]


def _abort(error: exceptions.IronicVirtError, instance: Any) -> Any:
    return exception.BuildAbortException(instance_uuid=instance.uuid, reason=reason_of(error))


def _unacceptable(error: exceptions.IronicVirtError, instance: Any) -> Any:
    # Of the errors before the spawn, one of the few whose text reaches the fault.
    return exception.InstanceUnacceptable(instance_id=instance.uuid, reason=reason_of(error))


def _deleting(error: exceptions.IronicVirtError, instance: Any) -> Any:
    return exception.UnexpectedDeletingTaskStateError(
        instance_uuid=instance.uuid, expected={"task_state": "spawning"}, actual=reason_of(error)
    )


def _absent(error: exceptions.IronicVirtError, instance: Any) -> Any:
    return exception.InstanceNotFound(instance_id=instance.uuid)


def _no_host(error: exceptions.IronicVirtError, instance: Any) -> Any:
    return exception.ComputeHostNotFound(host=getattr(error, "node", None))


def _roll_back(error: exceptions.IronicVirtError, instance: Any) -> Any:
    # Nova lets the server keep its state, and its user reads the error inside.
    return exception.InstanceFaultRollback(NotRebuilt(reason=reason_of(error)))


def _no_console(kind: str) -> _Make:
    # Only a kind that Nova has: its API, on another host, would not know a new one.
    return lambda error, instance: exception.ConsoleTypeUnavailable(
        message=f"Unavailable console type {kind}: {reason_of(error)}", console_type=kind
    )


def _with_reason(kind: Callable[..., Exception]) -> _Make:
    return lambda error, instance: kind(reason=reason_of(error))


def _with_message(kind: Callable[..., Exception]) -> _Make:
    return lambda error, instance: kind(reason_of(error))


_RESCHEDULE_AT_ONCE = _with_reason(exception.ComputeResourcesUnavailable)
_NOT_READY = _with_message(exception.VirtDriverNotReady)
_FAILED = _with_message(exception.NovaException)

_TABLE: dict[Verdict | None, dict[Doing, _Make]] = {
    Verdict.POINTLESS: {
        **dict.fromkeys((Doing.PREPARE, Doing.NETWORKS), _unacceptable),
        Doing.SPAWN: _abort,
    },
    Verdict.UNWANTED: dict.fromkeys((Doing.PREPARE, Doing.SPAWN, Doing.REBUILD), _deleting),
    Verdict.UNSUPPORTED: {
        Doing.PREPARE: _unacceptable,
        Doing.SPAWN: _abort,
        Doing.REBUILD: _roll_back,
    },
    Verdict.ABSENT: dict.fromkeys(
        (
            *(Doing.LOOK, Doing.REBOOT, Doing.POWER_ON, Doing.POWER_OFF, Doing.CRASH_DUMP),
            *(Doing.ATTACH_INTERFACE, Doing.DETACH_INTERFACE),
            *(Doing.SERIAL_CONSOLE, Doing.VNC_CONSOLE),
        ),
        _absent,
    ),
    Verdict.NO_NODE: {Doing.NODE: _no_host},
    Verdict.UNTOUCHED: {Doing.REBUILD: _roll_back},
    # Where a verdict has no entry above, such as all that another node may do better.
    None: {
        **dict.fromkeys((Doing.LOOK, Doing.NODE, Doing.VOLUMES, Doing.CRASH_DUMP), _FAILED),
        **dict.fromkeys((Doing.PREPARE, Doing.NETWORKS), _RESCHEDULE_AT_ONCE),
        Doing.START: _with_message(exception.InvalidConfiguration),
        Doing.LIST: _NOT_READY,
        Doing.SPAWN: _with_reason(NotDeployed),
        Doing.REBUILD: _with_reason(NotRebuilt),
        Doing.DESTROY: _with_reason(NotTornDown),
        Doing.REBOOT: _with_reason(exception.InstanceRebootFailure),
        Doing.POWER_ON: _with_reason(exception.InstancePowerOnFailure),
        Doing.POWER_OFF: _with_reason(exception.InstancePowerOffFailure),
        Doing.ATTACH_INTERFACE: _with_message(exception.VirtualInterfacePlugException),
        Doing.DETACH_INTERFACE: _with_reason(exception.VirtualInterfaceUnplugException),
        Doing.RESCUE: _with_reason(exception.InstanceRescueFailure),
        Doing.UNRESCUE: _with_reason(exception.InstanceUnRescueFailure),
        Doing.SERIAL_CONSOLE: _no_console("serial"),
        Doing.VNC_CONSOLE: _no_console("vnc"),
    },
}


def translate_error(
    error: exceptions.IronicVirtError, doing: Doing, instance: Any = None
) -> Exception:
    """Translate one of our errors into Nova's.

    :param instance: Nova's instance, where there is one.
    """
    make = _TABLE.get(verdict_on(error), {}).get(doing) or _TABLE[None][doing]
    made: Exception = make(error, instance)
    return made


def reason_of(error: exceptions.IronicVirtError) -> str:
    """What a user reads: the reason, without uuids, which the fault has anyway."""
    text = error.reason if isinstance(error, exceptions.NodeError) else str(error)
    return "; ".join([text, *getattr(error, "__notes__", ())])


@contextlib.contextmanager
def translated(doing: Doing, instance: Any = None) -> Iterator[None]:
    """Let what is raised in the block reach Nova as its own error; others pass.

    What is logged meanwhile names the instance.
    """
    try:
        with _about(instance):
            yield
    except exceptions.IronicVirtError as error:
        _log_failure(error, doing, instance)
        raise translate_error(error, doing, instance) from error


def _log_failure(error: exceptions.IronicVirtError, doing: Doing, instance: Any) -> None:
    is_taken = isinstance(error, exceptions.NodeNotAvailable | exceptions.ReservationFailed)
    if isinstance(error, exceptions.BuildAborted):
        LOG.info("Ended %s: %s", doing.value, error, instance=instance)
    elif doing is Doing.PREPARE and is_taken:
        # Others take nodes, too.
        LOG.info("No node was reserved: %s. Nova tries another host", error, instance=instance)
    elif not isinstance(error, exceptions.InstanceNotFound):
        # Nova asks of what may be gone, and says so itself.
        LOG.error("[task-failed] Failed %s: %s", doing.value, error, instance=instance)


@contextlib.contextmanager
def _about(instance: Any) -> Iterator[None]:
    """Have every line that this thread logs in the block name the instance.

    :param instance: Nova's; ``None``: it is about none.
    """
    request = context.get_current()
    if instance is None or request is None:
        yield
        return
    # Another thread may carry the same request out for another server.
    ours = copy.copy(request)
    ours.resource_uuid = instance.uuid
    ours.update_store()
    try:
        yield
    finally:
        request.update_store()
