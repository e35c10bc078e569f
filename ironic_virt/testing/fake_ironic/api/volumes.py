# SPDX-License-Identifier: Apache-2.0

"""Volume connectors and volume targets, which differ by a table only."""

import dataclasses
from typing import Any

from oslo_utils import strutils

from ironic_virt.testing.fake_ironic import checks, errors, paging, patching, states
from ironic_virt.testing.fake_ironic import versions as v
from ironic_virt.testing.fake_ironic.api.lookup import find_node
from ironic_virt.testing.fake_ironic.records import EMPTY, Node, VolumeConnector, VolumeTarget
from ironic_virt.testing.fake_ironic.store import Store, Table
from ironic_virt.testing.fake_ironic.web import Answer, Request

_OBJECT = {"type": ["object", "null"]}
_COMMON = {
    "extra": _OBJECT,
    "node_uuid": {"type": "string"},
    "uuid": {"type": ["string", "null"]},
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Kind:
    """What makes connectors and targets differ.

    :ivar unique: the fields that no two rows (of a node, if ``per_node``) share.
    """

    plural: str
    word: str
    argument: str
    record: type[Any]
    own: dict[str, Any]
    default: list[str]
    unsortable: tuple[str, ...]
    patchable: tuple[str, ...]
    unique: tuple[str, ...]
    per_node: bool
    duplicate: str

    @property
    def fields(self) -> tuple[str, ...]:
        return ("uuid", "created_at", "updated_at", "node_uuid", "extra", *self.own)

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {**self.own, **_COMMON},
            "required": sorted([*self.unique, "node_uuid", *_ALSO_REQUIRED[self.plural]]),
            "additionalProperties": False,
        }

    def table(self, store: Store) -> Table[Any]:
        return store.connectors if self.plural == "connectors" else store.targets


_ALSO_REQUIRED: dict[str, tuple[str, ...]] = {
    "connectors": (),
    "targets": ("volume_id", "volume_type"),
}

_CONNECTOR = _Kind(
    plural="connectors",
    word="connector",
    argument="connector_uuid",
    record=VolumeConnector,
    own={"connector_id": {"type": "string"}, "type": {"type": "string"}},
    default=["uuid", "node_uuid", "type", "connector_id"],
    unsortable=("extra",),
    patchable=("connector_id", "extra", "node_uuid", "type"),
    unique=("connector_id", "type"),
    per_node=False,
    duplicate="A volume connector with type {type} and connector ID {connector_id} already"
    " exists.",
)
_TARGET = _Kind(
    plural="targets",
    word="target",
    argument="target_uuid",
    record=VolumeTarget,
    own={
        "boot_index": {"type": "integer"},
        "properties": _OBJECT,
        "volume_id": {"type": "string"},
        "volume_type": {"type": "string"},
    },
    default=["uuid", "node_uuid", "volume_type", "boot_index", "volume_id"],
    unsortable=("extra", "properties"),
    patchable=("boot_index", "extra", "node_uuid", "properties", "volume_id", "volume_type"),
    unique=("boot_index",),
    per_node=True,
    duplicate="A volume target with boot index '{boot_index}' for the same node already exists.",
)
_SCHEMAS = {kind.plural: kind.schema for kind in (_CONNECTOR, _TARGET)}
_KINDS = {kind.plural: kind for kind in (_CONNECTOR, _TARGET)}


def _kind(request: Request, name: str) -> _Kind:
    request.require(v.VOLUME)
    if name not in _KINDS:
        raise errors.RoutingError(404)
    return _KINDS[name]


def _render(
    request: Request, kind: _Kind, row: Any, fields: list[str] | None = None
) -> dict[str, Any]:
    body = {name: getattr(row, name) for name in kind.fields if fields is None or name in fields}
    if body.get("properties"):
        body["properties"] = strutils.mask_dict_password(body["properties"], "******")
    body["links"] = request.links(f"volume/{kind.plural}", row.uuid)
    return body


def _check_fields(kind: _Kind, fields: list[str] | None) -> None:
    checks.check_selection(fields, (*kind.fields, "links"))


def _find(request: Request, kind: _Kind, uuid: str) -> Any:
    checks.uuid(kind.argument, uuid)
    row = kind.table(request.bm.store).get(uuid)
    if row is None:
        raise errors.not_found(f"Volume {kind.word} {uuid} could not be found.")
    return row


def show_volume(request: Request, ident: str | None = None) -> Answer:
    request.require(v.VOLUME, errors.not_found("The API is not supported for this version"))
    resource, prefix = ("nodes", f"{ident}/volume/") if ident else ("volume", "")
    body = {"links": request.links(resource, prefix)}
    for plural in _KINDS:
        body[plural] = request.links(resource, prefix + plural)
    return Answer(body=body)


