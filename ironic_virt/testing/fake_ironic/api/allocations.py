# SPDX-License-Identifier: Apache-2.0

"""Allocations, at ``/v1/allocations`` and below a node."""

from typing import Any

from ironic_virt.testing.fake_ironic import (
    allocating,
    checks,
    errors,
    paging,
    patching,
    versions,
)
from ironic_virt.testing.fake_ironic.api.lookup import find_allocation, find_node
from ironic_virt.testing.fake_ironic.records import EMPTY, Allocation, Node
from ironic_virt.testing.fake_ironic.web import Answer, Request

_FIELDS = (
    "uuid",
    "created_at",
    "updated_at",
    "candidate_nodes",
    "extra",
    "last_error",
    "name",
    "owner",
    "resource_class",
    "state",
    "traits",
    "node_uuid",
)

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "candidate_nodes": {"type": ["array", "null"], "items": checks.UUID_OR_NAME},
        "extra": {"type": ["object", "null"]},
        "name": {"type": ["string", "null"]},
        "node": {"type": ["string", "null"]},
        "owner": {"type": ["string", "null"]},
        "resource_class": {"type": ["string", "null"], "maxLength": 80},
        "traits": {"type": ["array", "null"], "items": checks.TRAIT},
        "uuid": {"type": ["string", "null"]},
    },
    "additionalProperties": False,
}

_SCHEMA_WITHOUT_NODE: dict[str, Any] = {
    **_SCHEMA,
    "properties": {key: value for key, value in _SCHEMA["properties"].items() if key != "node"},
}

#: What can be selected with ``fields=``, in the order of Ironic's message.
_SELECTABLE = (
    "candidate_nodes",
    "created_at",
    "extra",
    "last_error",
    "links",
    "name",
    "node_uuid",
    "resource_class",
    "state",
    "traits",
    "updated_at",
    "uuid",
    "owner",
)

_UNSORTABLE = ("extra", "candidate_nodes", "traits")


def _require(request: Request, minor: int = versions.ALLOCATIONS) -> None:
    request.require(minor, errors.not_found("The API version does not allow allocations"))


def _render(request: Request, row: Allocation, fields: list[str] | None = None) -> dict[str, Any]:
    names = [name for name in _FIELDS if fields is None or name in fields]
    if request.minor < versions.ALLOCATION_OWNER:
        names = [name for name in names if name != "owner"]
    body = {name: getattr(row, name) for name in names}
    body["links"] = request.links("allocations", row.uuid)
    return body


def _check_fields(request: Request, fields: list[str] | None) -> None:
    for field in fields or ():
        if field == "owner" and request.minor < versions.ALLOCATION_OWNER:
            raise errors.not_acceptable()
        if field not in _SELECTABLE:
            known = [name for name in _SELECTABLE if name != "owner" or request.minor >= 60]
            raise errors.invalid(f"Schema error: '{field}' is not one of {known}")


def list_allocations(request: Request) -> Answer:
    _require(request)
    given = request.arguments(
        {
            "node": checks.uuid_or_name,
            "resource_class": checks.string,
            "state": checks.string,
            "owner": checks.string,
            **checks.PAGING,
            "marker": checks.string,
            "fields": checks.string_list,
        }
    )
    _check_fields(request, given["fields"])
    if given["marker"] is not None and not checks.is_uuid(given["marker"]):
        raise errors.invalid(f"Schema error: '{given['marker']}' is not a 'uuid'")
    if given["sort_dir"] not in (None, "asc", "desc"):
        raise errors.invalid(f"Schema error: '{given['sort_dir']}' is not one of ['asc', 'desc']")
    if given["owner"] is not None and request.minor < versions.ALLOCATION_OWNER:
        raise errors.not_acceptable()
    store = request.bm.store
    window = paging.Window.requested(request, given)
    paging.check_sortable(window.sort_key, _UNSORTABLE)
    paging.check_sort_key(window.sort_key, {*_FIELDS, "id"} - {"node_uuid"})
    marker = find_allocation(request, given["marker"]) if given["marker"] else None
    node = find_node(request, given["node"], missing=400) if given["node"] else None
    equalities = {
        name: given[name]
        for name in ("resource_class", "state", "owner")
        if given[name] is not None
    }

    def matches(row: Allocation) -> bool:
        if node is not None and row.node is not node:
            return False
        return all(getattr(row, name) == value for name, value in equalities.items())

    rows = paging.page(
        store.allocations,
        matches,
        window,
        marker=marker,
    )
    return paging.collection(
        request,
        "allocations",
        [_render(request, row, given["fields"]) for row in rows],
        [row.uuid for row in rows],
        window,
        fields=given["fields"],
    )


def show_allocation(request: Request, ident: str) -> Answer:
    _require(request)
    fields = request.arguments({"fields": checks.string_list})["fields"]
    row = find_allocation(request, ident)
    _check_fields(request, fields)
    return Answer(body=_render(request, row, fields))


