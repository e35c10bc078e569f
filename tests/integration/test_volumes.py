# SPDX-License-Identifier: Apache-2.0

"""Instances with volumes on a real Ironic, whose own storage interfaces look at the targets."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import real_ironic
from ironic_virt import exceptions, virt
from tests.crashing import Crash
from tests.integration.services import IMAGE, SEEDS, Operator, Service, dying_service

MOST_REQUESTS = 40
CHAP_SECRET = "chap-secret-0815"
NO_IMAGE = virt.ImageMeta("")
IQN = "iqn.2026-01.test:node"

MakeNode = Callable[..., str]


def volume(index: int, **data: str) -> virt.BlockDevice:
    info = {
        "driver_volume_type": "iscsi",
        "data": {"target_iqn": f"iqn.2026-01.test:volume-{index}", "target_lun": 1, **data},
    }
    return virt.BlockDevice(str(uuid.UUID(int=index + 1)), index, info)


VOLUMES = [volume(0, auth_method="CHAP", auth_password=CHAP_SECRET), volume(1)]


@pytest.fixture
def make_node(ironic_on_mariadb: real_ironic.RealIronic, operator: Operator) -> MakeNode:
    """Make a node with a storage interface, and volume connectors that differ from all others'."""

    def make(storage: str = "cinder", connectors: Sequence[str] = ("iqn",), ports: int = 1) -> str:
        seed = next(SEEDS)
        template = real_ironic.NodeTemplate(
            properties={"cpu_arch": "x86_64", "capabilities": "iscsi_boot:True"},
            ports=ports,
            fields={"storage_interface": storage},
        )
        [node] = real_ironic.create_nodes(
            ironic_on_mariadb, 1, template, name=f"volumes-{seed}-{{}}", seed=seed
        )
        for kind in connectors:
            body = {"node_uuid": node, "type": kind, "connector_id": f"{IQN}-{seed}"}
            operator.request("POST", "/volume/connectors", body)
        return node

    return make


def spawn(
    service: Service,
    instance: virt.Instance,
    volumes: Sequence[virt.BlockDevice] = VOLUMES,
    image: virt.ImageMeta = NO_IMAGE,
) -> None:
    service.driver.prepare_for_spawn(instance)
    service.driver.spawn(virt.DeployRequest(instance, image, block_devices=volumes))


def destroy(service: Service, instance: virt.Instance) -> None:
    service.driver.destroy(instance, has_volumes=bool(VOLUMES))


def targets(operator: Operator, node: str) -> list[dict[str, Any]]:
    listed = operator.request("GET", f"/volume/targets?node={node}&detail=true")["targets"]
    return sorted(listed, key=lambda target: target["boot_index"])


def assert_nothing_is_left(operator: Operator, node: str) -> None:
    left = operator.wait_for_state(node, "available")
    assert (left["instance_uuid"], left["instance_info"]) == (None, {})
    assert targets(operator, node) == []


@pytest.mark.parametrize("storage", ["cinder", "external"])
def test_an_instance_boots_from_a_volume_and_is_destroyed(
    service: Service, operator: Operator, make_node: MakeNode, storage: str
) -> None:
    node = make_node(storage)
    instance = service.instance_on(node)
    spawn(service, instance)
    there = operator.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("active", instance.uuid)
    assert "image_source" not in there["instance_info"]
    root, data = targets(operator, node)
    assert (root["boot_index"], data["boot_index"]) == (0, 1)
    assert [root["volume_id"], data["volume_id"]] == [one.volume_id for one in VOLUMES]
    assert root["extra"] == {"instance_uuid": instance.uuid}
    assert root["properties"]["target_iqn"] == "iqn.2026-01.test:volume-0"
    assert root["properties"]["auth_password"] == "******"
    destroy(service, instance)
    assert_nothing_is_left(operator, node)


def test_an_image_and_a_volume_for_data(
    service: Service, operator: Operator, make_node: MakeNode
) -> None:
    node = make_node()
    instance = service.instance_on(node)
    spawn(service, instance, VOLUMES[1:], IMAGE)
    assert operator.node(node)["instance_info"]["image_source"] == IMAGE.id
    [data] = targets(operator, node)
    assert data["boot_index"] == 1
    destroy(service, instance)
    assert_nothing_is_left(operator, node)


