# SPDX-License-Identifier: Apache-2.0

"""How servers are shown, in the words of ``openstack server``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_virt import virt
from ironic_virt.cmd.output import Values, Words, named
from ironic_virt.compute.states import BUSY_STATUSES, STATUSES

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import Instance


def status(instance: Instance) -> str:
    """An instance's status, in one word."""
    return BUSY_STATUSES.get(instance.task_state or "") or STATUSES[instance.vm_state]


def power(instance: Instance) -> str:
    """Its power state in a word, such as ``Running``."""
    words = virt.PowerState(instance.power_state).name
    return words if words == "NOSTATE" else words.capitalize()


def progress(instance: Instance) -> str | None:
    """How far a task has come: the step, and Ironic's provision state if it says more."""
    step, detail = instance.progress_step, instance.progress_detail
    return f"{step} ({detail})" if step and detail and detail != step else step


def fault(instance: Instance) -> Words | None:
    """The last error of an instance, and its time."""
    last = instance.fault
    if last is None:
        return None
    shown = {
        "created": last.created_at,
        "message": last.message,
        "details": last.details,
    }
    words = "; ".join([last.message, *(last.details or "").splitlines()])
    return Words(shown, f"{words} ({last.created_at})")


LIST_COLUMNS = {
    **named("ID=uuid", "Name=display_name", "Status", "Node", "Image=image.id"),
    **named("Flavor=flavor.name"),
    "Status": status,
}
LONG_COLUMNS = {
    **named("ID=uuid", "Name=display_name", "Status", "Task State", "Power State", "Progress"),
    **named("Host", "Node", "Image=image.id", "Flavor=flavor.name", "Properties", "Created At"),
    "Status": status,
    "Power State": power,
    "Progress": progress,
}
SHOW_COLUMNS = {
    **named("OS-EXT-SRV-ATTR:host", "OS-EXT-SRV-ATTR:hypervisor_hostname=node"),
    **named("OS-EXT-STS:power_state", "OS-EXT-STS:task_state", "OS-EXT-STS:vm_state"),
    **named("OS-SRV-USG:launched_at", "addresses", "attempts", "created=created_at", "fault"),
    **named("flavor=flavor.name", "id=uuid", "image=image.id", "key_name", "name=display_name"),
    **named("ports", "progress", "project_id", "properties", "status", "updated=updated_at"),
    **named("user_id"),
    "OS-EXT-STS:power_state": power,
    "addresses": lambda server: Values([str(network.interface.ip) for network in server.networks]),
    "fault": fault,
    "ports": lambda server: Values([port.id for port in server.ports]),
    "progress": progress,
    "status": status,
}
