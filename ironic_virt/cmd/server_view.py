# SPDX-License-Identifier: Apache-2.0

"""How servers are shown, in the words of ``openstack server``."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ironic_virt import virt
from ironic_virt.cmd import output
from ironic_virt.cmd.output import Cells, Json, Words, time_of
from ironic_virt.compute.states import BUSY_STATUSES, STATUSES

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import Instance


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


def power(instance: Instance) -> str:
    """Its power state in a word, such as ``Running``."""
    try:
        words = virt.PowerState(instance.power_state).name
    except ValueError:
        words = str(instance.power_state)
    return words if words == "NOSTATE" else words.capitalize()


def progress(instance: Instance) -> str | None:
    """How far a task has come: the step, and Ironic's provision state if it says more."""
    step, detail = instance.progress_step, instance.progress_detail
    return f"{step} ({detail})" if step and detail and detail != step else step


def fault(instance: Instance) -> Words | None:
    """What went wrong with it last, and when."""
    last = instance.fault
    if last is None:
        return None
    shown = {
        "code": last.code,
        "created": last.created_at,
        "message": last.message,
        "details": last.details,
    }
    told = "; ".join([last.message, *(last.details or "").splitlines()])
    return Words(shown, f"{told} (code {last.code}, {last.created_at})")


LIST_COLUMNS: Cells = {
    "ID": attrgetter("uuid"),
    "Name": attrgetter("display_name"),
    "Status": status,
    "Node": attrgetter("node"),
    "Image": attrgetter("image.id"),
    "Flavor": attrgetter("flavor.name"),
}
LONG_COLUMNS: Cells = {
    "ID": attrgetter("uuid"),
    "Name": attrgetter("display_name"),
    "Status": status,
    "Task State": attrgetter("task_state"),
    "Power State": power,
    "Progress": progress,
    "Host": attrgetter("host"),
    "Node": attrgetter("node"),
    "Image": attrgetter("image.id"),
    "Flavor": attrgetter("flavor.name"),
    "Properties": lambda server: Json(dict(server.properties)),
    "Created At": time_of("created_at"),
}
SHOW_COLUMNS: Cells = {
    "OS-EXT-SRV-ATTR:host": attrgetter("host"),
    "OS-EXT-SRV-ATTR:hypervisor_hostname": attrgetter("node"),
    "OS-EXT-STS:power_state": power,
    "OS-EXT-STS:task_state": attrgetter("task_state"),
    "OS-EXT-STS:vm_state": attrgetter("vm_state"),
    "OS-SRV-USG:launched_at": time_of("launched_at"),
    "addresses": lambda server: Json([str(one.interface.ip) for one in server.networks]),
    "attempts": attrgetter("attempts"),
    "created": time_of("created_at"),
    "fault": fault,
    "flavor": attrgetter("flavor.name"),
    "id": attrgetter("uuid"),
    "image": attrgetter("image.id"),
    "key_name": attrgetter("key_name"),
    "name": attrgetter("display_name"),
    "ports": lambda server: Json([port.id for port in server.ports]),
    "progress": progress,
    "project_id": attrgetter("project_id"),
    "properties": lambda server: Json(dict(server.properties)),
    "status": status,
    "updated": time_of("updated_at"),
    "user_id": attrgetter("user_id"),
}


def one(server: Instance, **more: Any) -> Any:
    """What a command returns that shows a server.

    :param more: further fields.
    """
    cells = {name: cell(server) for name, cell in SHOW_COLUMNS.items()}
    return output.one(output.in_order(*cells, *more), (*cells.values(), *more.values()))
