# SPDX-License-Identifier: Apache-2.0

"""Nodes: listing, showing, creating and deleting them."""

import dataclasses
from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, node_query, paging, states, versions
from ironic_virt.testing.fake_ironic.api import node_schema
from ironic_virt.testing.fake_ironic.api.lookup import find_chassis, find_node
from ironic_virt.testing.fake_ironic.node_view import (
    DEFAULT_FIELDS,
    check_list_fields,
    check_node_fields,
    renderer,
)
from ironic_virt.testing.fake_ironic.records import EMPTY, Node
from ironic_virt.testing.fake_ironic.store import fields_of
from ironic_virt.testing.fake_ironic.web import Answer, Request

_SORTABLE = fields_of(Node) - {
    "operation",
    "boot_device",
    "boot_device_persistent",
    "chassis_uuid",
    "traits",
}


def list_nodes(request: Request, chassis: str | None = None) -> Answer:
    given = request.arguments(
        {
            **node_query.FILTERS,
            **checks.PAGING,
            "fields": checks.string_list,
            "detail": checks.boolean,
        }
    )
    if chassis is not None:
        given["chassis_uuid"] = checks.uuid("chassis_uuid", chassis)
    if given["fields"] is not None:
        request.require(versions.FIELDS, errors.not_acceptable())
        versions.check_fields(given["fields"], versions.NODE_FIELDS, request.minor)
    versions.check_fields([given["sort_key"] or "id"], versions.NODE_FIELDS, request.minor)
    node_query.check_filters(request, given)
    fields, extra = paging.select_fields(request, given, list(DEFAULT_FIELDS))
    return _list(request, given, fields, "nodes", extra)


def list_detail(request: Request) -> Answer:
    given = request.arguments({**node_query.FILTERS, **checks.PAGING})
    node_query.check_filters(request, given)
    versions.check_fields([given["sort_key"] or "id"], versions.NODE_FIELDS, request.minor)
    return _list(request, given, None, "nodes/detail", {})


def _list(
    request: Request,
    given: dict[str, Any],
    fields: list[str] | None,
    resource: str,
    extra: dict[str, Any],
) -> Answer:
    bm = request.bm
    window = paging.Window.requested(request, given)
    paging.check_sortable(window.sort_key, node_query.UNSORTABLE)
    marker = None
    if given["marker"]:
        marker = bm.store.nodes.get(given["marker"])
        if marker is None:
            raise errors.node_not_found(given["marker"])
    if fields:
        check_list_fields(fields)
    paging.check_sort_key(window.sort_key, _SORTABLE)
    if given["chassis_uuid"]:
        find_chassis(request, given["chassis_uuid"])
    nodes = paging.page(
        bm.store.nodes,
        node_query.matcher(given),
        window,
        marker=marker,
        candidates=node_query.candidates(bm.store, given),
        nulls_sort_last=bm.settings.nulls_sort_last,
    )
    if given["conductor"]:
        nodes = [node for node in nodes if bm.conductor_of(node) == given["conductor"]]
    if given["instance_uuid"]:
        window = dataclasses.replace(window, limit=0)
    flags = {key: True for key in ("associated", "maintenance", "retired") if given[key]}
    render = renderer(request, fields)
    return paging.collection(
        request,
        "nodes",
        [render(node) for node in nodes],
        [node.uuid for node in nodes[-1:]],
        window,
        fields=fields,
        resource=resource,
        **flags,
        **extra,
    )


def show_node(request: Request, ident: str) -> Answer:
    given = request.arguments({"fields": checks.string_list})
    return show_only(request, ident, given["fields"])


def show_only(request: Request, ident: str, fields: list[str] | None) -> Answer:
    node = find_node(request, ident)
    if fields is not None:
        request.require(versions.FIELDS, errors.not_acceptable())
        versions.check_fields(fields, versions.NODE_FIELDS, request.minor)
        check_node_fields(fields)
    return Answer(body=renderer(request, fields)(node))


