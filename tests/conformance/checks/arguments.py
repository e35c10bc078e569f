# SPDX-License-Identifier: Apache-2.0

"""Arguments in the query that a request does not have, and values that are empty."""

from typing import Any

from tests.conformance.checks.nodes_patch import add, remove, replace
from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IronicUnderTest

MAC = "02:00:00:00:00:01"
VIF = "11111111-2222-4333-8444-555555555555"

# The pages of a node that are asked for; then method, path, body.
PAGES = (
    *("", "/states", "/states/console", "/vifs", "/traits", "/validate", "/history", "/inventory"),
    *("/children", "/ports", "/portgroups", "/volume", "/volume/targets", "/allocation", "/bios"),
    *("/firmware", "/management/boot_device", "/management/boot_device/supported"),
)
GOT = (
    *("/", "/v1", *(f"/v1/nodes/{{node}}{page}" for page in PAGES), "/v1/ports/{port}"),
    *("/v1/portgroups", "/v1/volume", "/v1/volume/connectors", "/v1/conductors/conductor-1"),
    *("/v1/drivers", "/v1/drivers/fake-hardware"),
)
DELETED = (
    *("nodes/{node}/maintenance", "nodes/{node}/traits", "nodes/{node}/traits/CUSTOM_B"),
    *(f"nodes/{{node}}/vifs/{VIF}", "ports/{port}", "portgroups/{group}", "allocations/{node}"),
    *("volume/targets/{node}", "nodes/{node}"),
)
ASKED: tuple[tuple[str, str, Any], ...] = (
    *(("GET", path, None) for path in GOT),
    ("POST", "/v1/nodes", {"driver": "fake-hardware"}),
    ("POST", "/v1/ports", {"node_uuid": "{node}", "address": "02:00:00:00:00:02"}),
    ("POST", "/v1/portgroups", {"node_uuid": "{node}"}),
    ("POST", "/v1/allocations", {"resource_class": "x"}),
    ("POST", "/v1/nodes/{node}/vifs", {"id": VIF}),
    ("PATCH", "/v1/nodes/{node}", [add("/extra/a", 1)]),
    ("PATCH", "/v1/ports/{port}", [add("/extra/a", 1)]),
    ("PUT", "/v1/nodes/{node}/states/power", {"target": "power on"}),
    ("PUT", "/v1/nodes/{node}/states/provision", {"target": "manage"}),
    ("PUT", "/v1/nodes/{node}/states/console", {"enabled": False}),
    ("PUT", "/v1/nodes/{node}/states/boot_mode", {"target": "uefi"}),
    ("PUT", "/v1/nodes/{node}/states/secure_boot", {"target": True}),
    ("PUT", "/v1/nodes/{node}/traits", {"traits": []}),
    ("PUT", "/v1/nodes/{node}/traits/CUSTOM_A", None),
    ("PUT", "/v1/nodes/{node}/maintenance", {"reason": "x"}),
    ("PUT", "/v1/nodes/{node}/management/boot_device", {"boot_device": "pxe"}),
    *(("DELETE", f"/v1/{path}", None) for path in DELETED),
)


@check_each(*((f"{method} {path}", method, path, body) for method, path, body in ASKED))
def _(ironic: IronicUnderTest, what: str, method: str, path: str, body: Any) -> None:
    """what {} says to an argument that it does not have"""
    node = ironic.node(traits=["CUSTOM_B"])
    port = ironic.port(node, MAC)
    with ironic.unrecorded():
        group = ironic.post("/v1/portgroups", {"node_uuid": node, "name": "g"}).body["uuid"]
    if isinstance(body, dict) and "node_uuid" in body:
        body = body | {"node_uuid": node}
    path = path.format(node=node, port=port, group=group)
    ironic.request(method, f"{path}?colour=red", body, expect=ANY)
    ironic.get_each("/v1/", f"nodes/{node}", "ports", expect=ANY)


@check_each(*DELETED)
def _(ironic: IronicUnderTest, path: str) -> None:
    """what becomes of {} when it is deleted with a body"""
    for number, body in enumerate(({}, [], {"colour": "red"}, [add("/extra/a", 1)], "text")):
        node = ironic.node(traits=["CUSTOM_B"])
        port = ironic.port(node, f"02:00:00:00:00:0{number}")
        with ironic.unrecorded():
            group = ironic.post("/v1/portgroups", {"node_uuid": node}).body["uuid"]
        ironic.delete(
            f"/v1/{path.format(node=node, port=port, group=group)}", body=body, expect=ANY
        )
        ironic.get_each("/v1/", f"nodes/{node}", f"nodes/{node}/ports", expect=ANY)


