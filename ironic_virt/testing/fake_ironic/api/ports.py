# SPDX-License-Identifier: Apache-2.0

"""Ports, at ``/v1/ports`` and below nodes and port groups."""

from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, network, paging, patching, states
from ironic_virt.testing.fake_ironic import versions as v
from ironic_virt.testing.fake_ironic.api import port_schema
from ironic_virt.testing.fake_ironic.api.lookup import (
    find_node,
    find_parent,
    find_port,
    find_portgroup,
)
from ironic_virt.testing.fake_ironic.api.node_schema import find_linked
from ironic_virt.testing.fake_ironic.baremetal import Baremetal
from ironic_virt.testing.fake_ironic.records import EMPTY, Node, Port, Portgroup
from ironic_virt.testing.fake_ironic.web import Answer, Request

_FIELDS = (
    "uuid",
    "created_at",
    "updated_at",
    "address",
    "extra",
    "internal_info",
    "is_smartnic",
    "local_link_connection",
    "physical_network",
    "pxe_enabled",
    "node_uuid",
    "name",
    "description",
    "vendor",
    "category",
    "available_for_dynamic_portgroup",
    "portgroup_uuid",
)
_DEFAULT = ["uuid", "address"]

_UNSORTABLE = ("extra", "internal_info", "local_link_connection")


def _render(request: Request, port: Port, fields: list[str] | None = None) -> dict[str, Any]:
    names = [
        name
        for name in _FIELDS
        if v.PORT_FIELDS.get(name, 0) <= request.minor and (fields is None or name in fields)
    ]
    body = {name: getattr(port, name) for name in names}
    body["links"] = request.links("ports", port.uuid)
    return body


def _check_fields(request: Request, fields: list[str] | None) -> None:
    if fields is None:
        return
    v.check_fields(fields, v.PORT_FIELDS, request.minor)
    unknown = [field for field in fields if field not in _FIELDS and field != "links"]
    if unknown:
        raise errors.invalid(f'Field(s) "{", ".join(unknown)}" are not valid')


_LIST: dict[str, checks.Parser] = {
    "node": checks.uuid_or_name,
    "node_uuid": checks.uuid,
    "address": checks.mac_address,
    "portgroup": checks.uuid_or_name,
    "shard": checks.string_list,
    "description_contains": checks.string,
    "conductor_groups": checks.string_list,
    **checks.PAGING,
}


def list_ports(request: Request, ident: str | None = None, group: str | None = None) -> Answer:
    given = request.arguments({**_LIST, "fields": checks.string_list, "detail": checks.boolean})
    if given["fields"] is not None:
        v.check_fields(given["fields"], v.PORT_FIELDS, request.minor)
    fields, extra = paging.select_fields(request, given, _DEFAULT)
    return _list(request, given, fields, "ports", extra, ident, group)


def list_detail(request: Request) -> Answer:
    return _list(request, request.arguments(_LIST), None, "ports/detail", {}, None, None)


def _rows(
    request: Request, given: dict[str, Any], ident: str | None, group: str | None
) -> list[Port] | None:
    """The ports of the node, group, address or shards that are asked for; None for all."""
    store = request.bm.store
    node_ident = ident or given["node_uuid"] or given["node"]
    group_ident = group or given["portgroup"]
    if sum(1 for item in (node_ident, group_ident, given["shard"]) if item) > 1:
        raise errors.ApiError(403, "Operation not permitted.")
    if group_ident:
        portgroup = find_portgroup(request, group_ident)
        return [port for port in store.ports_of(portgroup.node) if port.portgroup is portgroup]
    if ident:
        return store.ports_of(find_parent(request, ident))
    if node_ident:
        return store.ports_of(find_node(request, node_ident))
    if given["address"]:
        return [port for port in store.ports if port.address == given["address"]]
    if given["shard"]:
        return [port for port in store.ports if port.node.shard in given["shard"]]
    return None


def _list(
    request: Request,
    given: dict[str, Any],
    fields: list[str] | None,
    resource: str,
    extra: dict[str, Any],
    ident: str | None,
    group: str | None,
) -> Answer:
    if given["portgroup"] and request.minor < v.PORTGROUPS_OF_NODE:
        raise errors.not_acceptable()
    if given["shard"] is not None and request.minor < v.SHARD:
        raise errors.needs_version(v.SHARD)
    window = paging.Window.requested(request, given)
    marker = find_port(request, given["marker"]) if given["marker"] else None
    paging.check_sortable(window.sort_key, _UNSORTABLE)
    v.check_fields([window.sort_key], v.PORT_FIELDS, request.minor)
    paging.check_sorts_by_node(window.sort_key)
    paging.check_sort_key(window.sort_key, (*_FIELDS, "id"))
    text = given["description_contains"]
    rows = paging.page(
        request.bm.store.ports,
        (lambda port: text in (port.description or "")) if text else None,
        window,
        marker=marker,
        candidates=_rows(request, given, ident, group),
    )
    if rows:
        _check_fields(request, fields)
    return paging.collection(
        request,
        "ports",
        [_render(request, row, fields) for row in rows],
        [row.uuid for row in rows],
        window,
        fields=fields,
        resource=resource,
        **extra,
    )


