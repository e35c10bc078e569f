# SPDX-License-Identifier: Apache-2.0

"""What belongs to a node: traits, ports, port groups, volumes, history."""

from typing import Any

from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IMAGE, IronicUnderTest

MAC = "02:00:00:00:00:01"
OTHER_MAC = "02:00:00:00:00:02"


# Traits


@check
def _(ironic: IronicUnderTest) -> None:
    """traits are set all at once, one by one, and removed"""
    node = ironic.node()
    path = f"/v1/nodes/{node}/traits"
    assert ironic.get(path).body == {"traits": []}
    assert ironic.put(path, {"traits": ["CUSTOM_B", "HW_CPU_X86_VMX", "CUSTOM_A"]}).status == 204
    ironic.get(path)
    answer = ironic.put(f"{path}/CUSTOM_C")
    assert answer.status == 204
    ironic.put(f"{path}/CUSTOM_C")
    ironic.get(path)
    ironic.put(path, {"traits": ["CUSTOM_D", "CUSTOM_D"]}, expect=ANY)
    ironic.get(path)
    assert ironic.delete(f"{path}/CUSTOM_D", expect=ANY)
    ironic.get(path)
    ironic.delete(path)
    assert ironic.get(path).body == {"traits": []}
    ironic.get(f"/v1/nodes/{node}")


