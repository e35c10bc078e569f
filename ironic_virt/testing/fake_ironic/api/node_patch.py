# SPDX-License-Identifier: Apache-2.0

"""Patching a node: which states allow it, and what else must hold."""

from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, patching, states, versions
from ironic_virt.testing.fake_ironic.api import node_schema
from ironic_virt.testing.fake_ironic.api.lookup import find_chassis, find_node
from ironic_virt.testing.fake_ironic.api.nodes import check_unique
from ironic_virt.testing.fake_ironic.node_view import renderer
from ironic_virt.testing.fake_ironic.patching import Patch
from ironic_virt.testing.fake_ironic.records import EMPTY, Node
from ironic_virt.testing.fake_ironic.settings import INTERFACES
from ironic_virt.testing.fake_ironic.web import Answer, Request

#: In the order of Ironic's messages.
_FREE_STATES = (
    states.ENROLL,
    states.INSPECTING,
    states.INSPECTWAIT,
    states.MANAGEABLE,
    states.AVAILABLE,
)


def patch_node(request: Request, ident: str) -> Answer:
    reset = checks.parse(_query(request), {"reset_interfaces": checks.boolean})["reset_interfaces"]
    if reset is not None and request.minor < versions.RESET_INTERFACES:
        raise errors.not_acceptable()
    patch = patching.read(request, node_schema.PATCHABLE)
    for field, since in versions.NODE_FIELDS.items():
        if since > request.minor and patching.values(patch, f"/{field}"):
            raise errors.not_acceptable()
    if reset and not patching.values(patch, "/driver"):
        raise errors.invalid(
            "The reset_interfaces parameter can only be used when changing the node's driver."
        )
    for text in patching.values(patch, "/description"):
        try:
            is_too_long = len(text) > 4096
        except TypeError as exc:
            # Ironic 39.0.0 measures it before it looks at its type.
            raise errors.ApiError(500, str(exc)) from None
        if is_too_long:
            raise errors.invalid("Cannot update node with description exceeding 4096 characters")
    for data in patching.values(patch, "/network_data"):
        node_schema.check_network_data(data)
    if any(item == {"op": "remove", "path": "/automated_clean"} for item in patch):
        # Ironic 39.0.0 looks for the value of a removal.
        raise errors.ApiError(500, "'value'")
    node = find_node(request, ident)
    for parent in patching.values(patch, "/parent_node"):
        node_schema.find_linked(request, parent, node.owner)
    _check_transition(request, node, ident, patch)
    for name in patching.values(patch, "/name"):
        message = f"Node {ident}: Cannot change name to invalid name '{name}'"
        node_schema.check_name(request, name, message)
    changes = _changes(node, patch)
    _check_links(request, node, ident, changes)
    _apply(request, node, changes)
    body = renderer(request, None)(node)
    # Ironic shows the node as it was while the change held its lock.
    body["reservation"] = body.get("conductor") or request.bm.conductor_of(node)
    return Answer(body=body)


def _query(request: Request) -> dict[str, str]:
    return dict(item.partition("=")[::2] for item in request.query.split("&") if item)


def _check_transition(request: Request, node: Node, ident: str, patch: Patch) -> None:
    if node.maintenance and patch == [{"op": "remove", "path": "/instance_uuid"}]:
        return
    if node.target_provision_state and node.provision_state not in states.UPDATE_ALLOWED:
        raise errors.conflict(
            f"Node {ident} can not be updated while a state transition is in progress."
        )
    if node.provision_state == states.INSPECTING and request.minor >= versions.INSPECT_WAIT:
        raise errors.conflict(
            f'Cannot update node "{node.uuid}" while it is in state "{states.INSPECTING}".'
        )
    allocation = request.bm.store.allocation_of(node)
    if patching.values(patch, "/owner") and allocation is not None and allocation.owner:
        raise errors.conflict(
            f'Cannot update owner of node "{node.uuid}" while it is allocated to an allocation'
            " with an  owner."
        )