def list_of_portgroup(request: Request, group: str) -> Answer:
    request.require(v.PORTGROUPS_OF_NODE)
    if request.bm.store.portgroups.get(group) is None:
        # Ironic 39.0.0 finds it here by its uuid only.
        raise errors.not_found(f"Portgroup {group} could not be found.")
    return list_ports(request, None, group)


def detail_of_node(request: Request, ident: str) -> Answer:
    return _list(request, request.arguments(_LIST), None, "ports/detail", {}, ident, None)


def show_port(request: Request, port_ident: str) -> Answer:
    checks.uuid_or_name("port_ident", port_ident)
    fields = request.arguments({"fields": checks.string_list})["fields"]
    port = find_port(request, port_ident)
    _check_fields(request, fields)
    return Answer(body=_render(request, port, fields))


def _taken(address: str) -> errors.ApiError:
    return errors.conflict(f"A port with MAC address {address} already exists.")


def _check_free(request: Request, port_uuid: str, values: dict[str, Any]) -> None:
    """Refuse a MAC address or name that another port has."""
    for row in request.bm.store.ports:
        if row.uuid == port_uuid:
            continue
        if values.get("address") and row.address == values["address"]:
            raise _taken(values["address"])
        if values.get("name") and row.name == values["name"]:
            # Ironic 39.0.0 blames the uuid.
            raise errors.conflict(f"A port with UUID {port_uuid} already exists.")


def _portgroup(request: Request, node: Node, uuid: str | None) -> Portgroup | None:
    if not uuid:
        return None
    group = find_portgroup(request, uuid, missing=400)
    if group.node is not node:
        raise errors.invalid("Port can not be added to a portgroup belonging to a different node.")
    return group


def create_port(request: Request) -> Answer:
    bm = request.bm
    values = request.json()
    checks.check_schema("port", values, port_schema.SCHEMA)
    port_schema.parse(values)
    if values.get("node_ident") and request.minor < v.PORT_NODE_NAME:
        raise errors.not_acceptable()
    ident = values.pop("node_ident", None) or values.pop("node_uuid", None)
    node = find_node(request, ident, missing=400)
    v.check_fields(values, v.PORT_FIELDS, request.minor)
    group = _portgroup(request, node, values.pop("portgroup_uuid", None))
    if values.get("physical_network") == "":
        raise errors.invalid("A non-empty value is required when setting physical_network")
    if group is not None and values.get("pxe_enabled") and not group.standalone_ports_supported:
        raise errors.conflict(
            f"Port group {group.uuid} doesn't support standalone ports. This port cannot be"
            " created as a member of that portgroup as the port's 'pxe_enabled' field was set to"
            " True."
        )
    uuid = values.pop("uuid", None) or bm.new_uuid()
    if bm.store.ports.get(uuid) is not None:
        raise errors.conflict(f"A port with UUID {uuid} already exists.")
    _check_physical_network(bm, group, None, values.get("physical_network"))
    _check_free(request, uuid, values)
    port = Port(
        id=bm.store.ports.next_id(),
        uuid=uuid,
        created_at=bm.store.timestamp(),
        node=node,
        portgroup=group,
        **{key: value for key, value in values.items() if value is not None},
    )
    bm.store.add_port(port)
    return Answer(201, _render(request, port), f"ports/{port.uuid}")


def _check_physical_network(
    bm: Baremetal, group: Portgroup | None, port: Port | None, network: str | None
) -> None:
    """Check that all ports of a port group are in one physical network.

    :raises ApiError: 409.
    """
    if group is None:
        return
    others = [member for member in bm.store.ports_of(group.node) if member.portgroup is group]
    networks = {member.physical_network for member in others if member is not port}
    if not networks and group.physical_network is None:
        if network is not None:
            bm.update(group, physical_network=network)
        return
    if network not in (networks or {group.physical_network}):
        current = min(map(str, networks)) if networks else group.physical_network
        raise errors.conflict(
            f"Port with physical network {network} cannot become a member of port group"
            f" {group.uuid} which has ports in physical network {current}."
        )


#: Changing these needs a node that is not in use.
_CONNECTIVITY = ("portgroup_uuid", "pxe_enabled", "local_link_connection", "physical_network")
_FREE_STATES = (states.ENROLL, states.INSPECTING, states.INSPECTWAIT, states.MANAGEABLE)