NODE_FIELDS = (
    *("name", "instance_uuid", "owner", "lessee", "resource_class", "conductor_group", "shard"),
    *("description", "parent_node", "chassis_uuid", "driver", "properties", "extra"),
    *("driver_info", "instance_info", "network_data", "automated_clean", "maintenance"),
    *("retired", "retired_reason", "protected_reason", "network_interface", "power_interface"),
    *("instance_name", "disable_power_off", "bios_interface", "uuid"),
)


@check_each(*NODE_FIELDS)
def _(ironic: IronicUnderTest, field: str) -> None:
    """a node whose {} is null or empty"""
    node = ironic.node()
    for value in (None, "", {}, " "):
        ironic.patch(f"/v1/nodes/{node}", replace(f"/{field}", value), expect=ANY)
        values = {"uuid": ironic.uuid(), "driver": "fake-hardware", field: value}
        ironic.post("/v1/nodes", values, expect=ANY)


@check_each(
    *("instance_uuid", "provision_state", "driver", "resource_class", "fault", "owner", "lessee"),
    *("conductor_group", "conductor", "project", "description_contains", "shard", "parent_node"),
    *("chassis_uuid", "associated", "maintenance", "sharded", "marker", "limit", "sort_key"),
    *("sort_dir", "fields", "detail", "instance_name", "include_children", "retired"),
)
def _(ironic: IronicUnderTest, name: str) -> None:
    """a list of nodes whose argument {} is empty"""
    ironic.node(owner="o", shard="s")
    ironic.get_each(f"/v1/nodes?{name}=", "", f"&{name}=", expect=ANY)


@check_each("node", "node_uuid", "address", "portgroup", "shard", "marker", "sort_key", "fields")
def _(ironic: IronicUnderTest, name: str) -> None:
    """a list of ports whose argument {} is empty"""
    ironic.port(ironic.node())
    ironic.get(f"/v1/ports?{name}=", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """what belongs to nodes is not sorted by them"""
    for kind in ("volume/connectors", "volume/targets", "allocations"):
        ironic.get(f"/v1/{kind}?sort_key=node_uuid", expect=400)
    with ironic.unrecorded():
        # In the words of its database.
        for kind in ("ports", "portgroups"):
            ironic.get(f"/v1/{kind}?sort_key=node_uuid&sort_dir=desc", expect=500)


@check_each("deploy", "management", "bios", "raid", "power", "firmware", "vendor")
def _(ironic: IronicUnderTest, interface: str) -> None:
    """servicing with a step that {} does not have fails"""
    node = ironic.active_node()
    ironic.provision(node, "service", service_steps=[{"interface": interface, "step": "no"}])
    assert ironic.get(f"/v1/nodes/{node}").body["provision_state"] == "service failed"


@check
def _(ironic: IronicUnderTest) -> None:
    """a port is not patched by its MAC address"""
    ironic.port(ironic.node(), MAC)
    for name in (MAC, "malformed:uuid", "unknown"):
        ironic.patch(f"/v1/ports/{name}", add("/extra/a", 1), expect=ANY)
        ironic.get(f"/v1/ports/{name}", expect=ANY)
        ironic.delete(f"/v1/ports/{name}", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """the ports of a port group have one physical network"""
    node = ironic.node()
    with ironic.unrecorded():
        group = ironic.post("/v1/portgroups", {"node_uuid": node, "name": "g"}).body["uuid"]
    port = ironic.port(node, MAC, portgroup_uuid=group, physical_network="a")
    new = {"node_uuid": node, "address": "02:00:00:00:00:02", "portgroup_uuid": group}
    ironic.post_each("/v1/ports", {**new, "physical_network": "b"}, new, expect=ANY)
    second = ironic.port(node, "02:00:00:00:00:03", physical_network="b")
    for state in ("available", "manageable"):
        ironic.set_node(node, provision_state=state)
        ironic.patch(f"/v1/ports/{second}", add("/portgroup_uuid", group), expect=ANY)
    third = ironic.port(node, "02:00:00:00:00:04", physical_network="a", portgroup_uuid=group)
    other, none = replace("/physical_network", "b"), remove("/physical_network")
    ironic.patch_each(f"/v1/ports/{third}", other, none, expect=ANY)
    ironic.delete(f"/v1/ports/{third}")
    ironic.patch(f"/v1/ports/{port}", other, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """the old way to a console leads there too"""
    node = ironic.node()
    for version in ("1.1", "1.115"):
        for path in (f"{node}/states/console", f"states/console/{node}"):
            ironic.get(f"/v1/nodes/{path}", version=version)
        ironic.get("/v1/nodes/states/console/nothing", version=version, expect=404)