def _changes(node: Node, patch: Patch) -> dict[str, Any]:
    """The fields that a patch changes, with their new values."""
    fields = node_schema.PATCH["properties"]
    before = {field: getattr(node, field) for field in fields}
    after = patching.apply(before, patch)
    node_schema.check(after, "patch", node_schema.PATCH)
    after["protected"] = bool(after.get("protected"))
    if "conductor_group" not in after:
        raise errors.ApiError(500, "'conductor_group'")
    if after["conductor_group"] is None:
        raise errors.ApiError(500, "'NoneType' object has no attribute 'lower'")
    for flag in ("maintenance", "console_enabled"):
        if after.get(flag) is None:
            raise errors.ApiError(500, f"Field `{flag}' cannot be None")
    after["conductor_group"] = after["conductor_group"].lower()
    changes: dict[str, Any] = {}
    for field in fields:
        value = after.get(field)
        if value is None and isinstance(before[field], dict):
            value = EMPTY
        if value != before[field]:
            changes[field] = value
    if "instance_info" in changes and not after.get("instance_name"):
        name = (changes["instance_info"] or {}).get("display_name")
        if name:
            changes["instance_name"] = name
    return changes


def _check_links(request: Request, node: Node, ident: str, changes: dict[str, Any]) -> None:
    """Checks that Ironic's API does itself, before it asks a conductor."""
    if node.chassis_uuid and "chassis_uuid" in changes and not changes["chassis_uuid"]:
        request.require(versions.UNSET_CHASSIS, errors.not_acceptable())
    if changes.get("chassis_uuid"):
        find_chassis(request, changes["chassis_uuid"], 400)
    request.bm.check_served(
        changes.get("driver", node.driver),
        changes.get("conductor_group", node.conductor_group),
        400,
    )
    if "driver" in changes and node.console_enabled:
        raise errors.conflict(
            f"Node {ident} can not update the driver while the console is enabled. Please stop"
            " the console first."
        )


def _apply(request: Request, node: Node, changes: dict[str, Any]) -> None:
    """What Ironic's conductor does."""
    bm = request.bm
    if changes.get("maintenance") is False:
        changes.update(maintenance_reason=None, fault=None)
    _check_flag(node, changes, "protected", (states.ACTIVE, states.RESCUE))
    _check_flag(node, changes, "retired", None)
    defaults = node_schema.default_interfaces(bm.settings)
    for kind in INTERFACES:
        field = f"{kind}_interface"
        _check_interface(node, changes, field)
        if field in changes and changes[field] is None:
            changes[field] = defaults[field]
    node_schema.check_interfaces(changes)
    bm.acquire(node)
    if changes.get("instance_uuid") and node.instance_uuid:
        raise errors.node_associated(node.uuid, node.instance_uuid)
    if "resource_class" in changes and node.resource_class:
        _check_free(node, "Node {uuid} can not have resource_class updated unless it is in one of")
    allocation = bm.store.allocation_of(node)
    if "instance_uuid" in changes and not changes["instance_uuid"] and allocation is not None:
        if not node.maintenance:
            _check_free(
                node,
                "Node {uuid} with an allocation can not have instance_uuid removed unless it is in"
                " one of",
                " or in maintenance mode",
            )
        bm.store.remove_allocation(allocation)
    node_schema.check_properties(node.uuid, changes.get("properties"))
    check_unique(request, node.uuid, {k: v for k, v in changes.items() if k != "driver"})
    bm.update(node, **changes)


def _check_free(node: Node, sentence: str, exception: str = "") -> None:
    if node.provision_state not in _FREE_STATES:
        raise errors.conflict(
            f"{sentence.format(uuid=node.uuid)} allowed ({', '.join(_FREE_STATES)})"
            f" states{exception}. Current state is '{node.provision_state}'."
        )


def _check_interface(node: Node, changes: dict[str, Any], field: str) -> None:
    if field in changes and not node.maintenance:
        _check_free(
            node,
            f"Node {{uuid}} can not have {field} updated unless it is in one of",
            " or in maintenance mode",
        )


def _check_flag(
    node: Node, changes: dict[str, Any], flag: str, only_in: tuple[str, ...] | None
) -> None:
    """Rules of ``protected`` and ``retired``, each with its reason."""
    reason = f"{flag}_reason"
    value = changes.get(flag, getattr(node, flag))
    if flag in changes:
        if not value:
            changes[reason] = None
        elif only_in is not None and node.provision_state not in only_in:
            raise errors.conflict(
                f"Node {node.uuid} can only be made {flag} in provision states"
                f" 'active' or 'rescue', the current state is '{node.provision_state}'"
            )
        elif only_in is None and node.provision_state == states.AVAILABLE:
            raise errors.conflict(
                f"Node {node.uuid} can not have '{flag}' set in provision state 'available', the"
                f" current state is '{node.provision_state}'"
            )
    if changes.get(reason) and not value:
        raise errors.invalid(f"The {reason} field can only be set when {flag} is True")


NODE_ROUTES = (("/nodes/<ident>", {"PATCH": patch_node}),)
