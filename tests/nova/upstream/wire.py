# SPDX-License-Identifier: Apache-2.0

"""From what a test has its SDK connection return or raise to what Ironic would send."""

import json
from typing import Any
from unittest import mock

from openstack import exceptions as sdk_exceptions

from ironic_virt import exceptions
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.node import Node

_NODE = {
    "power_state": "power_state",
    "target_power_state": "target_power_state",
    "provision_state": "provision_state",
    "target_provision_state": "target_provision_state",
    "last_error": "last_error",
    "is_maintenance": "maintenance",
    "instance_id": "instance_uuid",
    "instance_info": "instance_info",
    "properties": "properties",
    "resource_class": "resource_class",
    "traits": "traits",
    "driver_internal_info": "driver_internal_info",
}
_PORT = {
    "id": "uuid",
    "address": "address",
    "extra": "extra",
    "internal_info": "internal_info",
    "port_group_id": "portgroup_uuid",
}
_PORT_GROUP = {
    "id": "uuid",
    "address": "address",
    "extra": "extra",
    "internal_info": "internal_info",
    "mode": "mode",
    "properties": "properties",
}


def answer(body: Any, status: int = 200) -> Answer:
    """Something sent as JSON."""
    return Answer(status, {}, json.dumps(body).encode())


def refusal(status: int, message: str) -> Answer:
    """An error, in Ironic's form."""
    return answer({"error_message": {"faultstring": message}}, status)


def is_unsaid(value: Any) -> bool:
    """Whether a test left this to its mock, and so doesn't care."""
    return isinstance(value, mock.NonCallableMock)


def _fields(resource: Any, names: dict[str, str]) -> dict[str, Any]:
    said = {wire: getattr(resource, name, None) for name, wire in names.items()}
    return {wire: value for wire, value in said.items() if not is_unsaid(value)}


def node(resource: Any, uuid: str) -> dict[str, Any]:
    """A node of the SDK's, or a mock without any fields."""
    # Of what no test says anything, Ironic would show nulls.
    shown = dict.fromkeys(Node.__struct_fields__) | {"uuid": uuid, **_fields(resource, _NODE)}
    # But of this: null was the state of a free node once, and Nova's tests still give it.
    return shown | {"provision_state": shown["provision_state"] or "available"}


def port(resource: Any) -> dict[str, Any]:
    """A port of the SDK's."""
    return _fields(resource, _PORT)


def port_group(resource: Any) -> dict[str, Any]:
    """A port group of the SDK's."""
    return _fields(resource, _PORT_GROUP)


def volume_connector(resource: Any) -> dict[str, Any]:
    """A volume connector of the SDK's."""
    return {
        "uuid": resource.id,
        "type": resource.type,
        "connector_id": resource.connector_id,
    }


def error(raised: Exception, node: str | None) -> Answer:
    """What Ironic had answered when the SDK raised this.

    :raises IronicUnreachable: no answer of Ironic's stands for it.
    """
    if isinstance(raised, sdk_exceptions.NotFoundException):
        return refusal(404, f"Node {node} could not be found." if node else "Not found.")
    if isinstance(raised, sdk_exceptions.BadRequestException):
        return refusal(400, str(raised))
    if isinstance(raised, sdk_exceptions.ConflictException):
        return refusal(409, str(raised))
    if isinstance(raised, sdk_exceptions.ForbiddenException):
        return refusal(403, str(raised))
    if isinstance(raised, sdk_exceptions.InvalidResourceQuery):
        return refusal(400, str(raised))
    if isinstance(raised, sdk_exceptions.SDKException):
        return refusal(500, str(raised))
    raise exceptions.IronicUnreachable(str(raised)) from raised