def _method_not_allowed(request: Request, minor: int, doing: str) -> None:
    message = f"The API version does not allow {doing}"
    request.require(minor, errors.ApiError(405, message))


def create_allocation(request: Request) -> Answer:
    _method_not_allowed(request, versions.ALLOCATIONS, "allocations")
    bm = request.bm
    values = request.json()
    backfill = request.minor >= versions.ALLOCATION_BACKFILL
    checks.check_schema(None, values, _SCHEMA if backfill else _SCHEMA_WITHOUT_NODE)
    if values.get("owner") and request.minor < versions.ALLOCATION_OWNER:
        raise errors.not_acceptable()
    _check_name(request, values.get("name"), "create")
    node = None
    if values.get("node"):
        node = find_node(request, values["node"], missing=400)
    resource_class = values.get("resource_class") or (node.resource_class if node else None)
    if not resource_class:
        raise errors.invalid("The resource_class field is mandatory when not backfilling")
    row = Allocation(
        id=bm.store.allocations.next_id(),
        uuid=_uuid(request, values, node),
        created_at=bm.store.timestamp(),
        candidate_nodes=_candidates(request, values.get("candidate_nodes") or []),
        extra=values.get("extra") or EMPTY,
        name=values.get("name"),
        owner=values.get("owner"),
        resource_class=resource_class,
        traits=values.get("traits") or [],
    )
    if bm.store.allocations.get(row.uuid) is not None:
        raise errors.conflict(f"An allocation with UUID {row.uuid} already exists.")
    _check_name_free(request, row.name)
    bm.store.allocations.add(row)
    if node is not None:
        allocating.backfill(bm, row, node)
    elif checks.is_uuid(row.uuid):
        allocating.allocate(bm, row)
    # Ironic 39.0.0 accepts any other identifier, and never gets on with it.
    return Answer(201, _render(request, row), f"allocations/{row.uuid}")


def _candidates(request: Request, idents: list[str]) -> list[str]:
    """The uuids of candidate nodes.

    :raises ApiError: 400, with all that do not exist.
    """
    store = request.bm.store
    nodes = {ident: store.nodes.get(ident) or store.node_by_name(ident) for ident in idents}
    missing = [ident for ident, node in nodes.items() if node is None]
    if missing:
        raise errors.invalid(f"Nodes cannot be found: {', '.join(missing)}")
    return [node.uuid for ident in idents if (node := nodes[ident]) is not None]


def _uuid(request: Request, values: dict[str, Any], node: Node | None) -> str:
    instance = node.instance_uuid if node else None
    return values.get("uuid") or instance or request.bm.new_uuid()


def _check_name(request: Request, name: str | None, doing: str) -> None:
    if name and not checks.is_name(name, request.minor):
        raise errors.invalid(f"Cannot {doing} allocation with invalid name '{name}'")


def _check_name_free(request: Request, name: str | None) -> None:
    if name and any(row.name == name for row in request.bm.store.allocations):
        raise errors.conflict(f"An allocation with name {name} already exists.")


def patch_allocation(request: Request, ident: str) -> Answer:
    _method_not_allowed(request, versions.ALLOCATION_UPDATE, "updating allocations")
    row = find_allocation(request, ident)
    patch = patching.read(request, ("name", "extra"), name=None)
    for name in patching.values(patch, "/name"):
        _check_name(request, name, "update")
    after = patching.apply({"name": row.name, "extra": row.extra}, patch)
    checks.check_schema("patch", after, _SCHEMA)
    if after.get("name") != row.name:
        _check_name_free(request, after.get("name"))
    request.bm.update(row, name=after.get("name"), extra=after.get("extra") or EMPTY)
    return Answer(body=_render(request, row))


def delete_allocation(request: Request, ident: str) -> Answer:
    _method_not_allowed(request, versions.ALLOCATIONS, "allocations")
    allocating.release(request.bm, find_allocation(request, ident))
    return Answer(204)


def _of_node(request: Request, ident: str, missing: int) -> Allocation:
    request.require(versions.ALLOCATIONS)
    row = request.bm.store.allocation_of(find_node(request, ident, missing=missing))
    if row is None:
        raise errors.not_found(f"Allocation for node {ident} was not found")
    return row


def show_node_allocation(request: Request, ident: str) -> Answer:
    fields = request.arguments({"fields": checks.string_list})["fields"]
    return Answer(body=_render(request, _of_node(request, ident, 400), fields))


def delete_node_allocation(request: Request, ident: str) -> Answer:
    allocating.release(request.bm, _of_node(request, ident, 404))
    return Answer(204)


ROUTES = (
    ("/allocations", {"GET": list_allocations, "POST": create_allocation}),
    (
        "/allocations/<ident>",
        {"GET": show_allocation, "PATCH": patch_allocation, "DELETE": delete_allocation},
    ),
)
NODE_ROUTES = (
    (
        "/nodes/<ident>/allocation",
        {"GET": show_node_allocation, "DELETE": delete_node_allocation},
    ),
)
