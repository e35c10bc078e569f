# SPDX-License-Identifier: Apache-2.0

"""Volume connectors and targets of nodes."""

from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IronicUnderTest


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


@check
def _(ironic: IronicUnderTest) -> None:
    """a volume target has the uuid that it is given, and notes"""
    node, other = ironic.node(), ironic.node()
    uuid = ironic.uuid()
    body = {
        "uuid": uuid,
        "node_uuid": node,
        "volume_type": "iscsi",
        "boot_index": 0,
        "volume_id": "v1",
        "properties": {"target_iqn": "iqn.x", "auth_password": "secret"},
        "extra": {"instance_uuid": other},
    }
    ironic.post("/v1/volume/targets", body, version="1.38")
    answer = ironic.post("/v1/volume/targets", body, expect=409, version="1.38")
    assert answer.status == 409
    ironic.post("/v1/volume/targets", {**body, "boot_index": 1}, expect=409)
    ironic.get(f"/v1/volume/targets/{uuid}", version="1.38")
    ironic.get(f"/v1/volume/targets?node={node}&detail=true", version="1.38")
    ironic.get(f"/v1/volume/targets?node={other}&detail=true", version="1.38")
    ironic.get(f"/v1/volume/targets?node={ironic.uuid()}&detail=true", expect=404)
    ironic.get(f"/v1/volume/connectors?node={node}&detail=true", version="1.38")
    ironic.delete(f"/v1/volume/targets/{uuid}", version="1.38")
    ironic.delete(f"/v1/volume/targets/{uuid}", expect=404, version="1.38")


@check
def _(ironic: IronicUnderTest) -> None:
    """a node's volume targets come by pages"""
    node = ironic.node()
    uuids = [ironic.uuid() for _ in range(3)]
    for index, uuid in enumerate(uuids):
        body = {"node_uuid": node, "volume_type": "iscsi", "boot_index": index, "volume_id": "v"}
        ironic.post("/v1/volume/targets", {"uuid": uuid, **body})
    path = f"/v1/volume/targets?node={node}&detail=true"
    first = ironic.get(f"{path}&limit=2")
    assert [one["uuid"] for one in first.body["targets"]] == uuids[:2]
    assert first.body["next"]
    rest = ironic.get(f"{path}&marker={uuids[1]}")
    assert [one["uuid"] for one in rest.body["targets"]] == uuids[2:]


@check
def _(ironic: IronicUnderTest) -> None:
    """a volume target of a node that is on goes in no state but those before it is available"""
    node = ironic.node()
    for index, state in enumerate(("available", "active", "cleaning", "manageable")):
        uuid = ironic.uuid()
        body = {"node_uuid": node, "volume_type": "iscsi", "boot_index": index, "volume_id": "v"}
        ironic.post("/v1/volume/targets", {"uuid": uuid, **body})
        ironic.set_node(node, power_state="power on", provision_state=state)
        ironic.delete(f"/v1/volume/targets/{uuid}", expect=ANY)
        ironic.set_node(node, power_state="power off")
        ironic.delete(f"/v1/volume/targets/{uuid}", expect=ANY)
    ironic.get(f"/v1/volume/targets?node={node}")


@check_each("noop", "external", "cinder")
def _(ironic: IronicUnderTest, interface: str) -> None:
    """a node with volumes is validated, its storage interface is {}"""
    node = ironic.node(storage_interface=interface)

    def storage() -> None:
        assert "storage" in ironic.get(f"/v1/nodes/{node}/validate").body

    def add_target(kind: str, index: int) -> None:
        body = {"volume_type": kind, "boot_index": index, "volume_id": "v"}
        ironic.post("/v1/volume/targets", {"uuid": ironic.uuid(), "node_uuid": node, **body})
        storage()

    def add_connector(kind: str, ident: str) -> None:
        body = {"type": kind, "connector_id": f"{ident}.{interface}"}
        ironic.post("/v1/volume/connectors", {"uuid": ironic.uuid(), "node_uuid": node, **body})

    def set_capabilities(value: str) -> None:
        place = {"op": "add", "path": "/properties/capabilities"}
        ironic.patch(f"/v1/nodes/{node}", {**place, "value": value})
        storage()

    storage()
    set_capabilities("boot_mode:uefi,iscsi_boot:True")
    set_capabilities("boot_mode:uefi")
    add_target("iscsi", 1)
    add_connector("iqn", "iqn.1")
    storage()
    add_target("iscsi", 0)
    set_capabilities("iscsi_boot:True")
    add_target("fibre_channel", 2)
    set_capabilities("iscsi_boot:True,fibre_channel_boot:1")
    add_connector("wwpn", "50:00:01")
    add_connector("wwnn", "50:00:02")
    storage()
    add_target("rbd", 3)
