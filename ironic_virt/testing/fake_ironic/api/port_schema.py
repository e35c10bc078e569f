# SPDX-License-Identifier: Apache-2.0

"""What a port may look like when it is created or patched."""

import re
from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors

_LINK_PROPERTIES = {
    "port_id": {"type": "string"},
    "switch_id": {"type": "string"},
    "hostname": {"type": "string"},
    "switch_info": {"type": "string"},
    "network_type": {"type": "string", "enum": ["managed", "unmanaged"]},
    "vtep-logical-switch": {"type": "string"},
    "vtep-physical-switch": {"type": "string"},
}


def _link(*required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": _LINK_PROPERTIES,
        "additionalProperties": False,
        "required": list(required),
    }


_LINK: dict[str, Any] = {
    "anyOf": [
        _link("port_id", "switch_id"),
        _link("port_id", "hostname"),
        _link("network_type"),
        _link("port_id", "vtep-logical-switch", "vtep-physical-switch"),
        {"type": "object", "additionalProperties": False},
    ]
}

_FLAG = {"type": ["string", "boolean", "null"]}
_STRING = {"type": ["string", "null"]}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "address": {"type": "string"},
        "extra": {"type": ["object", "null"]},
        "is_smartnic": _FLAG,
        "local_link_connection": {"type": ["null", "object"]},
        "node_ident": {"type": "string"},
        "node_uuid": {"type": "string"},
        "physical_network": {**_STRING, "maxLength": 64},
        "portgroup_uuid": _STRING,
        "pxe_enabled": _FLAG,
        "uuid": _STRING,
        "name": _STRING,
        "description": {**_STRING, "maxLength": 255},
        "vendor": {**_STRING, "maxLength": 32},
        "category": {**_STRING, "maxLength": 80},
        "available_for_dynamic_portgroup": {"type": "boolean"},
    },
    "required": ["address"],
    "oneOf": [{"required": ["node_ident"]}, {"required": ["node_uuid"]}],
    "additionalProperties": False,
}
PATCHABLE = (
    "address",
    "extra",
    "is_smartnic",
    "local_link_connection",
    "node_ident",
    "node_uuid",
    "physical_network",
    "portgroup_uuid",
    "pxe_enabled",
    "name",
    "description",
    "vendor",
    "category",
    "available_for_dynamic_portgroup",
)
_SWITCH = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}|[0-9a-f]{16}")


def _link_parser(name: str, value: Any) -> Any:
    """A link, with the id of its switch in lower case: a MAC address or OpenFlow's datapath ID."""
    if not value or "switch_id" not in value:
        return value
    switch = value["switch_id"].lower()
    if not _SWITCH.fullmatch(switch):
        raise errors.invalid(
            f"Expected a MAC address or OpenFlow datapath ID but received {value['switch_id']}."
        )
    return value | {"switch_id": switch}


_PARSERS: dict[str, checks.Parser] = {
    "address": checks.mac_address,
    "local_link_connection": _link_parser,
    "node_uuid": checks.uuid,
    "is_smartnic": checks.boolean,
    "portgroup_uuid": checks.uuid,
    "pxe_enabled": checks.boolean,
    "uuid": checks.uuid,
    "available_for_dynamic_portgroup": checks.boolean,
}


def parse(values: dict[str, Any]) -> None:
    """Turn a port's values into their types in place.

    :raises ApiError: 400 for one that is malformed.
    """
    checks.check_schema("local_link_connection", values.get("local_link_connection") or {}, _LINK)
    for field, parser in _PARSERS.items():
        if field in values:
            values[field] = parser(field, values[field])
