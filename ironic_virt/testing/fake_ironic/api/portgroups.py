# SPDX-License-Identifier: Apache-2.0

"""Port groups, at ``/v1/portgroups`` and below nodes."""

from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, paging, patching, states
from ironic_virt.testing.fake_ironic import versions as v
from ironic_virt.testing.fake_ironic.api.lookup import find_node, find_parent, find_portgroup
from ironic_virt.testing.fake_ironic.records import EMPTY, Portgroup
from ironic_virt.testing.fake_ironic.web import Answer, Request

_FIELDS = (
    "uuid",
    "created_at",
    "updated_at",
    "address",
    "extra",
    "internal_info",
    "mode",
    "name",
    "properties",
    "standalone_ports_supported",
    "node_uuid",
    "physical_network",
    "category",
    "dynamic_portgroup",
)
_DEFAULT = ["uuid", "address", "name"]
_UNSORTABLE = ("extra", "internal_info", "properties")

_STRING = {"type": ["string", "null"]}
_OBJECT = {"type": ["object", "null"]}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "address": _STRING,
        "category": {**_STRING, "maxLength": 80},
        "extra": _OBJECT,
        "mode": _STRING,
        "name": _STRING,
        "node_uuid": {"type": "string"},
        "physical_network": {**_STRING, "maxLength": 64},
        "properties": _OBJECT,
        "standalone_ports_supported": {"type": ["string", "boolean", "null"]},
        "uuid": _STRING,
    },
    "required": ["node_uuid"],
    "additionalProperties": False,
}
_PATCHABLE = (
    "address",
    "extra",
    "mode",
    "name",
    "node_uuid",
    "properties",
    "standalone_ports_supported",
    "physical_network",
    "category",
)
_PARSERS: dict[str, checks.Parser] = {
    "address": checks.mac_address,
    "node_uuid": checks.uuid,
    "standalone_ports_supported": checks.boolean,
    "uuid": checks.uuid,
}
_LIST: dict[str, checks.Parser] = {
    "node": checks.uuid_or_name,
    "address": checks.mac_address,
    "shard": checks.string_list,
    "conductor_groups": checks.string_list,
    **checks.PAGING,
}


def _require(request: Request) -> None:
    request.require(v.PORTGROUPS, errors.not_found("The API is not supported for this version"))


def _render(
    request: Request, group: Portgroup, fields: list[str] | None = None, hide: bool = True
) -> dict[str, Any]:
    """:param hide: leave out fields that are too new for the request."""
    names = [
        name
        for name in _FIELDS
        if (fields is None or name in fields)
        and (not hide or v.PORTGROUP_FIELDS.get(name, 0) <= request.minor)
    ]
    body = {name: getattr(group, name) for name in names}
    body["links"] = request.links("portgroups", group.uuid)
    if fields is None:
        body["ports"] = request.links("portgroups", f"{group.uuid}/ports")
    return body


def _check_fields(request: Request, fields: list[str] | None) -> None:
    checks.check_selection(fields, (*_FIELDS, "links", "ports"))
    v.check_fields(fields or (), v.PORTGROUP_FIELDS, request.minor)


def list_portgroups(request: Request, ident: str | None = None) -> Answer:
    _require(request)
    given = request.arguments({**_LIST, "fields": checks.string_list, "detail": checks.boolean})
    _check_fields(request, given["fields"])
    fields, extra = paging.select_fields(request, given, _DEFAULT)
    return _list(request, given, fields, ident, extra)


def list_detail(request: Request, ident: str | None = None) -> Answer:
    _require(request)
    if ident is not None:
        request.require(v.PORTGROUPS_OF_NODE)
    return _list(request, request.arguments(_LIST), None, ident, {})


def list_of_node(request: Request, ident: str) -> Answer:
    request.require(v.PORTGROUPS_OF_NODE)
    return list_portgroups(request, ident)


def _list(
    request: Request,
    given: dict[str, Any],
    fields: list[str] | None,
    ident: str | None,
    extra: dict[str, Any],
) -> Answer:
    if given["shard"] is not None and request.minor < v.PORTGROUP_SHARD:
        raise errors.needs_version(v.PORTGROUP_SHARD)
    window = paging.Window.requested(request, given)
    paging.check_sortable(window.sort_key, _UNSORTABLE)
    v.check_fields([window.sort_key], v.PORTGROUP_FIELDS, request.minor)
    paging.check_sorts_by_node(window.sort_key)
    paging.check_sort_key(window.sort_key, (*_FIELDS, "id"))
    marker = find_portgroup(request, given["marker"]) if given["marker"] else None
    node = find_node(request, given["node"]) if given["node"] else None
    if ident:
        node = find_parent(request, ident)

    def matches(group: Portgroup) -> bool:
        if node is not None and group.node is not node:
            return False
        if given["address"] and group.address != given["address"]:
            return False
        return not given["shard"] or group.node.shard in given["shard"]

    rows = paging.page(
        request.bm.store.portgroups,
        matches,
        window,
        marker=marker,
    )
    return paging.collection(
        request,
        "portgroups",
        # Ironic 39.0.0 hides nothing in detailed lists.
        [_render(request, row, fields, hide=fields is not None) for row in rows],
        [row.uuid for row in rows],
        window,
        fields=fields,
        **extra,
    )


