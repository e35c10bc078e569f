# SPDX-License-Identifier: Apache-2.0

"""Chassis, which nodes can be said to be in."""

from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, paging, patching
from ironic_virt.testing.fake_ironic import versions as v
from ironic_virt.testing.fake_ironic.api import nodes
from ironic_virt.testing.fake_ironic.api.lookup import find_chassis
from ironic_virt.testing.fake_ironic.records import EMPTY, Chassis
from ironic_virt.testing.fake_ironic.web import Answer, Request

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "uuid": {"type": ["string", "null"]},
        "extra": {"type": ["object", "null"]},
        "description": {"type": ["string", "null"], "maxLength": 255},
    },
    "additionalProperties": False,
}
_FIELDS = ("created_at", "description", "extra", "updated_at", "uuid")


def _render(request: Request, row: Chassis, fields: list[str] | None = None) -> dict[str, Any]:
    body = {name: getattr(row, name) for name in _FIELDS}
    # A list with one entry, as in Ironic 39.0.0.
    body["nodes"] = [request.links("chassis", f"{row.uuid}/nodes")]
    checks.check_selection(fields, (*_FIELDS, "links", "nodes"))
    if fields is not None:
        body = {name: value for name, value in body.items() if name in fields}
    body["links"] = request.links("chassis", row.uuid)
    return body


def list_chassis(request: Request) -> Answer:
    given = request.arguments(
        {**checks.PAGING, "fields": checks.string_list, "detail": checks.boolean}
    )
    if given["fields"] is not None:
        request.require(v.FIELDS, errors.not_acceptable())
    fields, extra = paging.select_fields(request, given, ["uuid", "description"])
    return _list(request, given, fields, "chassis", extra)


def list_detail(request: Request) -> Answer:
    return _list(request, request.arguments(checks.PAGING), None, "chassis/detail", {})


def _list(
    request: Request,
    given: dict[str, Any],
    fields: list[str] | None,
    resource: str,
    extra: dict[str, Any],
) -> Answer:
    window = paging.Window.requested(request, given)
    marker = find_chassis(request, given["marker"]) if given["marker"] else None
    paging.check_sortable(window.sort_key, ("extra",))
    paging.check_sort_key(window.sort_key, (*_FIELDS, "id"))
    rows = paging.page(
        request.bm.store.chassis,
        None,
        window,
        marker=marker,
    )
    return paging.collection(
        request,
        "chassis",
        [_render(request, row, fields) for row in rows],
        [row.uuid for row in rows],
        window,
        fields=fields,
        resource=resource,
        **extra,
    )


def show_chassis(request: Request, uuid: str) -> Answer:
    checks.uuid("chassis_uuid", uuid)
    fields = request.arguments({"fields": checks.string_list})["fields"]
    if fields is not None:
        request.require(v.FIELDS, errors.not_acceptable())
    return Answer(body=_render(request, find_chassis(request, uuid), fields))


def _checked(name: str, values: Any) -> dict[str, Any]:
    checks.check_schema(name, values, _SCHEMA)
    checks.uuid("uuid", values.get("uuid"))
    return {**values, "extra": values.get("extra") or EMPTY}


def create_chassis(request: Request) -> Answer:
    table = request.bm.store.chassis
    values = _checked("chassis", request.json())
    uuid = values.pop("uuid", None) or request.bm.new_uuid()
    if table.get(uuid) is not None:
        raise errors.conflict(f"A chassis with UUID {uuid} already exists.")
    row = Chassis(table.next_id(), uuid, request.bm.store.timestamp(), **values)
    table.add(row)
    return Answer(201, _render(request, row), f"chassis/{uuid}")


def patch_chassis(request: Request, uuid: str) -> Answer:
    patch = patching.read(request, tuple(_SCHEMA["properties"]))
    row = find_chassis(request, uuid)
    before = {name: getattr(row, name) for name in _SCHEMA["properties"]}
    after = _checked("patch", patching.apply(before, patch))
    if changes := {name: after.get(name) for name in before if after.get(name) != before[name]}:
        request.bm.update(row, **changes)
    return Answer(body=_render(request, row))


def delete_chassis(request: Request, uuid: str) -> Answer:
    checks.uuid("chassis_uuid", uuid)
    row = find_chassis(request, uuid)
    if any(node.chassis_uuid == uuid for node in request.bm.store.nodes):
        raise errors.invalid(
            f"Cannot complete the requested action because chassis {uuid} contains nodes."
        )
    request.bm.store.chassis.remove(row)
    return Answer(204)


def list_nodes(request: Request, uuid: str) -> Answer:
    return nodes.list_nodes(request, uuid)


ROUTES = (
    ("/chassis", {"GET": list_chassis, "POST": create_chassis}),
    ("/chassis/detail", {"GET": list_detail}),
    (
        "/chassis/<uuid>",
        {"GET": show_chassis, "PATCH": patch_chassis, "DELETE": delete_chassis},
    ),
    ("/chassis/<uuid>/nodes", {"GET": list_nodes}),
)
