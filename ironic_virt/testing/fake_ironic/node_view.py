# SPDX-License-Identifier: Apache-2.0

"""Nodes as JSON: which fields, for which API version, with secrets masked.

Lists of a thousand nodes are what this is made fast for: what depends on the
request is worked out once, in :func:`renderer`.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from oslo_utils import strutils

from ironic_virt.testing.fake_ironic import errors, states, versions
from ironic_virt.testing.fake_ironic.records import Node
from ironic_virt.testing.fake_ironic.store import fields_of
from ironic_virt.testing.fake_ironic.web import Request

#: What a list shows by default.
DEFAULT_FIELDS = (
    "instance_uuid",
    "maintenance",
    "power_state",
    "provision_state",
    "uuid",
    "name",
)

#: Fields that can be asked for with ``fields=`` in a list, ``uuid`` aside.
LIST_FIELDS = fields_of(Node) - {
    "id",
    "uuid",
    "created_at",
    "updated_at",
    "allocation_id",
    "chassis_uuid",
    "boot_device",
    "boot_device_persistent",
    "operation",
}

#: Fields that the API adds; only a single node can be asked for them.
_COMPUTED = ("allocation_uuid", "chassis_uuid", "conductor")

_ALL_FIELDS = ("uuid", "created_at", "updated_at", *sorted(LIST_FIELDS), *_COMPUTED)

_MASK = "******"

Render = Callable[[Node], dict[str, Any]]


def check_node_fields(fields: Sequence[str]) -> None:
    """Refuse fields that a single node does not have.

    :raises ApiError: 400.
    """
    for field in fields:
        if field not in LIST_FIELDS and field != "uuid" and field not in _COMPUTED:
            raise errors.invalid(f"Field {field} is not a valid field.")


def check_list_fields(fields: Sequence[str]) -> None:
    """Refuse fields that a list of nodes can't show, the way Ironic 39.0.0 does.

    :raises ApiError: 500 for a name that is not a column, 400 for one that is not a field.
    """
    columns = LIST_FIELDS | {"uuid", "id", "created_at", "updated_at"}
    for field in fields:
        if field not in columns:
            raise errors.ApiError(500, f"type object 'Node' has no attribute '{field}'")
    for field in fields:
        if field not in LIST_FIELDS and field != "uuid":
            raise errors.invalid(f"Field {field} is not a valid field.")


def _mask_instance_info(info: dict[str, Any]) -> dict[str, Any]:
    if not info:
        return info
    masked: dict[str, Any] = strutils.mask_dict_password(info, _MASK)
    for key in ("configdrive", "image_url"):
        if masked.get(key):
            masked[key] = _MASK
    return masked


def _mask(info: dict[str, Any]) -> dict[str, Any]:
    return strutils.mask_dict_password(info, _MASK) if info else info


def renderer(request: Request, fields: Sequence[str] | None) -> Render:
    """A function that shows a node to this request.

    :param fields: what to show; None for everything, with links to what
        belongs to the node.
    """
    minor = request.minor
    names = [
        name
        for name in (_ALL_FIELDS if fields is None else dict.fromkeys(fields))
        if versions.NODE_FIELDS.get(name, 0) <= minor
    ]
    stored = [name for name in names if name not in ("allocation_uuid", "conductor")]
    values = _getter(stored)
    self_url, bookmark_url = f"{request.url}/v1/nodes/", f"{request.url}/nodes/"
    masks = [
        (name, mask)
        for name, mask in (
            ("driver_info", _mask),
            ("driver_internal_info", _mask),
            ("instance_info", _mask_instance_info),
        )
        if name in stored
    ]
    old_states = "provision_state" in stored and minor < versions.INSPECT_WAIT
    store, conductor_of = request.bm.store, request.bm.conductor_of
    show_conductor, show_allocation = "conductor" in names, "allocation_uuid" in names

    def render(node: Node) -> dict[str, Any]:
        body = dict(zip(stored, values(node), strict=True))
        for name, mask in masks:
            body[name] = mask(body[name])
        if old_states:
            body["provision_state"] = _old_state(node.provision_state, minor)
        if show_conductor:
            body["conductor"] = conductor_of(node)
        if show_allocation:
            allocation = store.allocation_of(node)
            body["allocation_uuid"] = allocation.uuid if allocation else None
        uuid = node.uuid
        body["links"] = [
            {"href": self_url + uuid, "rel": "self"},
            {"href": bookmark_url + uuid, "rel": "bookmark"},
        ]
        if fields is None:
            _add_links(request, uuid, body)
        return body

    return render


def _getter(names: Sequence[str]) -> Callable[[Node], tuple[Any, ...]]:
    if not names:
        return lambda node: ()
    if len(names) == 1:
        single = attrgetter(names[0])
        return lambda node: (single(node),)
    return attrgetter(*names)


def _add_links(request: Request, uuid: str, body: dict[str, Any]) -> None:
    body["ports"] = request.links("nodes", f"{uuid}/ports")
    if request.minor >= versions.STATE_LINKS:
        body["states"] = request.links("nodes", f"{uuid}/states")
    if request.minor >= versions.PORTGROUPS_OF_NODE:
        body["portgroups"] = request.links("nodes", f"{uuid}/portgroups")
    if request.minor >= versions.VOLUME:
        body["volume"] = request.links("nodes", f"{uuid}/volume")


def _old_state(state: str, minor: int) -> str | None:
    """A provision state by the name that it had in an old version."""
    if state == states.AVAILABLE and minor < versions.AVAILABLE_STATE:
        return None
    if state == states.INSPECTWAIT and minor < versions.INSPECT_WAIT:
        return states.INSPECTING
    return state


def render_states(request: Request, node: Node) -> dict[str, Any]:
    """What ``/v1/nodes/<node>/states`` shows."""
    names = [
        "console_enabled",
        "last_error",
        "power_state",
        "provision_state",
        "target_power_state",
        "target_provision_state",
        "provision_updated_at",
    ]
    if request.minor >= versions.NODE_FIELDS["raid_config"]:
        names += ["raid_config", "target_raid_config"]
    if request.minor >= versions.BOOT_MODE:
        names += ["boot_mode", "secure_boot"]
    body = {name: getattr(node, name) for name in names}
    body["provision_state"] = _old_state(node.provision_state, request.minor)
    return body