def show_portgroup(request: Request, group: str) -> Answer:
    _require(request)
    fields = request.arguments({"fields": checks.string_list})["fields"]
    row = find_portgroup(request, group)
    _check_fields(request, fields)
    return Answer(body=_render(request, row, fields))


def _check_free(request: Request, uuid: str, values: dict[str, Any]) -> None:
    for row in request.bm.store.portgroups:
        if row.uuid == uuid:
            continue
        if values.get("name") and row.name == values["name"]:
            raise errors.conflict(f"A portgroup with name {values['name']} already exists.")
        if values.get("address") and row.address == values["address"]:
            raise errors.conflict(
                f"A portgroup with MAC address {values['address']} already exists."
            )


def create_portgroup(request: Request) -> Answer:
    _require(request)
    bm = request.bm
    values = request.json()
    checks.check_schema("portgroup", values, _SCHEMA)
    for field, parser in _PARSERS.items():
        if field in values:
            values[field] = parser(field, values[field])
    node = find_node(request, values.pop("node_uuid"), missing=400)
    if request.minor < v.PORTGROUP_FIELDS["mode"] and (
        values.get("mode") or values.get("properties")
    ):
        raise errors.not_acceptable()
    name = values.get("name")
    if name and not checks.is_name(name, request.minor):
        raise errors.invalid(f"Cannot create portgroup with invalid name '{name}'")
    uuid = values.pop("uuid", None) or bm.new_uuid()
    if bm.store.portgroups.get(uuid) is not None:
        raise errors.conflict(f"A portgroup with UUID {uuid} already exists.")
    _check_free(request, uuid, values)
    row = Portgroup(
        id=bm.store.portgroups.next_id(),
        uuid=uuid,
        created_at=bm.store.timestamp(),
        node=node,
        **{key: value for key, value in values.items() if value is not None},
    )
    bm.store.portgroups.add(row)
    return Answer(201, _render(request, row), f"portgroups/{row.uuid}")


def patch_portgroup(request: Request, group: str) -> Answer:
    _require(request)
    row = find_portgroup(request, group)
    patch = patching.read(request, _PATCHABLE)
    if request.minor < v.PORTGROUP_FIELDS["mode"] and (
        patching.touches(patch, "mode") or patching.touches(patch, "properties")
    ):
        raise errors.not_acceptable()
    for name in patching.values(patch, "/name"):
        if name and not checks.is_name(name, request.minor):
            raise errors.invalid(f"Portgroup {group}: Cannot change name to invalid name '{name}'")
    before = {name: getattr(row, name) for name in _SCHEMA["properties"]}
    after = patching.apply(before, patch)
    if "mode" not in after:
        raise errors.invalid("'mode' is a mandatory attribute and can not be removed")
    checks.check_schema("patch", after, _SCHEMA)
    changes: dict[str, Any] = {}
    for name, old in before.items():
        value = after.get(name)
        if name in _PARSERS:
            value = _PARSERS[name](name, value)
        if value is None and isinstance(old, dict):
            value = EMPTY
        if value != old and name != "node_uuid":
            changes[name] = value
    if row.node.provision_state == states.INSPECTING and request.minor >= v.INSPECT_WAIT:
        raise errors.conflict(
            f'Cannot update portgroup "{row.uuid}" on node "{row.node.uuid}" while it is in state'
            f' "{states.INSPECTING}".'
        )
    request.bm.acquire(row.node)
    _check_free(request, row.uuid, changes)
    if changes:
        request.bm.update(row, **changes)
    return Answer(body=_render(request, row))


def delete_portgroup(request: Request, group: str) -> Answer:
    _require(request)
    row = find_portgroup(request, group)
    request.bm.acquire(row.node)
    if any(port.portgroup is row for port in request.bm.store.ports_of(row.node)):
        raise errors.invalid(
            f"Cannot complete the requested action because portgroup {row.id} contains ports."
        )
    request.bm.store.portgroups.remove(row)
    return Answer(204)


ROUTES = (
    ("/portgroups", {"GET": list_portgroups, "POST": create_portgroup}),
    ("/portgroups/detail", {"GET": list_detail}),
    (
        "/portgroups/<group>",
        {"GET": show_portgroup, "PATCH": patch_portgroup, "DELETE": delete_portgroup},
    ),
)
NODE_ROUTES = (
    ("/nodes/<ident>/portgroups", {"GET": list_of_node}),
    ("/nodes/<ident>/portgroups/detail", {"GET": list_detail}),
)
