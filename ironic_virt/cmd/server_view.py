# SPDX-License-Identifier: Apache-2.0

"""How servers are shown, in the words of ``openstack server``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ironic_virt import virt
from ironic_virt.cmd.output import Json, Words, when
from ironic_virt.compute.states import BUSY_STATUSES, STATUSES, VmState

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import Action, Fault, Instance

LIST_COLUMNS = ("ID", "Name", "Status", "Node", "Image", "Flavor")
LONG_COLUMNS = (
    *("ID", "Name", "Status", "Task State", "Power State", "Progress", "Host", "Node"),
    *("Image", "Flavor", "Properties", "Created At"),
)
SHOW_COLUMNS = (
    "OS-EXT-SRV-ATTR:host",
    "OS-EXT-SRV-ATTR:hypervisor_hostname",
    "OS-EXT-STS:power_state",
    "OS-EXT-STS:task_state",
    "OS-EXT-STS:vm_state",
    "OS-SRV-USG:launched_at",
    "OS-SRV-USG:terminated_at",
    "addresses",
    "attempts",
    "created",
    "fault",
    "flavor",
    "id",
    "image",
    "key_name",
    "name",
    "ports",
    "progress",
    "project_id",
    "properties",
    "status",
    "updated",
    "user_id",
)
_POWER = {
    virt.PowerState.NOSTATE: "NOSTATE",
    virt.PowerState.RUNNING: "Running",
    virt.PowerState.PAUSED: "Paused",
    virt.PowerState.SHUTDOWN: "Shutdown",
    virt.PowerState.CRASHED: "Crashed",
    virt.PowerState.SUSPENDED: "Suspended",
}


def status(instance: Instance) -> str:
    """What an instance is, in one word."""
    words: dict[str, str] = {state.value: word for state, word in STATUSES.items()}
    busy: dict[str, str] = {task.value: word for task, word in BUSY_STATUSES.items()}
    return busy.get(instance.task_state or "") or words.get(
        instance.vm_state, instance.vm_state.upper()
    )


def conditions(wanted: str) -> dict[str, Any]:
    """What ``instances.list`` is asked for, to get those in a status."""
    for task, word in BUSY_STATUSES.items():
        if word == wanted:
            return {"tasks": [task]}
    (state,) = (state for state, word in STATUSES.items() if word == wanted)
    return {"vm_state": state, "no_tasks": list(BUSY_STATUSES)}


def power(instance: Instance) -> Words:
    """Its power state: Nova's number for programs, a word for people."""
    try:
        words = _POWER[virt.PowerState(instance.power_state)]
    except ValueError:
        words = str(instance.power_state)
    return Words(int(instance.power_state), words)


def progress(instance: Instance) -> str | None:
    """How far a task has come: the step, and Ironic's provision state if it says more."""
    step, detail = instance.progress_step, instance.progress_detail
    return f"{step} ({detail})" if step and detail and detail != step else step


def list_row(instance: Instance) -> tuple[Any, ...]:
    """The cells under :data:`LIST_COLUMNS`."""
    return (
        instance.uuid,
        instance.display_name,
        status(instance),
        instance.node,
        instance.image.id,
        instance.flavor.name,
    )


def long_row(instance: Instance) -> tuple[Any, ...]:
    """The cells under :data:`LONG_COLUMNS`."""
    return (
        instance.uuid,
        instance.display_name,
        status(instance),
        instance.task_state,
        power(instance),
        progress(instance),
        instance.host,
        instance.node,
        instance.image.id,
        instance.flavor.name,
        Json(dict(instance.properties)),
        when(instance.created_at),
    )


def fields(instance: Instance, fault: Fault | None) -> dict[str, Any]:
    """What is shown of one instance, by :data:`SHOW_COLUMNS`.

    :param fault: its newest; shown as long as it matters.
    """
    matters = fault is not None and instance.vm_state == VmState.ERROR
    values = (
        instance.host,
        instance.node,
        power(instance),
        instance.task_state,
        instance.vm_state,
        when(instance.launched_at),
        when(instance.terminated_at),
        Json([str(one.interface.ip) for one in instance.networks]),
        instance.attempts,
        when(instance.created_at),
        _fault(fault) if fault is not None and matters else None,
        instance.flavor.name,
        instance.uuid,
        instance.image.id,
        instance.key_name,
        instance.display_name,
        Json([port.id for port in instance.ports]),
        progress(instance),
        instance.project_id,
        Json(dict(instance.properties)),
        status(instance),
        when(instance.updated_at),
        instance.user_id,
    )
    return dict(zip(SHOW_COLUMNS, values, strict=True))


def _fault(fault: Fault) -> Words:
    shown = {
        "code": fault.code,
        "created": when(fault.created_at),
        "message": fault.message,
        "details": fault.details,
    }
    told = "; ".join([fault.message, *(fault.details or "").splitlines()])
    return Words(shown, f"{told} (code {fault.code}, {shown['created']})")


EVENT_COLUMNS = ("Request ID", "Server ID", "Action", "Start Time", "Finish Time", "Result")
LONG_EVENT_COLUMNS = (*EVENT_COLUMNS, "Message", "Project ID", "User ID")


def event_row(action: Action) -> tuple[Any, ...]:
    """The cells under :data:`LONG_EVENT_COLUMNS`."""
    return (
        action.request_id,
        action.instance_uuid,
        action.action,
        when(action.start_time),
        when(action.finish_time),
        event_result(action),
        action.message,
        action.project_id,
        action.user_id,
    )


def event_result(action: Action) -> str | None:
    """How an action ended; ``None`` while it goes on."""
    if action.finish_time is None:
        return None
    return "Error" if action.message else "Success"
