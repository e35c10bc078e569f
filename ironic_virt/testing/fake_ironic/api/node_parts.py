# SPDX-License-Identifier: Apache-2.0

"""What hangs on a node: traits, VIFs, maintenance, management, validation, history."""

from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, network, paging, provisioning, versions
from ironic_virt.testing.fake_ironic.api.lookup import find_node
from ironic_virt.testing.fake_ironic.api.nodes import show_only
from ironic_virt.testing.fake_ironic.web import Answer, Request

_TRAITS: dict[str, Any] = {
    "type": "object",
    "properties": {"traits": {"type": "array", "items": checks.TRAIT}},
    "additionalProperties": False,
}
_VIF: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": True,
}
_MAX_TRAITS = 50
_EITHER_TRAITS = (
    "A single node trait may be added via PUT /v1/nodes/<node identifier>/traits/<trait> with no"
    " body, or all node traits may be replaced via PUT /v1/nodes/<node identifier>/traits with the"
    " list of traits specified in the request body."
)

#: In Ironic's order.
_VALIDATED = (
    "boot",
    "deploy",
    "management",
    "network",
    "power",
    "bios",
    "console",
    "firmware",
    "inspect",
    "raid",
    "rescue",
    "storage",
)


# Traits


def _require_traits(request: Request) -> None:
    refusals = {
        "GET": errors.not_acceptable(),
        "PUT": errors.RoutingError(405, allow=["DELETE", "GET", "PATCH", "POST"]),
    }
    request.require(versions.TRAITS, refusals.get(request.method, errors.not_found()))


def show_traits(request: Request, ident: str) -> Answer:
    _require_traits(request)
    return Answer(body={"traits": list(find_node(request, ident).traits)})


def _set_traits(request: Request, ident: str, traits: list[str]) -> None:
    node = find_node(request, ident)
    request.bm.acquire(node)
    if len(traits) > _MAX_TRAITS:
        raise errors.invalid(
            f"Could not modify traits for node {node.id} as it would exceed the maximum number of"
            f" traits per node ({len(traits)} vs. {_MAX_TRAITS})"
        )
    # Ironic keeps traits in another table, so the node's updated_at stays.
    node.traits = tuple(sorted(traits))


def replace_traits(request: Request, ident: str) -> Answer:
    _require_traits(request)
    body = request.json()
    checks.check_schema("body", body, _TRAITS)
    find_node(request, ident)
    if "traits" not in body:
        raise errors.invalid(_EITHER_TRAITS)
    _set_traits(request, ident, list(dict.fromkeys(body["traits"])))
    return Answer(204)


def add_trait(request: Request, ident: str, trait: str) -> Answer:
    _require_traits(request)
    checks.check_schema("trait", trait, checks.TRAIT)
    body = request.json()
    checks.check_schema("body", body, _TRAITS)
    node = find_node(request, ident)
    if "traits" in body:
        raise errors.invalid(_EITHER_TRAITS)
    _set_traits(request, ident, list(dict.fromkeys((*node.traits, trait))))
    return Answer(204, location=f"nodes/{ident}/traits/{trait}")


def remove_trait(request: Request, ident: str, trait: str) -> Answer:
    _require_traits(request)
    node = find_node(request, ident)
    request.bm.acquire(node)
    if trait not in node.traits:
        raise errors.not_found(f"Node {node.uuid} doesn't have a trait '{trait}'")
    _set_traits(request, ident, [name for name in node.traits if name != trait])
    return Answer(204)


def remove_traits(request: Request, ident: str) -> Answer:
    _require_traits(request)
    _set_traits(request, ident, [])
    return Answer(204)


# VIFs


def detach_none(request: Request, ident: str) -> Answer:
    raise errors.invalid("Missing mandatory parameter: vif_id")


def list_vifs(request: Request, ident: str) -> Answer:
    request.require(versions.VIFS)
    node = find_node(request, ident)
    request.bm.check_served(node.driver, node.conductor_group, 400)
    attached = [] if node.network_interface == "noop" else network.vifs(request.bm, node)
    return Answer(body={"vifs": [{"id": vif} for vif in attached]})


def attach_vif(request: Request, ident: str) -> Answer:
    request.require(versions.VIFS)
    body = request.json()
    checks.check_schema("vif", body, _VIF)
    checks.uuid_or_name("id", body["id"])
    node = find_node(request, ident)
    port_uuid, portgroup_uuid = body.get("port_uuid"), body.get("portgroup_uuid")
    both = "port_uuid" in body and "portgroup_uuid" in body
    if both and request.minor >= versions.VIF_PORT:
        raise errors.invalid("Cannot specify both port_uuid and portgroup_uuid")
    network.attach_vif(request.bm, node, body["id"], port_uuid, portgroup_uuid)
    return Answer(204)


