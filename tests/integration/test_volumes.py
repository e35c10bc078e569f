# SPDX-License-Identifier: Apache-2.0

"""Instances with volumes on a real Ironic, whose own storage interfaces look at the targets."""

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from ironic_virt import virt
from ironic_virt.driver import volumes
from tests.compute_service import IMAGE
from tests.integration.services import Operator, Service, node_of
from tests.integration.stage import Stage

CHAP_SECRET = "chap-secret-0815"
NO_IMAGE = virt.ImageMeta("")
IQN = "iqn.2026-01.test:node"


def volume(index: int, **data: str) -> virt.BlockDevice:
    info = {
        "driver_volume_type": "iscsi",
        "data": {"target_iqn": f"iqn.2026-01.test:volume-{index}", "target_lun": 1, **data},
    }
    return virt.BlockDevice(str(uuid.UUID(int=index + 1)), index, info)


VOLUMES = [volume(0, auth_method="CHAP", auth_password=CHAP_SECRET), volume(1)]


def make_node(
    stage: Stage, storage: str = "cinder", connectors: Sequence[str] = ("iqn",), ports: int = 1
) -> str:
    """A node with a storage interface, and volume connectors that differ from all others'."""
    node = stage.node(
        properties={"cpu_arch": "x86_64", "capabilities": "iscsi_boot:True"},
        ports=ports,
        fields={"storage_interface": storage},
    )
    for kind in connectors:
        body = {"node_uuid": node, "type": kind, "connector_id": f"{IQN}-{node}"}
        stage.operator.request("POST", "/volume/connectors", body)
    return node


def spawn(
    service: Service,
    instance: virt.Instance,
    volumes: Sequence[virt.BlockDevice] = VOLUMES,
    image: virt.ImageMeta = NO_IMAGE,
) -> None:
    service.driver.prepare_for_spawn(instance)
    service.driver.spawn(virt.DeployRequest(instance, image, block_devices=volumes))


def destroy(service: Service, instance: virt.Instance) -> None:
    service.driver.destroy(instance)


def targets(operator: Operator, node: str) -> list[dict[str, Any]]:
    listed = operator.request("GET", f"/volume/targets?node={node}&detail=true")["targets"]
    return sorted(listed, key=lambda target: target["boot_index"])


def assert_nothing_is_left(operator: Operator, node: str) -> None:
    left = operator.wait_for_state(node, "available")
    assert (left["instance_uuid"], left["instance_info"]) == (None, {})
    assert targets(operator, node) == []


@pytest.mark.parametrize("storage", ["cinder", "external"])
def test_an_instance_boots_from_a_volume_and_is_destroyed(stage: Stage, storage: str) -> None:
    node = make_node(stage, storage)
    instance = stage.service.instance_on(node)
    spawn(stage.service, instance)
    there = stage.operator.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("active", instance.uuid)
    assert "image_source" not in there["instance_info"]
    root, data = targets(stage.operator, node)
    assert (root["boot_index"], data["boot_index"]) == (0, 1)
    assert [root["volume_id"], data["volume_id"]] == [one.volume_id for one in VOLUMES]
    assert root["extra"] == {volumes.MARK: instance.uuid}
    assert root["properties"]["target_iqn"] == "iqn.2026-01.test:volume-0"
    assert root["properties"]["auth_password"] == "******"
    destroy(stage.service, instance)
    assert_nothing_is_left(stage.operator, node)


def test_another_instances_volume_never_comes_with_the_node(stage: Stage) -> None:
    """Ironic deletes none while the node is on, so it is powered off for it."""
    node = make_node(stage, "fake", [])
    body = {"node_uuid": node, "volume_type": "iscsi", "boot_index": 0, "volume_id": "stale"}
    former = {"extra": {volumes.MARK: str(uuid.uuid4())}}
    stage.operator.request("POST", "/volume/targets", body | former)
    stage.operator.request("PUT", f"/nodes/{node}/states/power", {"target": "power on"})
    stage.operator.wait(node, lambda seen: seen["power_state"] == "power on")
    instance = stage.service.instance_on(node)
    spawn(stage.service, instance, [], IMAGE)
    assert targets(stage.operator, node) == []
    destroy(stage.service, instance)
    assert_nothing_is_left(stage.operator, node)


def test_wherever_the_service_dies_no_volume_is_left(stage: Stage) -> None:
    """It dies after its first request, then, on another node, after its second, and so on."""

    def come_and_go(service: Service, instance: virt.Instance) -> None:
        spawn(service, instance)
        destroy(service, instance)

    deaths: list[str] = []
    for death, instance, restarted in stage.after_deaths(
        lambda: stage.service.instance_on(make_node(stage, "fake", [])),
        come_and_go,
        after=True,
        starting=False,
    ):
        deaths.append(death)
        destroy(restarted, instance)
        assert_nothing_is_left(stage.operator, node_of(instance))
    assert sum(death == "POST /volume/targets" for death in deaths) == len(VOLUMES)
    assert sum(death.startswith("DELETE /volume/targets/") for death in deaths) >= len(VOLUMES)


def test_the_connector_has_the_address_of_the_vif_with_its_mac(stage: Stage) -> None:
    """Ironic lists all ports of a node, whichever address is asked for with it."""
    node = make_node(stage, "cinder", ["iqn"], ports=2)
    instance = stage.service.instance_on(node)
    stage.service.driver.prepare_for_spawn(instance)
    for number in (1, 2):
        stage.operator.request("POST", f"/nodes/{node}/vifs", {"id": str(uuid.UUID(int=number))})
    listed = stage.operator.request("GET", f"/ports?node={node}&detail=true")["ports"]
    first, last = listed[0], listed[-1]
    answer = stage.operator.request("GET", f"/ports?node={node}&address={last['address']}")
    assert answer["ports"][0]["address"] == first["address"] != last["address"]
    body = {"node_uuid": node, "type": "mac", "connector_id": last["address"]}
    stage.operator.request("POST", "/volume/connectors", body)
    vifs = [port["internal_info"]["tenant_vif_port_id"] for port in (first, last)]
    stage.service.addresses = {vifs[0]: ["192.0.2.8"], vifs[1]: ["192.0.2.9"]}
    connector = stage.service.driver.get_volume_connector(instance)
    assert connector.pop("initiator").startswith(IQN)  # type: ignore[attr-defined]
    assert connector == {
        "ip": "192.0.2.9",
        "host": "192.0.2.9",
        "platform": "x86_64",
        "os_type": "baremetal",
        "multipath": False,
    }
    destroy(stage.service, instance)
    assert_nothing_is_left(stage.operator, node)