def list_volumes(request: Request, kind_name: str, ident: str | None = None) -> Answer:
    kind = _kind(request, kind_name)
    given = request.arguments(
        {
            "node": checks.uuid_or_name,
            **checks.PAGING,
            "fields": checks.string_list,
            "detail": checks.boolean,
        }
    )
    fields, detail = given["fields"], given["detail"]
    _check_fields(kind, fields)
    if fields is None and not detail:
        fields = kind.default
    if fields and detail:
        raise errors.invalid("Can't fetch a subset of fields with 'detail' set")
    window = paging.Window.requested(request, given)
    marker = _find(request, kind, given["marker"]) if given["marker"] else None
    paging.check_sortable(window.sort_key, kind.unsortable)
    paging.check_sort_key(window.sort_key, {*kind.fields, "id"} - {"node_uuid"})
    node = find_node(request, given["node"]) if given["node"] else None
    if ident:
        node = request.bm.store.nodes.get(ident)
        if node is None:
            raise errors.node_not_found(ident)
    rows = paging.page(
        kind.table(request.bm.store),
        None if node is None else (lambda row: row.node is node),
        window,
        marker=marker,
    )
    extra = {"detail": detail} if detail else {}
    return paging.collection(
        request,
        kind.plural,
        [_render(request, kind, row, fields) for row in rows],
        [row.uuid for row in rows],
        window,
        fields=fields,
        resource=f"volume/{kind.plural}",
        **extra,
    )


def list_of_node(request: Request, ident: str, kind_name: str) -> Answer:
    return list_volumes(request, kind_name, ident)


def show_one(request: Request, kind_name: str, uuid: str) -> Answer:
    kind = _kind(request, kind_name)
    fields = request.arguments({"fields": checks.string_list})["fields"]
    row = _find(request, kind, uuid)
    _check_fields(kind, fields)
    return Answer(body=_render(request, kind, row, fields))


def _check_free(
    request: Request, kind: _Kind, uuid: str | None, node: Node, values: dict[str, Any]
) -> None:
    for row in kind.table(request.bm.store):
        if row.uuid == uuid or (kind.per_node and row.node is not node):
            continue
        if all(getattr(row, name) == values[name] for name in kind.unique):
            raise errors.conflict(kind.duplicate.format(**values))


def create(request: Request, kind_name: str) -> Answer:
    kind = _kind(request, kind_name)
    bm = request.bm
    values = request.json()
    checks.check_schema(kind.word, values, _SCHEMAS[kind.plural])
    for name in ("node_uuid", "uuid"):
        checks.uuid(name, values.get(name))
    node_uuid = values.pop("node_uuid")
    node = bm.store.nodes.get(node_uuid)
    if node is None:
        raise errors.invalid(
            f"Invalid input for field/attribute node_uuid. Value: '{node_uuid}'. "
        )
    uuid = values.pop("uuid", None) or bm.new_uuid()
    table = kind.table(bm.store)
    # The database checks the keys in this order, also for a row with the same uuid.
    _check_free(request, kind, None, node, values)
    if table.get(uuid) is not None:
        raise errors.conflict(f"A volume {kind.word} with UUID {uuid} already exists.")
    row = kind.record(
        id=table.next_id(),
        uuid=uuid,
        created_at=bm.store.timestamp(),
        node=node,
        **{key: EMPTY if value is None else value for key, value in values.items()},
    )
    table.add(row)
    return Answer(201, _render(request, kind, row), f"volume/{kind.plural}/{row.uuid}")


def patch(request: Request, kind_name: str, uuid: str) -> Answer:
    kind = _kind(request, kind_name)
    row = _find(request, kind, uuid)
    operations = patching.read(request, kind.patchable)
    before = {name: getattr(row, name) for name in (*kind.own, "extra", "node_uuid")}
    after = patching.apply(before, operations)
    checks.check_schema("patch", after, _SCHEMAS[kind.plural])
    node = row.node
    request.bm.acquire(node)
    if node.power_state != states.POWER_OFF:
        raise errors.state_not_allowed(f"volume {kind.word} update", node.uuid, node.power_state)
    _check_free(request, kind, row.uuid, node, after)
    values = {name: after.get(name) for name in before if name != "node_uuid"}
    for name in ("extra", "properties"):
        if name in values and values[name] is None:
            values[name] = EMPTY
    request.bm.update(row, **values)
    return Answer(body=_render(request, kind, row))


def delete(request: Request, kind_name: str, uuid: str) -> Answer:
    kind = _kind(request, kind_name)
    row = _find(request, kind, uuid)
    node = row.node
    request.bm.acquire(node)
    safe = (states.MANAGEABLE, states.ENROLL, states.ADOPTFAIL)
    if node.provision_state not in safe and node.power_state != states.POWER_OFF:
        raise errors.state_not_allowed(f"volume {kind.word} deletion", node.uuid, node.power_state)
    kind.table(request.bm.store).remove(row)
    return Answer(204)


ROUTES = (
    ("/volume", {"GET": show_volume}),
    ("/volume/<kind_name>", {"GET": list_volumes, "POST": create}),
    ("/volume/<kind_name>/<uuid>", {"GET": show_one, "PATCH": patch, "DELETE": delete}),
)
NODE_ROUTES = (
    ("/nodes/<ident>/volume", {"GET": show_volume}),
    ("/nodes/<ident>/volume/<kind_name>", {"GET": list_of_node}),
)