def detach_vif(request: Request, ident: str, vif: str) -> Answer:
    request.require(versions.VIFS)
    checks.uuid_or_name("vif_id", vif)
    network.detach_vif(request.bm, find_node(request, ident), vif)
    return Answer(204)


# Maintenance


def set_maintenance(request: Request, ident: str) -> Answer:
    reason = request.arguments({"reason": checks.string})["reason"]
    node = find_node(request, ident)
    request.bm.acquire(node, unserved=400)
    request.bm.update(node, maintenance=True, maintenance_reason=reason)
    return Answer(202)


def clear_maintenance(request: Request, ident: str) -> Answer:
    node = find_node(request, ident)
    request.bm.acquire(node, unserved=400)
    request.bm.update(node, maintenance=False, maintenance_reason=None, fault=None)
    return Answer(202)


# Management


def inject_nmi(request: Request, ident: str) -> Answer:
    request.arguments({})
    request.require(versions.INJECT_NMI, errors.not_found())
    node = find_node(request, ident)
    request.bm.acquire(node)
    if not (request.bm.settings.supports_nmi or node.driver_info.get("takes_nmi")):
        raise provisioning.unsupported(node, "inject_nmi")
    # So the real one's fake hardware in tests tells of it.
    request.bm.record(node, "An NMI was injected", "management")
    return Answer(204)


def show_boot_device(request: Request, ident: str) -> Answer:
    node = find_node(request, ident)
    request.bm.acquire(node)
    body = {"boot_device": node.boot_device, "persistent": node.boot_device_persistent}
    return Answer(body=body)


def show_boot_devices(request: Request, ident: str) -> Answer:
    node = find_node(request, ident)
    # A shared lock.
    request.bm.check_served(node.driver, node.conductor_group)
    return Answer(body={"supported_boot_devices": list(request.bm.settings.boot_devices)})


def set_boot_device(request: Request, ident: str) -> Answer:
    given = request.arguments(
        {"boot_device": checks.string, "persistent": checks.boolean}, required=("boot_device",)
    )
    node = find_node(request, ident)
    request.bm.acquire(node)
    if given["boot_device"] not in request.bm.settings.boot_devices:
        raise errors.invalid(f"Invalid boot device {given['boot_device']} specified.")
    # fake-hardware has nothing to remember it with: it always reports its own.
    if request.bm.settings.boot_devices != ("pxe",):
        node.boot_device = given["boot_device"]
        node.boot_device_persistent = bool(given["persistent"])
    return Answer(204)


# Validation, history, and what fake-hardware has nothing to say of


def validate(request: Request, ident: str) -> Answer:
    node = find_node(request, ident)
    request.bm.check_served(node.driver, node.conductor_group)
    body: dict[str, Any] = {}
    for interface in _VALIDATED:
        reason = provisioning.why_invalid(request.bm, node, interface)
        body[interface] = {"result": reason is None}
        if reason is not None:
            body[interface]["reason"] = reason
    return Answer(body=body)


def validate_named(request: Request) -> Answer:
    given = request.arguments({"node": checks.uuid_or_name, "node_uuid": checks.uuid})
    ident = given["node_uuid"] or given["node"]
    if ident is None:
        raise errors.invalid("Expected a logical name or UUID but received None.")
    return validate(request, ident)


_HISTORY = ("uuid", "created_at", "severity", "event")
_HISTORY_DETAIL = (*_HISTORY, "event_type", "conductor", "user")
# As Ironic has them in a link: in its own order, and at every version.
_HISTORY_LINKED = (
    *("uuid", "created_at", "severity", "event_type", "event", "conductor", "user", "project"),
    *("state", "target_provision_state", "duration_seconds"),
)


def _render_event(request: Request, event: Any, detail: bool) -> dict[str, Any]:
    names = _HISTORY_DETAIL if detail else _HISTORY
    if detail and request.minor >= versions.HISTORY_PROJECT:
        names = (*names, "project")
    if detail and request.minor >= versions.HISTORY_FIELDS:
        names = (*names, "state", "target_provision_state", "duration_seconds")
    body = {name: getattr(event, name) for name in names}
    if not detail and len(event.event) > 255:
        body["event"] = event.event[:251] + "..."
    body["links"] = [request.link("self", "nodes", f"{event.node.uuid}/history/{event.uuid}")]
    return body


