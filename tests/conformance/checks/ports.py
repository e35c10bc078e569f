# SPDX-License-Identifier: Apache-2.0

"""Ports of nodes, and port groups."""

from typing import Any

from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IronicUnderTest

MAC = "02:00:00:00:00:01"
OTHER_MAC = "02:00:00:00:00:02"


@check
def _(ironic: IronicUnderTest) -> None:
    """a port is made, shown, listed, changed and deleted"""
    node = ironic.node()
    answer = ironic.post("/v1/ports", {"node_uuid": node, "address": MAC})
    assert answer.status == 201
    port = answer.body["uuid"]
    ironic.get(f"/v1/ports/{port}")
    ironic.get("/v1/ports")
    ironic.get("/v1/ports/detail")
    ironic.get(f"/v1/nodes/{node}/ports")
    ironic.get(f"/v1/nodes/{node}/ports/detail")
    ironic.patch(f"/v1/ports/{port}", {"op": "replace", "path": "/address", "value": OTHER_MAC})
    ironic.patch(f"/v1/ports/{port}", {"op": "add", "path": "/extra/a", "value": 1})
    assert ironic.delete(f"/v1/ports/{port}").status == 204
    ironic.get(f"/v1/ports/{port}", expect=404)
    ironic.delete(f"/v1/ports/{port}", expect=404)