def create_node(request: Request) -> Answer:
    bm = request.bm
    values = request.json()
    if values is None:
        raise errors.ApiError(500, "'NoneType' object has no attribute 'get'")
    node_schema.check(values, "node", node_schema.CREATE)
    if values.get("properties", values) is None:
        raise errors.ApiError(500, "'NoneType' object has no attribute 'get'")
    if values.get("maintenance", values) is None:
        raise errors.ApiError(500, "Field `maintenance' cannot be None")
    values = {
        key: value
        for key, value in values.items()
        if value is not None and (value or key not in ("owner", "resource_class"))
    }
    for field, value in values.items():
        if field == "conductor_group" and value == "":
            continue
        versions.check_fields([field], versions.NODE_FIELDS, request.minor)
    if values.get("owner") and bm.settings.token is None:
        # The fake knows no administrator of more than a project.
        raise errors.invalid(
            "Cannot create a node as a project scoped admin with an owner other than your own"
            " project."
        )
    if "name" in values:
        node_schema.check_name(
            request, values["name"], f"Cannot create node with invalid name '{values['name']}'"
        )
    values["conductor_group"] = values.get("conductor_group", "").lower()
    if values.get("chassis_uuid"):
        find_chassis(request, values["chassis_uuid"], 400)
    bm.check_served(values["driver"], values["conductor_group"], 400)
    if values.get("parent_node"):
        node_schema.find_linked(request, values["parent_node"], values.get("owner"))
    node_schema.check_interfaces(values)
    uuid = values.pop("uuid", None) or bm.new_uuid()
    node_schema.check_properties(uuid, values.get("properties"))
    check_unique(request, uuid, values)
    node = Node(
        id=bm.store.nodes.next_id(),
        uuid=uuid,
        created_at=bm.store.timestamp(),
        **node_schema.default_interfaces(bm.settings),
    )
    for field, value in values.items():
        setattr(node, field, EMPTY if value == {} else value)
    if request.minor < versions.ENROLL:
        node.provision_state = states.AVAILABLE
    bm.store.add_node(node)
    return Answer(201, renderer(request, None)(node), f"nodes/{node.uuid}")


def check_unique(request: Request, uuid: str, values: dict[str, Any]) -> None:
    """Refuse a uuid, name or instance that another node has.

    :raises ApiError: 409.
    """
    store = request.bm.store
    name, instance = values.get("name"), values.get("instance_uuid")
    holder = store.node_by_name(name) if name else None
    if holder is not None and holder.uuid != uuid:
        raise errors.conflict(f"A node with name {name} already exists.")
    holder = store.node_by_instance(instance) if instance else None
    if instance and holder is not None and holder.uuid != uuid:
        raise errors.instance_associated(instance, uuid)
    if "driver" in values and store.nodes.get(uuid) is not None:
        raise errors.conflict(f"A node with UUID {uuid} already exists.")


def delete_node(request: Request, ident: str) -> Answer:
    bm = request.bm
    node = find_node(request, ident)
    bm.acquire(node, unserved=400)
    if node.instance_uuid is not None and not node.maintenance:
        raise errors.node_associated(node.uuid, node.instance_uuid)
    if node.protected:
        raise errors.node_protected(node.uuid)
    if not node.maintenance and node.provision_state not in states.DELETE_ALLOWED:
        raise errors.conflict(
            f'Can not delete node "{node.uuid}" while it is in provision state'
            f' "{node.provision_state}". Valid provision states to perform deletion are:'
            f' "{states.DELETE_ALLOWED}", or set the node into maintenance mode'
        )
    bm.store.remove_node(node)
    return Answer(204)


def name_none(request: Request) -> Answer:
    raise errors.invalid("Missing mandatory parameter: node_ident")


ROUTES = (
    ("/nodes", {"GET": list_nodes, "POST": create_node, "DELETE": name_none, "PATCH": name_none}),
    ("/nodes/detail", {"GET": list_detail}),
)
NODE_ROUTES = (("/nodes/<ident>", {"GET": show_node, "DELETE": delete_node}),)
