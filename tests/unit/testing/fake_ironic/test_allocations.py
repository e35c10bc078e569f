# SPDX-License-Identifier: Apache-2.0

"""Allocations, ports, port groups, VIFs and volumes."""

import uuid
from typing import Any

import pytest

from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.testing.fake_ironic.conftest import Client

INSTANCE = str(uuid.UUID(int=7))
VIF = str(uuid.UUID(int=9))
OTHER_VIF = str(uuid.UUID(int=10))


def allocate(api: Client, **values: Any) -> Any:
    body = {"uuid": INSTANCE, "resource_class": "baremetal", **values}
    response = api.send("POST", "/allocations", body)
    assert response.status_code == 201, response.text
    assert response.json()["state"] == "allocating"
    return api.get(f"/allocations/{INSTANCE}")


def test_an_allocation_takes_its_node(fake: FakeIronic, api: Client) -> None:
    _, node = fake.add_nodes(2)
    allocation = allocate(api, candidate_nodes=[node], traits=[])
    assert (allocation["state"], allocation["node_uuid"]) == ("active", node)
    values = fake.node(node)
    assert values["instance_uuid"] == values["allocation_uuid"] == INSTANCE
    assert values["instance_info"] == {"traits": []}
    assert api.get(f"/nodes/{node}/allocation")["uuid"] == INSTANCE
    assert api.send("DELETE", f"/allocations/{INSTANCE}").status_code == 204
    values = fake.node(node)
    assert (values["instance_uuid"], values["allocation_uuid"]) == (None, None)


def test_an_allocation_takes_its_time() -> None:
    fake = FakeIronic(durations=Durations(allocate=3))
    api = Client(fake)
    node = fake.add_node()
    assert allocate(api)["state"] == "allocating"
    fake.advance(3)
    assert api.get(f"/allocations/{INSTANCE}")["node_uuid"] == node


def test_traits_match_as_a_superset(fake: FakeIronic, api: Client) -> None:
    fake.add_node(traits=["CUSTOM_A"])
    node = fake.add_node(traits=["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"])
    assert allocate(api, traits=["CUSTOM_B", "CUSTOM_A"])["node_uuid"] == node


@pytest.mark.parametrize(
    "fields",
    [
        {"power_state": None},
        {"maintenance": True},
        {"instance_uuid": VIF},
        {"provision_state": "cleaning"},
        {"resource_class": "other"},
        {"reservation": "somebody"},
    ],
)
def test_a_node_that_is_not_free_is_not_allocated(
    fake: FakeIronic, api: Client, fields: dict[str, Any]
) -> None:
    fake.add_node(**fields)
    allocation = allocate(api)
    assert (allocation["state"], allocation["node_uuid"]) == ("error", None)
    assert allocation["last_error"].startswith(f"Failed to process allocation {INSTANCE}: ")


def test_an_allocation_is_unique(fake: FakeIronic, api: Client) -> None:
    fake.add_nodes(2)
    allocate(api, name="it")
    body = {"uuid": INSTANCE, "resource_class": "baremetal"}
    assert api.refused("POST", "/allocations", body)[0] == 409
    body = {"name": "it", "resource_class": "baremetal"}
    assert api.refused("POST", "/allocations", body)[0] == 409