def list_history(request: Request, ident: str) -> Answer:
    request.require(versions.NODE_HISTORY)
    given = request.arguments({"detail": checks.boolean, **checks.PAGING})
    node = find_node(request, ident)
    window = paging.Window.requested(request, given, "created_at")
    events = request.bm.store.history_of(node)
    if window.descends:
        events.reverse()
    if given["marker"]:
        uuids = [event.uuid for event in events]
        if given["marker"] not in uuids:
            raise _no_event(given["marker"])
        events = events[uuids.index(given["marker"]) + 1 :]
    events = events[: window.limit]
    detail = bool(given["detail"])
    body: dict[str, Any] = {"history": [_render_event(request, row, detail) for row in events]}
    if events and len(events) == window.limit:
        fields = ",".join(_HISTORY_LINKED if detail else _HISTORY)
        # The first marker is Ironic's, which takes it for a parameter to repeat.
        body["next"] = (
            f"{request.url}/v1/nodes/{ident}/history?marker=None&sort_key={window.sort_key}"
            f"&sort_dir={window.sort_dir}&fields={fields}&limit={window.limit}"
            f"&marker={events[-1].uuid}"
        )
    return Answer(body=body)


def _no_event(uuid: str) -> errors.ApiError:
    return errors.not_found(f"Node history record {uuid} could not be found.")


def show_history(request: Request, ident: str, event: str) -> Answer:
    request.require(versions.NODE_HISTORY)
    events = request.bm.store.history_of(find_node(request, ident))
    entry = next((item for item in events if item.uuid == event), None)
    if entry is None:
        raise _no_event(event)
    return Answer(body=_render_event(request, entry, True))


def show_inventory(request: Request, ident: str) -> Answer:
    request.require(versions.NODE_INVENTORY)
    node = find_node(request, ident)
    raise errors.not_found(f"Node inventory record for node {node.id} could not be found.")


def show_children(request: Request, ident: str) -> Answer:
    request.require(versions.CHILD_NODES, errors.not_found())
    node = find_node(request, ident)
    children = [child.uuid for child in request.bm.store.nodes if child.parent_node == node.uuid]
    href = f"{request.url}/v1/nodes?parent_node={node.uuid}"
    return Answer(body={"children": children, "links": {"href": href, "rel": "children"}})


def show_field(request: Request, ident: str, field: str) -> Answer:
    """Take an unknown part of a node for the name of a field, as Ironic does."""
    if field == "maintenance":
        raise errors.RoutingError(405, allow=["DELETE", "PUT"])
    return show_only(request, ident, [field.lower()])


def show_no_state(request: Request, ident: str, rest: str) -> Answer:
    find_node(request, ident)
    raise errors.ApiError(
        500, "NodeStatesController.get() takes 2 positional arguments but 3 were given"
    )


def manage_nothing(request: Request, ident: str, rest: str) -> Answer:
    raise errors.RoutingError(405, allow=[])


def show_bios(request: Request, ident: str) -> Answer:
    request.require(versions.BIOS)
    find_node(request, ident)
    return Answer(body={"bios": []})


def show_firmware(request: Request, ident: str) -> Answer:
    request.require(versions.FIRMWARE)
    find_node(request, ident)
    return Answer(body={"firmware": []})


ROUTES = (("/nodes/validate", {"GET": validate_named}),)
NODE_ROUTES = (
    (
        "/nodes/<ident>/traits",
        {"GET": show_traits, "PUT": replace_traits, "DELETE": remove_traits},
    ),
    ("/nodes/<ident>/traits/<trait>", {"PUT": add_trait, "DELETE": remove_trait}),
    ("/nodes/<ident>/vifs", {"GET": list_vifs, "POST": attach_vif, "DELETE": detach_none}),
    ("/nodes/<ident>/vifs/<vif>", {"DELETE": detach_vif}),
    ("/nodes/<ident>/maintenance", {"PUT": set_maintenance, "DELETE": clear_maintenance}),
    ("/nodes/<ident>/management/inject_nmi", {"PUT": inject_nmi}),
    (
        "/nodes/<ident>/management/boot_device",
        {"GET": show_boot_device, "PUT": set_boot_device},
    ),
    ("/nodes/<ident>/management/boot_device/supported", {"GET": show_boot_devices}),
    ("/nodes/<ident>/validate", {"GET": validate}),
    ("/nodes/<ident>/history", {"GET": list_history}),
    ("/nodes/<ident>/history/<event>", {"GET": show_history}),
    ("/nodes/<ident>/inventory", {"GET": show_inventory}),
    ("/nodes/<ident>/children", {"GET": show_children}),
    ("/nodes/<ident>/bios", {"GET": show_bios}),
    ("/nodes/<ident>/firmware", {"GET": show_firmware}),
    ("/nodes/<ident>/<field>", {"GET": show_field}),
    ("/nodes/<ident>/states/<rest>", {"GET": show_no_state}),
    ("/nodes/<ident>/management/<rest>", {"GET": manage_nothing}),
)
