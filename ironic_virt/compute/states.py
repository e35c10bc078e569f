# SPDX-License-Identifier: Apache-2.0

"""The states of an instance in the reference service's records, and what may be asked in which.

``vm_state`` is what the instance is, ``task_state`` what is wanted of it and
not yet so.  The words are Nova's.  Everything here is a pure function of data.
"""

from __future__ import annotations

import dataclasses
import enum


class VmState(enum.StrEnum):
    """What an instance is."""

    BUILDING = "building"
    ACTIVE = "active"
    STOPPED = "stopped"
    RESCUED = "rescued"
    ERROR = "error"
    DELETED = "deleted"


class TaskState(enum.StrEnum):
    """What is wanted of an instance; no task means that nothing is."""

    SPAWNING = "spawning"
    DELETING = "deleting"
    POWERING_ON = "powering-on"
    POWERING_OFF = "powering-off"
    REBOOTING = "rebooting"
    REBOOTING_HARD = "rebooting-hard"
    REBUILDING = "rebuilding"
    RESCUING = "rescuing"
    UNRESCUING = "unrescuing"
    ATTACHING_INTERFACE = "attaching-interface"
    DETACHING_INTERFACE = "detaching-interface"
    TRIGGERING_CRASH_DUMP = "triggering-crash-dump"


@dataclasses.dataclass(frozen=True, slots=True)
class Transition:
    """A kind of request.

    :param action: what the instance's history calls it.
    :param allowed_in: the states in which it can be asked for, as long as
        nothing else is wanted.
    """

    action: str
    allowed_in: frozenset[VmState]


TRANSITIONS = {
    TaskState.POWERING_ON: Transition("start", frozenset({VmState.STOPPED})),
    TaskState.POWERING_OFF: Transition("stop", frozenset({VmState.ACTIVE})),
    TaskState.REBOOTING: Transition("reboot", frozenset({VmState.ACTIVE})),
    TaskState.REBOOTING_HARD: Transition(
        "reboot", frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.ERROR})
    ),
    TaskState.REBUILDING: Transition(
        "rebuild", frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.ERROR})
    ),
    TaskState.RESCUING: Transition(
        "rescue", frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.ERROR})
    ),
    TaskState.UNRESCUING: Transition(
        # In error is one whose unrescue has failed.
        "unrescue",
        frozenset({VmState.RESCUED, VmState.ERROR}),
    ),
    TaskState.ATTACHING_INTERFACE: Transition(
        "attach_interface", frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.RESCUED})
    ),
    TaskState.DETACHING_INTERFACE: Transition(
        # From one that is rescued Ironic would not disconnect it.
        "detach_interface",
        frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
    ),
    TaskState.TRIGGERING_CRASH_DUMP: Transition(
        "trigger_crash_dump", frozenset({VmState.ACTIVE, VmState.RESCUED, VmState.ERROR})
    ),
    TaskState.DELETING: Transition("delete", frozenset(VmState) - {VmState.DELETED}),
}
"""What a user can ask for; ``SPAWNING`` comes with the instance itself."""


def refusal(wanted: TaskState, vm_state: str, task_state: str | None) -> str | None:
    """Why a request can't be taken now, in words for its sender; ``None``: it can.

    A delete supersedes whatever else is wanted.
    """
    if wanted not in TRANSITIONS:
        return f"{wanted.value} is nothing that can be asked for"
    transition = TRANSITIONS[wanted]
    if vm_state not in transition.allowed_in:
        states = ", ".join(sorted(state.value for state in transition.allowed_in))
        refused = f"it is {vm_state}, and {transition.action} needs one that is {states}"
        return f"{refused}; unrescue it first" if vm_state == VmState.RESCUED else refused
    if task_state is not None and wanted is not TaskState.DELETING:
        return f"it is busy ({task_state}); wait until that is done, or delete it"
    return None