@pytest.mark.parametrize(
    ("storage", "connectors", "error", "says"),
    [
        ("noop", ["iqn"], exceptions.VolumeFailed, "storage interface is 'noop'"),
        ("cinder", [], exceptions.NodeValidationFailed, "must be valid for iSCSI"),
    ],
)
def test_a_node_that_can_not_boot_from_it_is_given_back(
    service: Service,
    operator: Operator,
    make_node: MakeNode,
    storage: str,
    connectors: list[str],
    error: type[exceptions.NodeError],
    says: str,
) -> None:
    node = make_node(storage, connectors)
    with pytest.raises(error, match=says):
        spawn(service, service.instance_on(node))
    assert_nothing_is_left(operator, node)


def test_another_instances_volume_never_comes_with_the_node(
    service: Service, operator: Operator, make_node: MakeNode
) -> None:
    """Ironic deletes none while the node is on, so it is powered off for it."""
    node = make_node("fake", [])
    body = {"node_uuid": node, "volume_type": "iscsi", "boot_index": 0, "volume_id": "stale"}
    former = {"extra": {"instance_uuid": str(uuid.uuid4())}}
    operator.request("POST", "/volume/targets", body | former)
    operator.request("PUT", f"/nodes/{node}/states/power", {"target": "power on"})
    operator.wait(node, lambda seen: seen["power_state"] == "power on")
    instance = service.instance_on(node)
    spawn(service, instance, [], IMAGE)
    assert targets(operator, node) == []
    destroy(service, instance)
    assert_nothing_is_left(operator, node)


def test_wherever_the_service_dies_no_volume_is_left(
    config: Path, operator: Operator, make_node: MakeNode
) -> None:
    """It dies after its first request, then, on another node, after its second, and so on."""
    deaths: list[str] = []
    for at in range(1, MOST_REQUESTS):
        node = make_node("fake", [])
        dying = dying_service(config, at, after=True, starting=False)
        instance = dying.instance_on(node)
        try:
            spawn(dying, instance)
            destroy(dying, instance)
        except Crash as crash:
            deaths.append(str(crash))
        else:
            break
        restarted = Service(config)
        destroy(restarted, instance)
        restarted.driver.cleanup_host()
        assert_nothing_is_left(operator, node)
    else:
        pytest.fail(f"it died at each of these requests, and there are more: {deaths}")
    assert sum(death == "POST /volume/targets" for death in deaths) == len(VOLUMES)
    assert sum(death.startswith("DELETE /volume/targets/") for death in deaths) >= len(VOLUMES)


def test_the_connector_has_the_address_of_the_vif_with_its_mac(
    service: Service, operator: Operator, make_node: MakeNode
) -> None:
    """Ironic lists all ports of a node, whichever address is asked for with it."""
    node = make_node("cinder", ["iqn"], ports=2)
    instance = service.instance_on(node)
    service.driver.prepare_for_spawn(instance)
    for number in (1, 2):
        operator.request("POST", f"/nodes/{node}/vifs", {"id": str(uuid.UUID(int=number))})
    listed = operator.request("GET", f"/ports?node={node}&detail=true")["ports"]
    first, last = listed[0], listed[-1]
    answer = operator.request("GET", f"/ports?node={node}&address={last['address']}")
    assert answer["ports"][0]["address"] == first["address"] != last["address"]
    body = {"node_uuid": node, "type": "mac", "connector_id": last["address"]}
    operator.request("POST", "/volume/connectors", body)
    vifs = [port["internal_info"]["tenant_vif_port_id"] for port in (first, last)]
    service.addresses = {vifs[0]: ["192.0.2.8"], vifs[1]: ["192.0.2.9"]}
    connector = service.driver.get_volume_connector(instance)
    assert connector.pop("initiator").startswith(IQN)  # type: ignore[attr-defined]
    assert connector == {
        "ip": "192.0.2.9",
        "host": "192.0.2.9",
        "platform": "x86_64",
        "os_type": "baremetal",
        "multipath": False,
    }
    destroy(service, instance)
    assert_nothing_is_left(operator, node)
