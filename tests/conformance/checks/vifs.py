# SPDX-License-Identifier: Apache-2.0

"""VIFs on ports and port groups of nodes."""

from typing import Any

from tests.conformance.checks.nodes_patch import replace
from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IMAGE, NEWEST, IronicUnderTest

VIF = "6b9dc1b3-1b7e-44a5-9d44-61bd6ec4f2f0"
OTHER = "d2c5e6a7-9d3d-4f0a-9e0e-3f3b2f1c0a11"
REFUSED = "0c9a44de-77f3-4a38-8b25-5be1f4a7c0d9"
SECOND_MAC = "02:00:00:00:00:02"


def node_and_port(ironic: IronicUnderTest, **fields: Any) -> tuple[str, str, str]:
    """A node with one port; its UUID, the path of its VIFs, that of its port."""
    node = ironic.node(**fields)
    return node, f"/v1/nodes/{node}/vifs", f"/v1/ports/{ironic.port(node)}"


@check
def _(ironic: IronicUnderTest) -> None:
    """a VIF may say which port it wants from version 1.67"""
    node, path, port = node_and_port(ironic)
    first = port.removeprefix("/v1/ports/")
    second = ironic.port(node, SECOND_MAC)
    ironic.post(path, {"id": VIF, "port_uuid": second}, version="1.66", expect=ANY)
    ironic.post(path, {"id": OTHER, "port_uuid": second}, expect=ANY)
    ironic.get_each("/v1/ports/", first, second)
    ironic.post(path, {"id": ironic.uuid(), "port_uuid": ironic.uuid()}, expect=ANY)
    both = {"port_uuid": first, "portgroup_uuid": first}
    ironic.post(path, {"id": ironic.uuid(), **both}, expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """VIFs prefer a port group to a port, and of ports one that boots over the network"""
    node, third = ironic.node(), ironic.uuid()
    ironic.port(node, pxe_enabled=False)
    booting = ironic.port(node, SECOND_MAC)
    with ironic.unrecorded():
        group = ironic.post("/v1/portgroups", {"node_uuid": node}).body["uuid"]
    ironic.port(node, "02:00:00:00:00:03", portgroup_uuid=group)
    for vif, path in ((VIF, f"portgroups/{group}"), (OTHER, f"ports/{booting}")):
        ironic.post(f"/v1/nodes/{node}/vifs", {"id": vif})
        body = ironic.get(f"/v1/{path}").body
        assert body["internal_info"] == {"tenant_vif_port_id": vif}
    ironic.post(f"/v1/nodes/{node}/vifs", {"id": third})
    ironic.get_each(f"/v1/nodes/{node}/", "vifs", "ports/detail")
    ironic.delete(f"/v1/nodes/{node}/vifs/{VIF}")
    ironic.get(f"/v1/portgroups/{group}")


@check
def _(ironic: IronicUnderTest) -> None:
    """VIFs survive a deployment and a rebuild, and are gone after the instance is torn down"""
    node, path, _ = node_and_port(ironic, instance_info=IMAGE)
    ironic.post(path, {"id": VIF})
    for target in ("active", "rebuild"):
        ironic.provision(node, target)
        assert ironic.get(path).body == {"vifs": [{"id": VIF}]}
    ironic.provision(node, "deleted")
    assert ironic.get(path).body == {"vifs": []}


@check
def _(ironic: IronicUnderTest) -> None:
    """VIFs are not there before version 1.28"""
    path = f"/v1/nodes/{ironic.node()}/vifs"
    for method, page, body in (
        ("GET", "", None),
        ("POST", "", {"id": VIF}),
        ("DELETE", VIF, None),
    ):
        ironic.request(method, f"{path}/{page}".rstrip("/"), body, version="1.27", expect=404)


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
    path = f"/v1/ports/{ironic.port(node)}"
    ironic.post(f"/v1/nodes/{node}/vifs", {"id": VIF})
    ironic.delete(path, expect=ANY)
    ironic.patch(path, replace("/address", "02:00:00:00:00:09"), expect=ANY)
    ironic.set_node(node, maintenance=True)
    ironic.delete(path, expect=ANY)


@check_each(
    ("available", NEWEST),
    *(("active", "1.38"), ("rescue", "1.38"), ("rescue failed", "1.38")),
    *(("service failed", "1.38"), ("deploy failed", "1.38"), ("error", "1.38")),
)
def _(ironic: IronicUnderTest, state: str, version: str) -> None:
    """a VIF is attached once, to a free port, and detached in state {}"""
    node = ironic.active_node(instance_uuid=ironic.uuid())
    ironic.set_node(node, provision_state=state)
    path = f"/v1/nodes/{node}/vifs"
    ironic.post(path, {"id": VIF}, version=version, expect=400)
    port = ironic.port(node)
    assert ironic.get(path).body == {"vifs": []}
    assert ironic.post(path, {"id": VIF}, version=version).status == 204
    ironic.get(f"/v1/ports/{port}")
    assert ironic.get(path, version=version).body == {"vifs": [{"id": VIF}]}
    ironic.post(path, {"id": OTHER}, version=version, expect=400)
    ironic.set_node(node, reservation="conductor-1")
    ironic.post(path, {"id": OTHER}, version=version, expect=409)
    ironic.delete(f"{path}/{VIF}", version=version, expect=409)
    ironic.set_node(node, reservation=None)
    ironic.port(node, SECOND_MAC)
    ironic.post_each(path, {}, {"id": 5}, {"id": None}, [], version=version, expect=400)
    assert VIF in ironic.post(path, {"id": VIF}, version=version, expect=409).fault
    assert ironic.delete(f"{path}/{VIF}", version=version).status == 204
    assert ironic.get(path).body == {"vifs": []}
    ironic.get(f"/v1/ports/{port}")
    ironic.delete(f"{path}/{VIF}", version=version, expect=400)
    ironic.delete(path, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """a VIF can be attached to two nodes"""
    nodes = [ironic.node(), ironic.node()]
    for number, node in enumerate(nodes, 1):
        ironic.port(node, f"02:00:00:00:00:0{number}")
        assert ironic.post(f"/v1/nodes/{node}/vifs", {"id": VIF}).status == 204
    for node in nodes:
        ironic.get(f"/v1/nodes/{node}/vifs")
        ironic.delete(f"/v1/nodes/{node}/vifs/{VIF}")


@check
def _(ironic: IronicUnderTest) -> None:
    """ports and port groups say which VIF they have, and how they are bonded"""
    node, path, _ = node_and_port(ironic)
    bond = {"node_uuid": node, "address": "02:00:00:00:00:0a", "mode": "802.3ad"}
    bond |= {"properties": {"miimon": "100", "xmit_hash_policy": "layer3+4"}}
    with ironic.unrecorded():
        group = ironic.post("/v1/portgroups", bond).body["uuid"]
    ironic.port(node, SECOND_MAC, portgroup_uuid=group)
    ironic.port(node, "02:00:00:00:00:03", portgroup_uuid=group)
    ironic.post_each(path, {"id": VIF}, {"id": OTHER})
    fields = "uuid,address,portgroup_uuid,internal_info,extra"
    found = ironic.get(f"/v1/ports?node={node}&fields={fields}", version="1.38").body["ports"]
    assert sorted(port["portgroup_uuid"] == group for port in found) == [False, True, True]
    fields = "uuid,address,mode,properties,internal_info,extra"
    answer = ironic.get(f"/v1/portgroups?node={node}&fields={fields}", version="1.38")
    (bonded,) = answer.body["portgroups"]
    assert bonded["internal_info"] == {"tenant_vif_port_id": VIF}


LINK = {"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "Ethernet3/1", "switch_info": "switch1"}


@check_each("available", "active")
def _(ironic: IronicUnderTest, state: str) -> None:
    """a VIF of network interface neutron needs a port that says where it is plugged in: {}"""
    for number, (link, group_link) in enumerate(((None, {}), (LINK, {}), ({}, LINK))):
        node = ironic.node(network_interface="neutron", instance_info=IMAGE)
        path = f"/v1/nodes/{node}/vifs"
        more = {} if link is None else {"local_link_connection": link}
        port = ironic.port(node, f"02:00:00:00:00:0{number}", **more)
        if group_link:
            with ironic.unrecorded():
                group = ironic.post("/v1/portgroups", {"node_uuid": node}).body["uuid"]
            for last in "ab":
                address = f"02:00:00:00:00:0{last}"
                of_group = {"portgroup_uuid": group, "local_link_connection": group_link}
                ironic.port(node, address, **of_group)
        if state == "active":
            ironic.provision(node, "active", expect=ANY)
        ironic.post(path, {"id": VIF}, expect=ANY)
        ironic.get(path)
        ironic.get(f"/v1/ports/{port}")
        ironic.get(f"/v1/nodes/{node}/validate")
        ironic.delete(f"{path}/{VIF}", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node of network interface neutron is deployed with its VIF, as far as it is plugged in"""
    for number, more in enumerate(({}, {"local_link_connection": LINK})):
        node = ironic.node(network_interface="neutron", instance_info=IMAGE)
        ironic.port(node, f"02:00:00:00:00:0{number}", **more)
        ironic.post(f"/v1/nodes/{node}/vifs", {"id": VIF}, expect=ANY)
        ironic.provision(node, "active", expect=ANY)
        ironic.get_each(f"/v1/nodes/{node}", "", "/vifs")
        ironic.provision(node, "deleted", expect=ANY)
        ironic.get_each(f"/v1/nodes/{node}", "", "/vifs")


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