def test_an_active_node_keeps_its_allocation(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    allocate(api)
    api.provision(node, "active")
    fake.settle()
    assert api.refused("DELETE", f"/allocations/{INSTANCE}")[0] == 409
    api.send("PUT", f"/nodes/{node}/maintenance", {})
    assert api.send("DELETE", f"/allocations/{INSTANCE}").status_code == 204


def test_an_allocation_can_be_made_for_an_active_node(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(provision_state="active", instance_uuid=INSTANCE)
    body = api.send("POST", "/allocations", {"node": node}).json()
    assert (body["uuid"], body["state"], body["node_uuid"]) == (INSTANCE, "active", node)
    status, _ = api.refused("POST", "/allocations", {"node": node}, version="1.57")
    assert status == 400


def test_an_allocation_can_be_made_to_fail(fake: FakeIronic, api: Client) -> None:
    fake.add_node()
    fake.fail_next("allocate", "out of luck")
    assert "out of luck" in allocate(api)["last_error"]


def test_vifs_bind_to_free_ports(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(ports=1)
    path = f"/nodes/{node}/vifs"
    assert api.send("POST", path, {"id": VIF}).status_code == 204
    assert api.get(path) == {"vifs": [{"id": VIF}]}
    status, message = api.refused("POST", path, {"id": VIF})
    assert (status, "already attached" in message) == (409, True)
    status, message = api.refused("POST", path, {"id": OTHER_VIF})
    assert (status, "not enough free physical ports" in message) == (400, True)
    (port,) = api.get(f"/ports?node={node}&fields=uuid,internal_info")["ports"]
    assert port["internal_info"] == {"tenant_vif_port_id": VIF}
    assert api.refused("DELETE", f"/ports/{port['uuid']}")[0] == 409
    assert api.send("DELETE", f"{path}/{VIF}").status_code == 204
    status, message = api.refused("DELETE", f"{path}/{VIF}")
    assert (status, "is not attached" in message) == (400, True)


def test_a_vif_can_ask_for_its_port(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(ports=2)
    second = api.get(f"/ports?node={node}")["ports"][1]["uuid"]
    api.send("POST", f"/nodes/{node}/vifs", {"id": VIF, "port_uuid": second})
    assert api.get(f"/ports/{second}")["internal_info"] == {"tenant_vif_port_id": VIF}


def test_a_port_group_is_preferred_to_ports(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(ports=1, provision_state="manageable")
    group = api.send("POST", "/portgroups", {"node_uuid": node}).json()["uuid"]
    port = {"node_uuid": node, "address": "52:54:00:ff:00:01", "portgroup_uuid": group}
    assert api.send("POST", "/ports", port).status_code == 201
    api.send("POST", f"/nodes/{node}/vifs", {"id": VIF})
    assert api.get(f"/portgroups/{group}")["internal_info"] == {"tenant_vif_port_id": VIF}
    assert api.refused("DELETE", f"/portgroups/{group}")[0] == 400


def test_the_noop_network_interface_remembers_nothing() -> None:
    fake = FakeIronic(network_interface="noop")
    api = Client(fake)
    node = fake.add_node(ports=0)
    assert api.send("POST", f"/nodes/{node}/vifs", {"id": VIF}).status_code == 204
    assert api.get(f"/nodes/{node}/vifs") == {"vifs": []}


def test_ports_have_their_own_addresses(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(ports=0)
    port = {"node_uuid": node, "address": "52:54:00:FF:00:01"}
    created = api.send("POST", "/ports", port)
    assert created.json()["address"] == "52:54:00:ff:00:01"
    assert api.refused("POST", "/ports", port)[0] == 409
    found = api.get("/ports?address=52:54:00:ff:00:01&fields=node_uuid")["ports"]
    assert [row["node_uuid"] for row in found] == [node]


def test_volumes_change_only_while_the_power_is_off(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    connector = {"node_uuid": node, "type": "iqn", "connector_id": "iqn.1"}
    path = f"/volume/connectors/{api.send('POST', '/volume/connectors', connector).json()['uuid']}"
    assert api.refused("POST", "/volume/connectors", connector)[0] == 409
    target = {"node_uuid": node, "volume_type": "iscsi", "volume_id": "v", "boot_index": 0}
    assert api.send("POST", "/volume/targets", target).status_code == 201
    assert api.refused("POST", "/volume/targets", target)[0] == 409
    fake.set_node(node, power_state="power on")
    assert api.refused("DELETE", path)[0] == 400
    fake.set_node(node, power_state="power off")
    assert api.send("DELETE", path).status_code == 204
    (row,) = api.get(f"/volume/targets?node={node}")["targets"]
    assert row["volume_id"] == "v"
