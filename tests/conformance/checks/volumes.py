# SPDX-License-Identifier: Apache-2.0

"""Volume connectors and targets of nodes."""

from collections.abc import Iterator
from typing import Any

from tests.conformance.checks.nodes_patch import add, replace
from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, NEWEST, IronicUnderTest

CONNECTORS, TARGETS = "/v1/volume/connectors", "/v1/volume/targets"


def target(node: str, index: int = 0, kind: str = "iscsi", **more: Any) -> dict[str, Any]:
    volume = {"volume_type": kind, "boot_index": index, "volume_id": "v"}
    return {"node_uuid": node, **volume, **more}


def delete_switched_on_and_off(ironic: IronicUnderTest, node: str, path: str) -> None:
    """Delete what a node that is on has, and then that of one that is off."""
    for power in ("power on", "power off"):
        ironic.set_node(node, power_state=power)
        ironic.delete(path, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """a volume connector is made, shown, listed, changed and deleted"""
    node = ironic.node()
    body = {"node_uuid": node, "type": "iqn", "connector_id": "iqn.2017-08.org:1"}
    answer = ironic.post(CONNECTORS, body)
    assert answer.status == 201
    path = f"{CONNECTORS}/{answer.body['uuid']}"
    ironic.get_each("/v1/volume", "", f"/connectors/{answer.body['uuid']}")
    ironic.get_each(CONNECTORS, "", "?detail=true", f"?node={node}")
    ironic.get_each(f"/v1/nodes/{node}/volume", "", "/connectors")
    ironic.post(CONNECTORS, body, expect=409)
    ironic.patch_each(path, replace("/connector_id", "iqn.x"), replace("/type", "steam"))
    ironic.set_node(node, power_state="power on")
    ironic.patch(path, replace("/connector_id", "y"), expect=ANY)
    delete_switched_on_and_off(ironic, node, path)
    ironic.get(path, expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """volume connectors and targets need all that they are made of"""
    node = ironic.node()
    whole = {"node_uuid": node, "type": "iqn", "connector_id": "x"}
    for body in (*_without_one(whole), {**whole, "node_uuid": ironic.uuid()}):
        ironic.post(CONNECTORS, body, expect=400)
    ironic.post_each(TARGETS, *_without_one(target(node)), expect=400)
    ironic.post(TARGETS, target(node, -1), expect=ANY)
    ironic.post(TARGETS, {**target(node), "boot_index": "x"}, expect=400)


def _without_one(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for missing in whole:
        yield {name: value for name, value in whole.items() if name != missing}


@check_each("1.38", NEWEST)
def _(ironic: IronicUnderTest, version: str) -> None:
    """a volume target is made with a uuid and notes, shown, listed, changed, deleted: {}"""
    node, other = ironic.node(), ironic.node()
    uuid = ironic.uuid()
    secret = {"target_iqn": "iqn.x", "auth_password": "secret"}
    notes = {"uuid": uuid, "extra": {"instance_uuid": other}}
    body = target(node, volume_id="v1", properties=secret, **notes)
    path = f"{TARGETS}/{uuid}"
    assert ironic.post(TARGETS, body, version=version).status == 201
    ironic.post(TARGETS, body, expect=409, version=version)
    ironic.post(TARGETS, {**body, "boot_index": 1}, expect=409)
    del body["uuid"]
    ironic.post(TARGETS, body, expect=409)
    ironic.post(TARGETS, {**body, "boot_index": 1}, expect=ANY)
    lists = ("", "?detail=true", f"?node={node}", f"?node={node}&detail=true")
    ironic.get_each(TARGETS, f"/{uuid}", *lists, f"?node={other}&detail=true", version=version)
    ironic.get(f"{TARGETS}?node={ironic.uuid()}&detail=true", expect=404)
    ironic.get(f"{CONNECTORS}?node={node}&detail=true", version=version)
    ironic.get(f"/v1/nodes/{node}/volume/targets")
    ironic.patch(path, replace("/volume_id", "v2"))
    delete_switched_on_and_off(ironic, node, path)
    ironic.get(path, expect=404)
    ironic.delete(path, expect=404, version=version)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node's volume targets come by pages"""
    node = ironic.node()
    uuids = [ironic.uuid() for _ in range(3)]
    for index, uuid in enumerate(uuids):
        ironic.post(TARGETS, target(node, index, uuid=uuid))
    path = f"{TARGETS}?node={node}&detail=true"
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
        ironic.post(TARGETS, target(node, index, uuid=uuid))
        ironic.set_node(node, provision_state=state)
        delete_switched_on_and_off(ironic, node, f"{TARGETS}/{uuid}")
    ironic.get(f"{TARGETS}?node={node}")


@check_each("noop", "external", "cinder")
def _(ironic: IronicUnderTest, interface: str) -> None:
    """a node with volumes is validated, its storage interface is {}"""
    node = ironic.node(storage_interface=interface)

    def storage() -> None:
        assert "storage" in ironic.get(f"/v1/nodes/{node}/validate").body

    def add_target(kind: str, index: int) -> None:
        ironic.post(TARGETS, target(node, index, kind, uuid=ironic.uuid()))
        storage()

    def add_connector(kind: str, ident: str) -> None:
        body = {"type": kind, "connector_id": f"{ident}.{interface}"}
        ironic.post(CONNECTORS, {"uuid": ironic.uuid(), "node_uuid": node, **body})

    def set_capabilities(value: str) -> None:
        ironic.patch(f"/v1/nodes/{node}", add("/properties/capabilities", value))
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