@check_each(1, 18, 19, 23, 24, 34, 53, 69, 88, 97, 109, 115)
def _(ironic: IronicUnderTest, minor: int) -> None:
    """a port at version 1.{} has the fields of that version"""
    node = ironic.node()
    port = ironic.port(node)
    ironic.get(f"/v1/ports/{port}", version=f"1.{minor}")
    ironic.get("/v1/ports", version=f"1.{minor}")
    ironic.get("/v1/ports/detail", version=f"1.{minor}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a port has what it was made with"""
    node = ironic.node()
    body = ironic.post(
        "/v1/ports",
        {
            "uuid": ironic.uuid(),
            "node_uuid": node,
            "address": "02:00:00:00:00:0A",
            "extra": {"a": 1},
            "pxe_enabled": False,
            "local_link_connection": {
                "switch_id": "0a:1b:2c:3d:4e:5f",
                "port_id": "Ethernet3/1",
                "switch_info": "switch1",
            },
            "physical_network": "physnet1",
            "is_smartnic": False,
            "name": "eth0",
        },
    ).body
    assert body["address"] == "02:00:00:00:00:0a"
    ironic.get("/v1/ports/eth0")


@check
def _(ironic: IronicUnderTest) -> None:
    """a MAC address is used once"""
    node, other = ironic.node(), ironic.node()
    ironic.port(node)
    ironic.post("/v1/ports", {"node_uuid": other, "address": MAC}, expect=409)
    port = ironic.port(other, OTHER_MAC)
    ironic.patch(
        f"/v1/ports/{port}", {"op": "replace", "path": "/address", "value": MAC}, expect=409
    )


@check_each("nonsense", "02:00:00:00:00", "02-00-00-00-00-01", "", 5, None, "02:00:00:00:00:0g")
def _(ironic: IronicUnderTest, address: Any) -> None:
    """'{}' is no MAC address"""
    node = ironic.node()
    ironic.post("/v1/ports", {"node_uuid": node, "address": address}, expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """a port needs a node and an address"""
    node = ironic.node()
    ironic.post("/v1/ports", {"address": MAC}, expect=400)
    ironic.post("/v1/ports", {"node_uuid": node}, expect=400)
    ironic.post("/v1/ports", {"node_uuid": ironic.uuid(), "address": MAC}, expect=400)
    ironic.post("/v1/ports", {"node_uuid": "n", "address": MAC}, expect=400)
    ironic.post("/v1/ports", {"node_uuid": node, "address": MAC, "colour": 1}, expect=400)
    ironic.post("/v1/ports", {"node_uuid": node, "address": MAC, "extra": "x"}, expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """ports are found by node, by address and by shard"""
    node, other = ironic.node(name="n", shard="s1"), ironic.node()
    port = ironic.port(node)
    ironic.port(other, OTHER_MAC)
    for query in (f"node={node}", "node=n", f"node_uuid={node}", f"address={MAC}", "shard=s1"):
        body = ironic.get(f"/v1/ports?{query}").body
        assert [found["uuid"] for found in body["ports"]] == [port]
    ironic.get(f"/v1/ports?address={MAC.upper()}")
    ironic.get("/v1/ports?address=nonsense", expect=400)
    ironic.get(f"/v1/ports?node={ironic.uuid()}", expect=ANY)
    ironic.get("/v1/ports?shard=s1", version="1.81", expect=ANY)
    ironic.get("/v1/ports?fields=uuid,address")
    ironic.get("/v1/ports?fields=colour", expect=ANY)
    ironic.get("/v1/ports?detail=true")
    ironic.get("/v1/ports?limit=1")
    ironic.get("/v1/ports?sort_key=address&sort_dir=desc")
    ironic.get("/v1/ports?sort_key=extra", expect=400)
    ironic.get(f"/v1/ports/{port}?fields=uuid,node_uuid,internal_info")
    ironic.get(f"/v1/ports/{ironic.uuid()}", expect=404)
    ironic.get("/v1/ports/nonsense", expect=404)


@check_each(("uuid", 1), ("node_uuid", 1), ("internal_info", 18), ("created_at", 1), ("colour", 1))
def _(ironic: IronicUnderTest, field: str, _: int) -> None:
    """whether {} of a port can be patched"""
    port = ironic.port(ironic.node())
    change = {"op": "replace", "path": f"/{field}", "value": ironic.uuid()}
    ironic.patch(f"/v1/ports/{port}", change, expect=ANY)
    ironic.patch(f"/v1/ports/{port}", {"op": "remove", "path": f"/{field}"}, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """ports are not made, changed or deleted while somebody works on the node"""
    node = ironic.node()
    port = ironic.port(node)
    ironic.set_node(node, reservation="conductor-1")
    ironic.post("/v1/ports", {"node_uuid": node, "address": OTHER_MAC}, expect=ANY)
    ironic.patch(f"/v1/ports/{port}", {"op": "add", "path": "/extra/a", "value": 1}, expect=409)
    ironic.delete(f"/v1/ports/{port}", expect=409)


@check
def _(ironic: IronicUnderTest) -> None:
    """a port of a node with an instance keeps its address"""
    node = ironic.active_node(instance_uuid=ironic.uuid())
    port = ironic.port(node)
    ironic.patch(
        f"/v1/ports/{port}",
        {"op": "replace", "path": "/address", "value": OTHER_MAC},
        expect=ANY,
    )
    ironic.patch(
        f"/v1/ports/{port}",
        {"op": "replace", "path": "/pxe_enabled", "value": False},
        expect=ANY,
    )
    ironic.delete(f"/v1/ports/{port}", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """a port group is made, shown, listed, changed and deleted"""
    node = ironic.node()
    answer = ironic.post(
        "/v1/portgroups",
        {
            "node_uuid": node,
            "address": MAC,
            "name": "bond0",
            "mode": "802.3ad",
            "properties": {"miimon": "100"},
            "standalone_ports_supported": True,
        },
    )
    assert answer.status == 201
    group = answer.body["uuid"]
    port = ironic.port(node, OTHER_MAC, portgroup_uuid=group)
    ironic.get(f"/v1/portgroups/{group}")
    ironic.get("/v1/portgroups/bond0")
    ironic.get(f"/v1/portgroups/{group}/ports")
    ironic.get("/v1/portgroups")
    ironic.get("/v1/portgroups/detail")
    ironic.get(f"/v1/nodes/{node}/portgroups")
    ironic.get(f"/v1/nodes/{node}/portgroups/detail")
    ironic.get(f"/v1/ports?portgroup={group}")
    ironic.get(f"/v1/portgroups?node={node}")
    ironic.get(f"/v1/portgroups?address={MAC}")
    ironic.patch(
        f"/v1/portgroups/{group}", {"op": "replace", "path": "/mode", "value": "balance-rr"}
    )
    ironic.delete(f"/v1/portgroups/{group}", expect=400)
    ironic.delete(f"/v1/ports/{port}")
    assert ironic.delete(f"/v1/portgroups/{group}").status == 204
    ironic.get(f"/v1/portgroups/{group}", expect=404)


@check_each(23, 24, 26, 115)
def _(ironic: IronicUnderTest, minor: int) -> None:
    """a port group at version 1.{} has the fields of that version"""
    node = ironic.node()
    with ironic.unrecorded():
        group = ironic.post("/v1/portgroups", {"node_uuid": node}).body["uuid"]
    ironic.get(f"/v1/portgroups/{group}", version=f"1.{minor}")
    ironic.get("/v1/portgroups/detail", version=f"1.{minor}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a port group's name and address are used once, and it needs a node"""
    node = ironic.node()
    ironic.post("/v1/portgroups", {"node_uuid": node, "name": "b", "address": MAC})
    ironic.post("/v1/portgroups", {"node_uuid": node, "name": "b"}, expect=409)
    ironic.post("/v1/portgroups", {"node_uuid": node, "address": MAC}, expect=409)
    ironic.post("/v1/portgroups", {"name": "c"}, expect=400)
    ironic.post("/v1/portgroups", {"node_uuid": ironic.uuid()}, expect=400)
    ironic.post("/v1/portgroups", {"node_uuid": node, "name": "a b"}, expect=400)
    ironic.post("/v1/portgroups", {"node_uuid": node, "mode": "x"}, version="1.25", expect=ANY)
