# SPDX-License-Identifier: Apache-2.0

"""What a node may look like when it is created or patched."""

from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, versions
from ironic_virt.testing.fake_ironic.records import Node
from ironic_virt.testing.fake_ironic.settings import INTERFACES, Settings
from ironic_virt.testing.fake_ironic.web import Request

_STRING = {"type": ["string", "null"]}
_FLAG = {"type": ["string", "boolean", "null"]}
_OBJECT = {"type": ["object", "null"]}

_NETWORK_DATA: dict[str, Any] = {
    "type": "object",
    "required": ["links", "networks", "services"],
    "properties": {
        "links": {"type": "array"},
        "networks": {"type": "array"},
        "services": {"type": "array"},
    },
}

_PROPERTIES: dict[str, Any] = {
    "automated_clean": _FLAG,
    "boot_mode": _STRING,
    "chassis_uuid": _STRING,
    "conductor_group": _STRING,
    "console_enabled": _FLAG,
    "description": {**_STRING, "maxLength": 4096},
    "disable_power_off": _FLAG,
    "driver": {"type": "string"},
    "driver_info": _OBJECT,
    "extra": _OBJECT,
    "instance_info": _OBJECT,
    "instance_name": {**_STRING, "minLength": 1, "maxLength": 255},
    "instance_uuid": _STRING,
    "lessee": _STRING,
    "maintenance": _FLAG,
    "name": _STRING,
    "network_data": {
        "anyOf": [
            {"type": "null"},
            {"type": "object", "additionalProperties": False},
            _NETWORK_DATA,
        ]
    },
    "owner": _STRING,
    "parent_node": {**_STRING, "maxLength": 36},
    "properties": _OBJECT,
    "resource_class": {**_STRING, "maxLength": 80},
    "retired": _FLAG,
    "retired_reason": _STRING,
    "secure_boot": _FLAG,
    "shard": _STRING,
    "uuid": _STRING,
    **{f"{kind}_interface": _STRING for kind in INTERFACES},
}

CREATE: dict[str, Any] = {
    "type": "object",
    "properties": _PROPERTIES,
    "required": ["driver"],
    "additionalProperties": False,
}

PATCH: dict[str, Any] = {
    **CREATE,
    "properties": {**_PROPERTIES, "protected": _FLAG, "protected_reason": _STRING},
}

#: In the order of Ironic's message.
PATCHABLE = (
    "automated_clean",
    "bios_interface",
    "boot_interface",
    "chassis_uuid",
    "conductor_group",
    "console_interface",
    "deploy_interface",
    "description",
    "disable_power_off",
    "driver",
    "driver_info",
    "extra",
    "inspect_interface",
    "instance_info",
    "instance_name",
    "instance_uuid",
    "lessee",
    "maintenance",
    "management_interface",
    "name",
    "network_data",
    "network_interface",
    "owner",
    "power_interface",
    "properties",
    "protected",
    "protected_reason",
    "raid_interface",
    "rescue_interface",
    "resource_class",
    "retired",
    "retired_reason",
    "shard",
    "storage_interface",
    "vendor_interface",
    "parent_node",
    "firmware_interface",
)

_PARSERS: dict[str, checks.Parser] = {
    "automated_clean": checks.boolean,
    "chassis_uuid": checks.uuid,
    "console_enabled": checks.boolean,
    "disable_power_off": checks.boolean,
    "instance_uuid": checks.uuid,
    "protected": checks.boolean,
    "maintenance": checks.boolean,
    "retired": checks.boolean,
    "uuid": checks.uuid,
}

_RESERVED = ("maintenance", "management", "states", "vendor_passthru", "detail", "validate")


def check(values: Any, name: str, schema: dict[str, Any]) -> None:
    """Check a node's values, and turn them into their types in place.

    :raises ApiError: 400.
    """
    checks.check_schema(name, values, schema)
    for field, parser in _PARSERS.items():
        if field in values:
            values[field] = parser(field, values[field])


def check_name(request: Request, name: str, message: str) -> None:
    """Refuse what can't be the name of a node.

    :param message: what to say to a malformed one.
    :raises ApiError: 400 or 406.
    """
    if request.minor < versions.NODE_NAMES:
        raise errors.not_acceptable()
    if not checks.is_name(name, request.minor) or checks.is_uuid(name):
        raise errors.invalid(message)
    if name in _RESERVED:
        raise errors.invalid(
            f'The word "{name}" is reserved and can not be used as a node name. Reserved words'
            f" are: {', '.join(_RESERVED)}."
        )


def check_properties(uuid: str, properties: dict[str, Any] | None) -> None:
    """Refuse sizes that are not whole numbers.

    :raises ApiError: 400.
    """
    wrong = []
    for name in ("local_gb", "memory_mb"):
        value = (properties or {}).get(name)
        try:
            if value is not None and int(value) < 0:
                raise ValueError
        except (TypeError, ValueError):
            wrong.append(f"{name}={value}")
    if wrong:
        raise errors.invalid(
            f"The following properties for node {uuid} should be non-negative integers, but"
            f" provided values are: {', '.join(wrong)}"
        )


def check_network_data(data: Any) -> None:
    """Refuse network data that lacks one of its parts.

    :raises ApiError: 400.
    """
    error = checks.schema_error(data, _NETWORK_DATA)
    if error is not None:
        raise errors.invalid(f"Invalid network_data: {error.message} ")


def find_linked(
    request: Request, ident: Any, owner: str | None, field: str = "parent_node"
) -> Node:
    """The node that something may be linked to by ``field``: one of the same owner.

    :raises ApiError: 400.
    """
    node = request.bm.store.nodes.get(str(ident))
    if node is None or node.owner != owner:
        raise errors.invalid(
            f"Unable to apply the requested {field} '{ident}'. Requested value was invalid."
        )
    return node


def check_interfaces(values: dict[str, Any]) -> None:
    """Refuse hardware interfaces that are not enabled.

    :raises ApiError: 400.
    """
    for kind, enabled in INTERFACES.items():
        interface = values.get(f"{kind}_interface")
        if interface is not None and interface not in enabled:
            raise errors.invalid(
                "Could not find the following interface in the"
                f" 'ironic.hardware.interfaces.{kind}' entrypoint: {interface}. Valid interfaces"
                f" are {sorted(enabled)}."
            )


def default_interfaces(settings: Settings) -> dict[str, Any]:
    """The interfaces of a node that asks for none."""
    defaults = {f"{kind}_interface": enabled[0] for kind, enabled in INTERFACES.items()}
    defaults["network_interface"] = settings.network_interface
    return defaults
