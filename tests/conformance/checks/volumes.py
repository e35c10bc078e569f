# SPDX-License-Identifier: Apache-2.0

"""Volume connectors and targets of nodes."""

from tests.conformance.registry import check
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
