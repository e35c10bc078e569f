# SPDX-License-Identifier: Apache-2.0

"""API microversions: how one is agreed on, and what each brought.

The numbers are Ironic's REST API version history.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ironic_virt.testing.fake_ironic import errors

HEADER: Final = "X-OpenStack-Ironic-API-Version"
MIN_HEADER: Final = "X-OpenStack-Ironic-API-Minimum-Version"
MAX_HEADER: Final = "X-OpenStack-Ironic-API-Maximum-Version"

AVAILABLE_STATE: Final = 2
NODE_NAMES: Final = 5
FIELDS: Final = 8
PROVISION_STATE_FILTER: Final = 9
ENROLL: Final = 11
STATE_LINKS: Final = 14
DRIVER_FILTER: Final = 16
RESOURCE_CLASS: Final = 21
PORTGROUPS: Final = 23
PORTGROUPS_OF_NODE: Final = 24
UNSET_CHASSIS: Final = 25
SOFT_POWER_OFF: Final = 27
VIFS: Final = 28
INJECT_NMI: Final = 29
DYNAMIC_DRIVERS: Final = 30
VOLUME: Final = 32
REBUILD_CONFIG_DRIVE: Final = 35
TRAITS: Final = 37
INSPECT_WAIT: Final = 39
BIOS: Final = 40
INSPECT_ABORT: Final = 41
FAULT: Final = 42
DETAIL: Final = 43
RESET_INTERFACES: Final = 45
CONDUCTOR_GROUP: Final = 46
CONDUCTORS: Final = 49
OWNER: Final = 50
ALLOCATIONS: Final = 52
BUILD_CONFIG_DRIVE: Final = 56
ALLOCATION_UPDATE: Final = 57
ALLOCATION_BACKFILL: Final = 58
VENDOR_DATA: Final = 59
ALLOCATION_OWNER: Final = 60
LESSEE: Final = 65
VIF_PORT: Final = 67
DEPLOY_STEPS: Final = 69
CLEAN_DISABLE_RAMDISK: Final = 70
BOOT_MODE: Final = 75
CHANGE_BOOT_MODE: Final = 76
NODE_HISTORY: Final = 78
NODE_INVENTORY: Final = 81
SHARD: Final = 82
CHILD_NODES: Final = 83
UNHOLD: Final = 85
FIRMWARE: Final = 86
SERVICE: Final = 87
DOT_JSON: Final = 91
PORT_NODE_NAME: Final = 94
PORTGROUP_PHYSICAL_NETWORK: Final = 102
INSTANCE_NAME: Final = 104
PORTGROUP_SHARD: Final = 106
SERVICE_DISABLE_RAMDISK: Final = 108
DEPLOY_ABORT: Final = 110
HISTORY_PROJECT: Final = 113
HISTORY_FIELDS: Final = 115

#: Node field -> the version that brought it; those not named were always there.
NODE_FIELDS: Final[Mapping[str, int]] = {
    "driver_internal_info": 3,
    "name": 5,
    "inspection_finished_at": 6,
    "inspection_started_at": 6,
    "clean_step": 7,
    "raid_config": 12,
    "target_raid_config": 12,
    "network_interface": 20,
    "resource_class": 21,
    "boot_interface": 31,
    "console_interface": 31,
    "deploy_interface": 31,
    "inspect_interface": 31,
    "management_interface": 31,
    "power_interface": 31,
    "raid_interface": 31,
    "vendor_interface": 31,
    "storage_interface": 33,
    "traits": 37,
    "rescue_interface": 38,
    "bios_interface": 40,
    "fault": 42,
    "deploy_step": 44,
    "conductor_group": 46,
    "automated_clean": 47,
    "protected": 48,
    "protected_reason": 48,
    "conductor": 49,
    "owner": 50,
    "description": 51,
    "allocation_uuid": 52,
    "events": 54,
    "retired": 61,
    "retired_reason": 61,
    "lessee": 65,
    "network_data": 66,
    "boot_mode": 75,
    "secure_boot": 75,
    "shard": 82,
    "parent_node": 83,
    "firmware_interface": 86,
    "service_step": 87,
    "disable_power_off": 95,
    "instance_name": 104,
    "health": 109,
}

#: Port field -> the version that brought it.
PORT_FIELDS: Final[Mapping[str, int]] = {
    "internal_info": 18,
    "pxe_enabled": 19,
    "local_link_connection": 19,
    "portgroup_uuid": 24,
    "physical_network": 34,
    "is_smartnic": 53,
    "name": 88,
    "description": 97,
    "vendor": 100,
    "category": 101,
    "available_for_dynamic_portgroup": 111,
}

#: Port group field -> the version that brought it.
PORTGROUP_FIELDS: Final[Mapping[str, int]] = {
    "mode": 26,
    "properties": 26,
    "physical_network": 102,
    "category": 103,
    "dynamic_portgroup": 111,
}

#: Provision verb -> the version that brought it.
VERBS: Final[Mapping[str, int]] = {
    "manage": 4,
    "provide": 4,
    "inspect": 6,
    "abort": 13,
    "clean": 15,
    "adopt": 17,
    "rescue": 38,
    "unrescue": 38,
    "deploy": 73,
    "delete": 73,
}

#: Collection -> the version that brought it, in the order of ``/v1``: those that are offered.
COLLECTIONS: Final[Mapping[str, int]] = {
    "portgroups": PORTGROUPS,
    "volume": VOLUME,
    "conductors": CONDUCTORS,
    "allocations": ALLOCATIONS,
    "shards": SHARD,
}


def text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _requested(headers: Mapping[str, str]) -> str:
    """The version asked for, from the OpenStack-wide header or Ironic's own."""
    for item in headers.get("OpenStack-API-Version", "").split(","):
        service, _, version = item.strip().partition(" ")
        if service == "baremetal" and version:
            return version.strip()
    return headers.get(HEADER, "")


def negotiate(
    headers: Mapping[str, str], low: tuple[int, int], high: tuple[int, int]
) -> tuple[int, int]:
    """The version to serve a request with.

    :param headers: the request's, case-insensitive.
    :param low: the oldest served.
    :param high: the newest served.
    :raises RoutingError: 406 if the request asks for what is not served.
    """
    requested = _requested(headers)
    if not requested:
        return low
    if requested.lower() == "latest":
        return high
    major, _, minor = requested.partition(".")
    try:
        version = int(major), int(minor)
    except ValueError:
        raise errors.RoutingError(406, f"Invalid value for {HEADER} header") from None
    served = f"The supported version range is: [{text(low)}, {text(high)}]."
    if version[0] != low[0]:
        raise errors.RoutingError(
            406,
            f"Mutually exclusive versions requested. Version {text(version)} requested but not"
            f" supported by this service. {served}",
            keeps_headers=True,
        )
    if not low <= version <= high:
        raise errors.RoutingError(
            406,
            f"Version {text(version)} was requested but the minor version is not supported by"
            f" this service. {served}",
            keeps_headers=True,
        )
    return version


def check_fields(fields: Iterable[str], table: Mapping[str, int], minor: int) -> None:
    """Refuse ``fields`` that came after version 1.``minor``.

    :raises ApiError: 406.
    """
    for field in fields:
        if table.get(field, 0) > minor:
            raise errors.not_acceptable()