def patch_port(request: Request, port_ident: str) -> Answer:
    checks.uuid_or_name("port_ident", port_ident)
    patch = patching.read(request, port_schema.PATCHABLE)
    for field in ("pxe_enabled", "local_link_connection", "portgroup_uuid", "physical_network"):
        if patching.touches(patch, field):
            v.check_fields([field], v.PORT_FIELDS, request.minor)
    port = find_port(request, port_ident)
    node = port.node
    for ident in patching.values(patch, "/node_uuid"):
        node = find_linked(request, ident, node.owner, "node_uuid")
    before = {
        name: getattr(port, name)
        for name in port_schema.SCHEMA["properties"]
        if name != "node_ident"
    }
    after = patching.apply(before, patch)
    after["node_uuid"] = node.uuid
    checks.check_schema("patch", after, port_schema.SCHEMA)
    port_schema.parse(after)
    changes: dict[str, Any] = {
        name: (EMPTY if after.get(name) is None and isinstance(old, dict) else after.get(name))
        for name, old in before.items()
        if after.get(name) != old and name != "node_uuid"
    }
    if node.provision_state == states.INSPECTING and request.minor >= v.INSPECT_WAIT:
        raise errors.conflict(
            f'Cannot update port "{port.uuid}" on "{node.uuid}" while it is in state'
            f' "{states.INSPECTING}".'
        )
    if changes.get("physical_network") == "":
        raise errors.invalid("A non-empty value is required when setting physical_network")
    if (
        patching.touches(patch, "physical_network")
        and after.get("portgroup_uuid")
        and request.minor >= v.PORTGROUP_PHYSICAL_NETWORK
    ):
        raise errors.invalid(
            "physical_network cannot be changed while the port belongs to a portgroup."
        )
    _check_changes(request, port, node, changes)
    if node is not port.node:
        # Ironic 39.0.0 tries to write the other node's row again, and takes its database's
        # refusal for one of the port's address.
        if "address" in changes:
            raise _taken(changes["address"])
        raise errors.ApiError(500, "'address'")
    if changes.keys() & {"portgroup_uuid", "physical_network"}:
        changes.pop("portgroup_uuid", None)
        group = _portgroup(request, port.node, after.get("portgroup_uuid"))
        _check_physical_network(request.bm, group, port, after.get("physical_network"))
        changes["portgroup"] = group
    _check_free(request, port.uuid, changes)
    if changes:
        request.bm.update(port, **changes)
    return Answer(body=_render(request, port))


def _check_changes(request: Request, port: Port, node: Node, changes: dict[str, Any]) -> None:
    request.bm.acquire(node)
    in_use = node.provision_state == states.ACTIVE or node.instance_uuid
    if in_use and "address" in changes and not node.maintenance:
        raise errors.conflict(
            f"Cannot update hardware address for port {port.uuid} as node {node.uuid} is active or"
            " has instance UUID assigned"
        )
    if node.maintenance or node.provision_state in _FREE_STATES:
        return
    if any(name in changes for name in _CONNECTIVITY):
        names = [name.replace("portgroup_uuid", "portgroup_id") for name in _CONNECTIVITY]
        raise errors.conflict(
            f"Port {port.uuid} can not have any connectivity attributes ({', '.join(names)})"
            f" updated unless node {node.uuid} is in a {', '.join(_FREE_STATES)} state or in"
            f" maintenance mode. The current state is {node.provision_state}."
        )


def delete_none(request: Request) -> Answer:
    raise errors.invalid("Missing mandatory parameter: port_uuid")


def delete_port(request: Request, port_ident: str) -> Answer:
    checks.uuid("port_uuid", port_ident)
    port = find_port(request, port_ident)
    request.bm.acquire(port.node)
    vif = network.vif_of(port)
    if vif and not port.node.maintenance:
        raise errors.conflict(
            f"Cannot delete the port {port.uuid} as it is bound to VIF {vif} for use."
        )
    request.bm.store.remove_port(port)
    return Answer(204)


ROUTES = (
    ("/ports", {"GET": list_ports, "POST": create_port, "DELETE": delete_none}),
    ("/ports/detail", {"GET": list_detail}),
    (
        "/ports/<port_ident>",
        {"GET": show_port, "PATCH": patch_port, "DELETE": delete_port},
    ),
)
NODE_ROUTES = (
    ("/nodes/<ident>/ports", {"GET": list_ports}),
    ("/nodes/<ident>/ports/detail", {"GET": detail_of_node}),
    ("/portgroups/<group>/ports", {"GET": list_of_portgroup}),
)
