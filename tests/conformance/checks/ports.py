# SPDX-License-Identifier: Apache-2.0

"""Ports of nodes, and port groups."""

from tests.conformance.checks.nodes_patch import add, remove, replace
from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IronicUnderTest

MAC = "02:00:00:00:00:01"
OTHER_MAC = "02:00:00:00:00:02"


@check
def _(ironic: IronicUnderTest) -> None:
    """a port is made, shown, listed, changed and deleted"""
    node = ironic.node()
    link = {"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "Ethernet3/1", "switch_info": "switch1"}
    made = {"uuid": ironic.uuid(), "node_uuid": node, "address": "02:00:00:00:00:0A"}
    made |= {"extra": {"a": 1}, "pxe_enabled": False, "local_link_connection": link}
    made |= {"physical_network": "physnet1", "is_smartnic": False, "name": "eth0"}
    assert ironic.post("/v1/ports", made).body["address"] == "02:00:00:00:00:0a"
    answer = ironic.post("/v1/ports", {"node_uuid": node, "address": MAC})
    assert answer.status == 201
    path = f"ports/{answer.body['uuid']}"
    lists = ("ports", "ports/detail", f"nodes/{node}/ports", f"nodes/{node}/ports/detail")
    ironic.get_each("/v1/", path, "ports/eth0", *lists)
    ironic.patch_each(f"/v1/{path}", replace("/address", OTHER_MAC), add("/extra/a", 1))
    assert ironic.delete(f"/v1/{path}").status == 204
    ironic.get(f"/v1/{path}", expect=404)
    ironic.delete(f"/v1/{path}", expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """a port needs a node and a MAC address, which no other port has"""
    node, whole = {"node_uuid": ironic.node()}, {"address": MAC}
    ironic.post_each(
        "/v1/ports",
        *(whole, node, {**whole, "node_uuid": ironic.uuid()}, {**whole, "node_uuid": "n"}),
        *({**whole, **node, "colour": 1}, {**whole, **node, "extra": "x"}),
        *({**node, "address": wrong} for wrong in ("nonsense", "", 5, None, MAC[:-3])),
        *({**node, "address": wrong} for wrong in ("02-00-00-00-00-01", "02:00:00:00:00:0g")),
        expect=400,
    )
    first, second = ironic.port(node["node_uuid"]), ironic.port(ironic.node(), OTHER_MAC)
    ironic.post("/v1/ports", {"node_uuid": ironic.node(), **whole}, expect=409)
    ironic.patch(f"/v1/ports/{second}", replace("/address", MAC), expect=409)
    ironic.get(f"/v1/ports/{first}")


@check
def _(ironic: IronicUnderTest) -> None:
    """ports are found by node, by address and by shard"""
    node, other = ironic.node(name="n", shard="s1"), ironic.node()
    port = ironic.port(node)
    ironic.port(other, OTHER_MAC)
    path = "/v1/ports?"
    for query in (f"node={node}", "node=n", f"node_uuid={node}", f"address={MAC}", "shard=s1"):
        assert [found["uuid"] for found in ironic.get(f"{path}{query}").body["ports"]] == [port]
    ironic.get_each(
        path, f"address={MAC.upper()}", "fields=uuid,address", "detail=true", "limit=1"
    )
    ironic.get(f"{path}sort_key=address&sort_dir=desc")
    ironic.get_each(path, "address=nonsense", "sort_key=extra", expect=400)
    ironic.get_each(path, f"node={ironic.uuid()}", "fields=colour", expect=ANY)
    ironic.get(f"{path}shard=s1", version="1.81", expect=ANY)
    ironic.get(f"/v1/ports/{port}?fields=uuid,node_uuid,internal_info")
    ironic.get_each("/v1/ports/", ironic.uuid(), "nonsense", expect=404)


@check_each("uuid", "node_uuid", "internal_info", "created_at", "colour")
def _(ironic: IronicUnderTest, field: str) -> None:
    """whether {} of a port can be patched"""
    path, field = f"/v1/ports/{ironic.port(ironic.node())}", f"/{field}"
    ironic.patch_each(path, replace(field, ironic.uuid()), remove(field), expect=ANY)


@check_each("available", "manageable", "active")
def _(ironic: IronicUnderTest, state: str) -> None:
    """whether a port is moved to another node by its node_uuid in state {}"""
    node, other = ironic.node(), ironic.node(owner="somebody")
    port = ironic.port(node)
    for uuid in (node, other):
        ironic.set_node(uuid, provision_state=state)
    own, foreign = replace("/node_uuid", node), replace("/node_uuid", other)
    ironic.patch_each(f"/v1/ports/{port}", own, foreign, add("/node_uuid", None), expect=ANY)
    ironic.set_node(other, owner=None)
    ironic.patch_each(f"/v1/ports/{port}", foreign, add("/node_uuid", "n"), expect=ANY)
    ironic.patch(f"/v1/ports/{port}", replace("/node_ident", other), expect=ANY)
    ironic.get_each("/v1/nodes/", f"{node}/ports", f"{other}/ports")


@check_each(
    *("0a:1b:2c:3d:4e:5f", "0A:1B:2C:3D:4E:5F", "aa:bb:cc:dd:ee:ff:00:11", "0a1b2c3d4e5f"),
    *("0a-1b-2c-3d-4e-5f", "sw-1", "0", ""),
)
def _(ironic: IronicUnderTest, switch: str) -> None:
    """whether '{}' is the id of a switch"""
    node = ironic.node_with(provision_state="manageable")
    for number, link in enumerate(
        (
            {"switch_id": switch, "port_id": "1"},
            {"switch_id": switch, "port_id": "1", "hostname": "h"},
            {"switch_id": switch, "network_type": "unmanaged"},
        )
    ):
        made = {"node_uuid": node, "address": f"02:00:00:00:01:0{number}"}
        ironic.post("/v1/ports", {**made, "local_link_connection": link}, expect=ANY)
    path = f"/v1/ports/{ironic.port(node)}"
    link = {"switch_id": switch, "port_id": "1"}
    ironic.patch(path, add("/local_link_connection", link), expect=ANY)
    ironic.patch(path, add("/local_link_connection/switch_id", switch), expect=ANY)
    ironic.get(path)


@check_each("description", "name", "physical_network", "vendor", "category")
def _(ironic: IronicUnderTest, field: str) -> None:
    """which values other than texts a port takes for its {}"""
    node = ironic.node_with(provision_state="manageable")
    port = ironic.port(node)
    for value in (5, 1.5, True, ["a"], {"a": 1}, None):
        ironic.patch(f"/v1/ports/{port}", add(f"/{field}", value), expect=ANY)
        new = {"node_uuid": node, "address": OTHER_MAC, field: value}
        ironic.post("/v1/ports", new, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """ports are not made, changed or deleted while somebody works on the node"""
    node = ironic.node()
    port = ironic.port(node)
    ironic.set_node(node, reservation="conductor-1")
    ironic.post("/v1/ports", {"node_uuid": node, "address": OTHER_MAC}, expect=ANY)
    ironic.patch(f"/v1/ports/{port}", add("/extra/a", 1), expect=409)
    ironic.delete(f"/v1/ports/{port}", expect=409)


@check
def _(ironic: IronicUnderTest) -> None:
    """a port of a node with an instance keeps its address"""
    path = f"/v1/ports/{ironic.port(ironic.active_node(instance_uuid=ironic.uuid()))}"
    changes = (replace("/address", OTHER_MAC), replace("/pxe_enabled", False))
    ironic.patch_each(path, *changes, expect=ANY)
    ironic.delete(path, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """a port group is made, shown, listed, changed and deleted"""
    node = ironic.node()
    made = {"node_uuid": node, "address": MAC, "name": "bond0", "mode": "802.3ad"}
    made |= {"properties": {"miimon": "100"}, "standalone_ports_supported": True}
    answer = ironic.post("/v1/portgroups", made)
    assert answer.status == 201
    group = answer.body["uuid"]
    port, path = ironic.port(node, OTHER_MAC, portgroup_uuid=group), f"/v1/portgroups/{group}"
    ironic.get_each(
        "/v1/",
        *(f"portgroups/{group}", "portgroups/bond0", f"portgroups/{group}/ports", "portgroups"),
        *("portgroups/detail", f"nodes/{node}/portgroups", f"nodes/{node}/portgroups/detail"),
        *(f"ports?portgroup={group}", f"portgroups?node={node}", f"portgroups?address={MAC}"),
    )
    ironic.patch(path, replace("/mode", "balance-rr"))
    ironic.delete(path, expect=400)
    ironic.delete(f"/v1/ports/{port}")
    assert ironic.delete(path).status == 204
    ironic.get(path, expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """a port group, and those of a node, at version 1.23"""
    node = ironic.node()
    with ironic.unrecorded():
        group = ironic.post("/v1/portgroups", {"node_uuid": node}).body["uuid"]
    for path in (f"portgroups/{group}", "portgroups/detail"):
        ironic.get(f"/v1/{path}", version="1.23")
    for path in ("", "/detail"):
        ironic.get(f"/v1/nodes/{node}/portgroups{path}", version="1.23", expect=ANY)
        for version in ("1.23", "1.24"):
            ironic.get(f"/v1/nodes/nothing/portgroups{path}", version=version, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """a port group's name and address are used once, and it needs a node"""
    node = {"node_uuid": ironic.node()}
    ironic.post("/v1/portgroups", {**node, "name": "b", "address": MAC})
    ironic.post_each("/v1/portgroups", {**node, "name": "b"}, {**node, "address": MAC}, expect=409)
    wrong = ({"name": "c"}, {"node_uuid": ironic.uuid()}, {**node, "name": "a b"})
    ironic.post_each("/v1/portgroups", *wrong, expect=400)
    ironic.post("/v1/portgroups", {**node, "mode": "x"}, version="1.25", expect=ANY)
