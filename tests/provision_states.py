# SPDX-License-Identifier: Apache-2.0

"""What each method of the driver does in each of Ironic's provision states.

The table is ``doc/source/reference/provision_states.toml``, which the documentation shows.
Here a method is called for a node in a state, and what came of it is put into the table's
words, the same on any Ironic.
"""

import dataclasses
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ironic_virt import exceptions, virt

TABLE = Path(__file__).parents[1] / "doc" / "source" / "reference" / "provision_states.toml"

IMAGE = virt.ImageMeta("https://images.example.test/a.raw", checksum="ab" * 16)
OTHER_IMAGE = virt.ImageMeta("https://images.example.test/b.raw", checksum="cd" * 16)
VIF = "5f1f0000-0000-4000-8000-000000000001"
OTHER_VIF = "5f1f0000-0000-4000-8000-000000000002"
PASSWORD = "correct horse battery staple"

DOES = "does it"
NOTHING = "nothing to do"
WAITS = "waits"
REFUSES = "refuses"
IRONIC_REFUSES = "Ironic refuses"
YES = "yes"

Request = tuple[str, int | None]
"""Method and status of a request; ``None``: there was no answer."""

Call = Callable[[Any, virt.Instance], Any]


@dataclasses.dataclass(frozen=True)
class Method:
    """A column of the table.

    :ivar call: calls the driver for an instance.
    :ivar carries: whether the node carries the instance, deployed as it is when Ironic
        has got so far; else it is free, and the instance is new.
    :ivar fields: of a node that can do it at all.
    """

    call: Call
    carries: bool = True
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _inventory(driver: Any, instance: virt.Instance) -> str:
    inventory = driver.get_inventory(instance.node)
    return "free" if inventory.total > inventory.reserved else "reserved"


def _info(driver: Any, instance: virt.Instance) -> str:
    return str(driver.get_info(instance, use_cache=False).state.name)


def _resource(driver: Any, instance: virt.Instance) -> str:
    resource = driver.get_available_resource(instance.node)
    return "free" if resource.available else "reserved"


METHODS: dict[str, Method] = {
    "prepare_for_spawn": Method(lambda driver, one: driver.prepare_for_spawn(one), carries=False),
    "spawn": Method(
        lambda driver, one: driver.spawn(
            virt.DeployRequest(one, IMAGE, [virt.Vif(VIF)], admin_password=PASSWORD)
        )
    ),
    "finish_spawn": Method(lambda driver, one: driver.finish_spawn(one)),
    "failed_spawn_cleanup": Method(lambda driver, one: driver.failed_spawn_cleanup(one)),
    "destroy": Method(lambda driver, one: driver.destroy(one)),
    "rebuild": Method(
        lambda driver, one: driver.rebuild(
            virt.DeployRequest(one, OTHER_IMAGE, admin_password=PASSWORD, request_id="req-1")
        )
    ),
    "power_on": Method(lambda driver, one: driver.power_on(one)),
    "power_off": Method(lambda driver, one: driver.power_off(one)),
    "power_off, soft": Method(lambda driver, one: driver.power_off(one, timeout=5)),
    "reboot, soft": Method(lambda driver, one: driver.reboot(one, "SOFT")),
    "reboot, hard": Method(lambda driver, one: driver.reboot(one, "HARD")),
    "trigger_crash_dump": Method(lambda driver, one: driver.trigger_crash_dump(one)),
    "rescue": Method(lambda driver, one: driver.rescue(one, PASSWORD)),
    "finish_rescue": Method(lambda driver, one: driver.finish_rescue(one)),
    "unrescue": Method(lambda driver, one: driver.unrescue(one)),
    "attach_interface": Method(
        lambda driver, one: driver.attach_interface(one, virt.Vif(OTHER_VIF))
    ),
    "detach_interface": Method(lambda driver, one: driver.detach_interface(one, virt.Vif(VIF))),
    "get_serial_console": Method(
        lambda driver, one: driver.get_serial_console(one),
        fields={
            "console_interface": "ipmitool-socat",
            "driver_info": {"ipmi_address": "192.0.2.7", "ipmi_terminal_port": 10023},
        },
    ),
    "get_vnc_console": Method(
        lambda driver, one: driver.get_vnc_console(one),
        fields={"console_interface": "fake-graphical"},
    ),
    "get_instance_diagnostics": Method(
        lambda driver, one: YES if driver.get_instance_diagnostics(one) else "no"
    ),
    "get_volume_connector": Method(
        lambda driver, one: YES if driver.get_volume_connector(one) else "no"
    ),
    "get_info": Method(_info),
    "instance_exists": Method(lambda driver, one: YES if driver.instance_exists(one) else "no"),
    "list_instance_uuids": Method(
        lambda driver, one: YES if one.uuid in driver.list_instance_uuids() else "no"
    ),
    "is_node_deleted": Method(
        lambda driver, one: YES if driver.is_node_deleted(one.node) else "no", carries=False
    ),
    "node_is_available": Method(
        lambda driver, one: YES if driver.node_is_available(one.node) else "no", carries=False
    ),
    "get_available_resource": Method(_resource, carries=False),
    "get_inventory": Method(_inventory, carries=False),
}

WITHOUT_A_STATE = frozenset(
    {
        # Ask the records, or the inventory, or nobody.
        *("node_of", "power_update_event"),
        # The beginning of a spawn.
        "prepare_networks_before_block_device_mapping",
    }
)
"""Methods that have to do with an instance, and need no column."""


def outcome(
    method: Method, driver: Any, instance: virt.Instance, sent: Callable[[], Sequence[Request]]
) -> str:
    """Call a method, and say in the table's words what came of it.

    :param sent: the requests so far.
    """
    before = len(sent())
    failed: Exception | None = None
    said: Any = None
    try:
        said = method.call(driver, instance)
    except exceptions.IronicVirtError as error:
        failed = error
    changes = [status for verb, status in sent()[before:] if verb != "GET"]
    done = any(status is not None and status < 400 for status in changes)
    if failed is None:
        if isinstance(said, str):
            return said
        return DOES if done else NOTHING
    if exceptions.WaitTimeout in (type(failed), type(failed.__cause__)):
        return f"{WAITS}, then undone" if done else WAITS
    if done:
        return f"undone: {type(failed).__name__}"
    return f"{IRONIC_REFUSES if changes else REFUSES}: {type(failed).__name__}"


def states_of_no_node() -> list[str]:
    """What Ironic has names for, and yet no node is ever in."""
    found: list[str] = tomllib.loads(TABLE.read_text())["of_no_node"]
    return found


def listed_states() -> list[str]:
    """The table's rows."""
    found: list[str] = tomllib.loads(TABLE.read_text())["states"]
    return found


def table() -> dict[str, dict[str, str]]:
    """The table as it is documented: what comes of it, by method and state."""
    columns = tomllib.loads(TABLE.read_text())["methods"]
    found: dict[str, dict[str, str]] = {}
    for name, column in columns.items():
        found[name] = {}
        for what, states in column.items():
            for state in states:
                assert state not in found[name], f"{name}: {state!r} is there twice"
                found[name][state] = what
    return found
