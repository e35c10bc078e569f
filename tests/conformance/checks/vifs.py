# SPDX-License-Identifier: Apache-2.0

"""VIFs on ports and port groups of nodes."""

from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IMAGE, IronicUnderTest

VIF = "6b9dc1b3-1b7e-44a5-9d44-61bd6ec4f2f0"
OTHER = "d2c5e6a7-9d3d-4f0a-9e0e-3f3b2f1c0a11"
REFUSED = "0c9a44de-77f3-4a38-8b25-5be1f4a7c0d9"


@check
def _(ironic: IronicUnderTest) -> None:
    """a VIF is attached to a free port, listed, and detached"""
    node = ironic.node()
    port = ironic.port(node)
    path = f"/v1/nodes/{node}/vifs"
    assert ironic.get(path).body == {"vifs": []}
    assert ironic.post(path, {"id": VIF}).status == 204
    assert ironic.get(path).body == {"vifs": [{"id": VIF}]}
    ironic.get(f"/v1/ports/{port}")
    assert ironic.delete(f"{path}/{VIF}").status == 204
    assert ironic.get(path).body == {"vifs": []}
    ironic.get(f"/v1/ports/{port}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a VIF is attached once"""
    node = ironic.node()
    ironic.port(node)
    ironic.port(node, "02:00:00:00:00:02")
    path = f"/v1/nodes/{node}/vifs"
    ironic.post(path, {"id": VIF})
    answer = ironic.post(path, {"id": VIF}, expect=409)
    assert VIF in answer.fault


@check
def _(ironic: IronicUnderTest) -> None:
    """a VIF needs a free port"""
    node = ironic.node()
    path = f"/v1/nodes/{node}/vifs"
    ironic.post(path, {"id": VIF}, expect=400)
    ironic.port(node)
    ironic.post(path, {"id": VIF})
    ironic.post(path, {"id": OTHER}, expect=400)
    ironic.get(path)


@check
def _(ironic: IronicUnderTest) -> None:
    """what is not attached can't be detached"""
    node = ironic.node()
    ironic.port(node)
    ironic.delete(f"/v1/nodes/{node}/vifs/{VIF}", expect=400)
    ironic.delete(f"/v1/nodes/{node}/vifs", expect=ANY)


@check_each(
    ("no id", {}),
    ("an id that is a number", {"id": 5}),
    ("an id that is null", {"id": None}),
    ("a list", []),
)
def _(ironic: IronicUnderTest, _: str, body: object) -> None:
    """a VIF with {} is refused"""
    node = ironic.node()
    ironic.port(node)
    ironic.post(f"/v1/nodes/{node}/vifs", body, expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """a VIF may say which port it wants from version 1.67"""
    node = ironic.node()
    first = ironic.port(node)
    second = ironic.port(node, "02:00:00:00:00:02")
    path = f"/v1/nodes/{node}/vifs"
    ironic.post(path, {"id": VIF, "port_uuid": second}, version="1.66", expect=ANY)
    ironic.post(path, {"id": OTHER, "port_uuid": second}, expect=ANY)
    ironic.get(f"/v1/ports/{first}")
    ironic.get(f"/v1/ports/{second}")
    ironic.post(path, {"id": ironic.uuid(), "port_uuid": ironic.uuid()}, expect=ANY)
    ironic.post(
        path, {"id": ironic.uuid(), "port_uuid": first, "portgroup_uuid": first}, expect=400
    )


@check
def _(ironic: IronicUnderTest) -> None:
    """VIFs prefer ports that boot over the network"""
    node = ironic.node()
    ironic.port(node, pxe_enabled=False)
    second = ironic.port(node, "02:00:00:00:00:02")
    ironic.post(f"/v1/nodes/{node}/vifs", {"id": VIF})
    body = ironic.get(f"/v1/ports/{second}").body
    assert body["internal_info"] == {"tenant_vif_port_id": VIF}


@check
def _(ironic: IronicUnderTest) -> None:
    """VIFs prefer a port group to a port"""
    node = ironic.node()
    ironic.port(node)
    with ironic.unrecorded():
        group = ironic.post("/v1/portgroups", {"node_uuid": node}).body["uuid"]
    ironic.port(node, "02:00:00:00:00:02", portgroup_uuid=group)
    ironic.post(f"/v1/nodes/{node}/vifs", {"id": VIF})
    ironic.get(f"/v1/portgroups/{group}")
    ironic.post(f"/v1/nodes/{node}/vifs", {"id": OTHER})
    ironic.get(f"/v1/nodes/{node}/vifs")
    ironic.get(f"/v1/nodes/{node}/ports/detail")
    ironic.delete(f"/v1/nodes/{node}/vifs/{VIF}")
    ironic.get(f"/v1/portgroups/{group}")


@check
def _(ironic: IronicUnderTest) -> None:
    """VIFs are gone after the instance is torn down"""
    node = ironic.active_node()
    ironic.port(node)
    path = f"/v1/nodes/{node}/vifs"
    ironic.post(path, {"id": VIF})
    ironic.get(path)
    ironic.provision(node, "deleted")
    assert ironic.get(path).body == {"vifs": []}


@check
def _(ironic: IronicUnderTest) -> None:
    """VIFs survive a deployment and a rebuild"""
    node = ironic.node(instance_info=IMAGE)
    ironic.port(node)
    path = f"/v1/nodes/{node}/vifs"
    ironic.post(path, {"id": VIF})
    ironic.provision(node, "active")
    ironic.get(path)
    ironic.provision(node, "rebuild")
    ironic.get(path)


@check
def _(ironic: IronicUnderTest) -> None:
    """VIFs are not there before version 1.28"""
    node = ironic.node()
    ironic.get(f"/v1/nodes/{node}/vifs", version="1.27", expect=404)
    ironic.post(f"/v1/nodes/{node}/vifs", {"id": VIF}, version="1.27", expect=404)
    ironic.delete(f"/v1/nodes/{node}/vifs/{VIF}", version="1.27", expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """VIFs are neither attached nor detached while somebody works on the node"""
    node = ironic.node()
    ironic.port(node)
    ironic.post(f"/v1/nodes/{node}/vifs", {"id": VIF})
    ironic.set_node(node, reservation="conductor-1")
    ironic.post(f"/v1/nodes/{node}/vifs", {"id": OTHER}, expect=409)
    ironic.delete(f"/v1/nodes/{node}/vifs/{VIF}", expect=409)
    ironic.get(f"/v1/nodes/{node}/vifs")


@check
def _(ironic: IronicUnderTest) -> None:
    """without a network interface any VIF is taken, and none is kept"""
    node = ironic.node(network_interface="noop")
    path = f"/v1/nodes/{node}/vifs"
    ironic.post(path, {"id": VIF})
    assert ironic.get(path).body == {"vifs": []}
    ironic.delete(f"{path}/{VIF}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a port with a VIF can't be deleted or given another address"""
    node = ironic.active_node()
    port = ironic.port(node)
    ironic.post(f"/v1/nodes/{node}/vifs", {"id": VIF})
    ironic.delete(f"/v1/ports/{port}", expect=ANY)
    change = {"op": "replace", "path": "/address", "value": "02:00:00:00:00:09"}
    ironic.patch(f"/v1/ports/{port}", change, expect=ANY)
    ironic.set_node(node, maintenance=True)
    ironic.delete(f"/v1/ports/{port}", expect=ANY)


@check_each("active", "rescue", "rescue failed", "service failed", "deploy failed", "error")
def _(ironic: IronicUnderTest, state: str) -> None:
    """a VIF is attached and detached in state {}"""
    node = ironic.active_node(instance_uuid=ironic.uuid())
    port = ironic.port(node)
    ironic.set_node(node, provision_state=state)
    path = f"/v1/nodes/{node}/vifs"
    assert ironic.post(path, {"id": VIF}, version="1.38").status == 204
    ironic.get(f"/v1/ports/{port}")
    assert ironic.get(path, version="1.38").body == {"vifs": [{"id": VIF}]}
    ironic.post(path, {"id": VIF}, version="1.38", expect=409)
    ironic.post(path, {"id": OTHER}, version="1.38", expect=400)
    assert ironic.delete(f"{path}/{VIF}", version="1.38").status == 204
    ironic.delete(f"{path}/{VIF}", version="1.38", expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """nobody looks whether another node has a VIF"""
    one, other = ironic.node(), ironic.node()
    ironic.port(one)
    ironic.port(other, "02:00:00:00:00:02")
    for node in (one, other):
        assert ironic.post(f"/v1/nodes/{node}/vifs", {"id": VIF}).status == 204
    for node in (one, other):
        ironic.get(f"/v1/nodes/{node}/vifs")
        ironic.delete(f"/v1/nodes/{node}/vifs/{VIF}")


@check
def _(ironic: IronicUnderTest) -> None:
    """ports and port groups say which VIF they have, and how they are bonded"""
    node = ironic.node()
    ironic.port(node)
    bond = {
        "node_uuid": node,
        "address": "02:00:00:00:00:0a",
        "mode": "802.3ad",
        "properties": {"miimon": "100", "xmit_hash_policy": "layer3+4"},
    }
    with ironic.unrecorded():
        group = ironic.post("/v1/portgroups", bond).body["uuid"]
    ironic.port(node, "02:00:00:00:00:02", portgroup_uuid=group)
    ironic.port(node, "02:00:00:00:00:03", portgroup_uuid=group)
    ironic.post(f"/v1/nodes/{node}/vifs", {"id": VIF})
    ironic.post(f"/v1/nodes/{node}/vifs", {"id": OTHER})
    ports = ironic.get(
        f"/v1/ports?node={node}&fields=uuid,address,portgroup_uuid,internal_info,extra",
        version="1.38",
    ).body["ports"]
    assert sorted(port["portgroup_uuid"] == group for port in ports) == [False, True, True]
    (found,) = ironic.get(
        f"/v1/portgroups?node={node}&fields=uuid,address,mode,properties,internal_info,extra",
        version="1.38",
    ).body["portgroups"]
    assert found["internal_info"] == {"tenant_vif_port_id": VIF}


@check_each(
    ("available", f"Could not seed network configuration for VIF {REFUSED}to node "),
    ("active", f"Could not add public network VIF {REFUSED} to node "),
)
def _(ironic: IronicUnderTest, state: str, said: str) -> None:
    """a VIF that Neutron refuses in state {} is there all the same"""
    node = ironic.active_node() if state == "active" else ironic.node()
    port = ironic.port(node)
    ironic.refuse_vif(REFUSED)
    path = f"/v1/nodes/{node}/vifs"
    with ironic.unrecorded():
        # The reason behind it is Neutron's own.
        answer = ironic.post(path, {"id": REFUSED}, expect=500)
    assert answer.fault.startswith(f"{said}{node}, possible network"), answer.fault
    assert "binding:vnic_type" in answer.fault
    assert ironic.get(path).body == {"vifs": [{"id": REFUSED}]}
    ironic.get(f"/v1/ports/{port}")
    ironic.post(path, {"id": REFUSED}, expect=409)
    assert ironic.delete(f"{path}/{REFUSED}").status == 204
    assert ironic.get(path).body == {"vifs": []}