@check_each("gpu", "CUSTOM_gpu", "CUSTOM_", "HW_NOTHING", "", "CUSTOM_A B", "CUSTOM_" + "A" * 250)
def _(ironic: IronicUnderTest, trait: str) -> None:
    """'{}' is no trait"""
    node = ironic.node()
    ironic.put(f"/v1/nodes/{node}/traits", {"traits": [trait]}, expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """traits are a list of text"""
    node = ironic.node(traits=["CUSTOM_A"])
    path = f"/v1/nodes/{node}/traits"
    for body in ({}, {"traits": None}, {"traits": "CUSTOM_A"}, {"traits": [5]}, [], {"a": 1}):
        ironic.put(path, body, expect=400)
    ironic.put(f"{path}/gpu", expect=400)
    ironic.put(f"{path}/CUSTOM_B", {"traits": ["CUSTOM_B"]}, expect=400)
    ironic.put(path, {"traits": [f"CUSTOM_{number}" for number in range(51)]}, expect=400)
    ironic.delete(f"{path}/CUSTOM_B", expect=404)
    ironic.get(path)


@check
def _(ironic: IronicUnderTest) -> None:
    """traits are not there before version 1.37"""
    node = ironic.node()
    path = f"/v1/nodes/{node}/traits"
    ironic.get(path, version="1.36", expect=406)
    ironic.put(path, {"traits": []}, version="1.36", expect=405)
    ironic.delete(path, version="1.36", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """traits are not changed while somebody works on the node, or an instance is there"""
    node = ironic.node(traits=["CUSTOM_A"])
    path = f"/v1/nodes/{node}/traits"
    ironic.set_node(node, reservation="conductor-1")
    ironic.put(path, {"traits": []}, expect=409)
    ironic.put(f"{path}/CUSTOM_B", expect=409)
    ironic.delete(path, expect=409)
    ironic.set_node(node, reservation=None, provision_state="active")
    ironic.put(path, {"traits": []}, expect=ANY)
    ironic.put(f"{path}/CUSTOM_B", expect=ANY)


# Ports


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


# Port groups


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


# Volumes


@check
def _(ironic: IronicUnderTest) -> None:
    """a volume connector is made, shown, listed, changed and deleted"""
    node = ironic.node()
    body = {"node_uuid": node, "type": "iqn", "connector_id": "iqn.2017-08.org:1"}
    answer = ironic.post("/v1/volume/connectors", body)
    assert answer.status == 201
    path = f"/v1/volume/connectors/{answer.body['uuid']}"
    ironic.get("/v1/volume")
    ironic.get(path)
    ironic.get("/v1/volume/connectors")
    ironic.get("/v1/volume/connectors?detail=true")
    ironic.get(f"/v1/nodes/{node}/volume")
    ironic.get(f"/v1/nodes/{node}/volume/connectors")
    ironic.get(f"/v1/volume/connectors?node={node}")
    ironic.post("/v1/volume/connectors", body, expect=409)
    ironic.patch(path, {"op": "replace", "path": "/connector_id", "value": "iqn.x"})
    ironic.patch(path, {"op": "replace", "path": "/type", "value": "steam"})
    ironic.set_node(node, power_state="power on")
    ironic.patch(path, {"op": "replace", "path": "/connector_id", "value": "y"}, expect=ANY)
    ironic.delete(path, expect=ANY)
    ironic.set_node(node, power_state="power off")
    ironic.delete(path, expect=ANY)
    ironic.get(path, expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """a volume target is made, shown, listed, changed and deleted"""
    node = ironic.node()
    body = {
        "node_uuid": node,
        "volume_type": "iscsi",
        "boot_index": 0,
        "volume_id": "v1",
        "properties": {"auth_password": "secret", "target_iqn": "iqn.x"},
    }
    answer = ironic.post("/v1/volume/targets", body)
    assert answer.status == 201
    path = f"/v1/volume/targets/{answer.body['uuid']}"
    ironic.get(path)
    ironic.get("/v1/volume/targets")
    ironic.get("/v1/volume/targets?detail=true")
    ironic.get(f"/v1/nodes/{node}/volume/targets")
    ironic.get(f"/v1/volume/targets?node={node}")
    ironic.post("/v1/volume/targets", body, expect=409)
    ironic.post("/v1/volume/targets", {**body, "boot_index": 1}, expect=ANY)
    ironic.patch(path, {"op": "replace", "path": "/volume_id", "value": "v2"})
    ironic.set_node(node, power_state="power on")
    ironic.delete(path, expect=ANY)
    ironic.set_node(node, power_state="power off")
    ironic.delete(path, expect=ANY)
    ironic.get(path, expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """volume connectors and targets need all that they are made of"""
    node = ironic.node()
    for body in (
        {"node_uuid": node, "type": "iqn"},
        {"node_uuid": node, "connector_id": "x"},
        {"type": "iqn", "connector_id": "x"},
        {"node_uuid": ironic.uuid(), "type": "iqn", "connector_id": "x"},
    ):
        ironic.post("/v1/volume/connectors", body, expect=400)
    whole = {"node_uuid": node, "volume_type": "iscsi", "boot_index": 0, "volume_id": "v"}
    for missing in whole:
        body = {name: value for name, value in whole.items() if name != missing}
        ironic.post("/v1/volume/targets", body, expect=400)
    ironic.post("/v1/volume/targets", {**whole, "boot_index": -1}, expect=ANY)
    ironic.post("/v1/volume/targets", {**whole, "boot_index": "x"}, expect=400)


# History


@check
def _(ironic: IronicUnderTest) -> None:
    """a node to which nothing has happened has no history"""
    node = ironic.node()
    assert ironic.get(f"/v1/nodes/{node}/history").body == {"history": []}
    ironic.get(f"/v1/nodes/{node}/history", version="1.77", expect=404)
    ironic.get(f"/v1/nodes/{node}/history/{ironic.uuid()}", expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """a failed cleaning is in the history of the node"""
    node = ironic.node(instance_info=IMAGE)
    ironic.set_node(node, provision_state="manageable")
    step = {"interface": "deploy", "step": "nothing", "args": {}}
    ironic.provision(node, "clean", clean_steps=[step])
    body = ironic.get(f"/v1/nodes/{node}/history").body
    ironic.get(f"/v1/nodes/{node}/history?detail=true")
    ironic.get(f"/v1/nodes/{node}/history/{body['history'][0]['uuid']}")
    ironic.get(f"/v1/nodes/{node}/history?limit=1")
