# SPDX-License-Identifier: Apache-2.0

"""Listing, showing, creating, patching and deleting nodes."""

import uuid
from typing import Any

import pytest

from ironic_virt.testing.fake_ironic import Conductor, FakeIronic
from tests.unit.testing.fake_ironic.conftest import URL, Client

INSTANCE = str(uuid.UUID(int=7))
OTHER = str(uuid.UUID(int=8))


def uuids(api: Client, query: str) -> list[str]:
    return [node["uuid"] for node in api.get(f"/nodes?{query}")["nodes"]]


def change(path: str, value: Any, op: str = "replace") -> list[dict[str, Any]]:
    return [{"op": op, "path": path, "value": value}]


# Lists


def test_pages_follow_each_other_without_gaps(fake: FakeIronic, api: Client) -> None:
    nodes = fake.add_nodes(7)
    seen: list[str] = []
    url: str | None = f"{URL}/v1/nodes?limit=3&fields=uuid"
    while url is not None:
        page = api.session.get(url, headers={"X-OpenStack-Ironic-API-Version": "1.82"}).json()
        seen += [node["uuid"] for node in page["nodes"]]
        url = page.get("next")
    assert seen == nodes


def test_the_next_link_forgets_filters_as_that_of_ironic_does(
    fake: FakeIronic, api: Client
) -> None:
    node, _ = fake.add_node(shard="a"), fake.add_node(shard="b")
    body = api.get("/nodes?shard=a&limit=1&fields=uuid&maintenance=false")
    assert body["next"] == (
        f"{URL}/v1/nodes?sort_key=id&sort_dir=asc&fields=uuid&limit=1&marker={node}"
    )


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("shard=a", [0, 1]),
        ("shard=a,b", [0, 1, 2]),
        ("sharded=false", [3]),
        ("conductor_group=rack1", [1]),
        ("conductor_group=", [0, 2, 3]),
        ("shard=a&conductor_group=RACK1", [1]),
        ("resource_class=gold", [2]),
        ("provision_state=active", [2]),
        ("maintenance=true", [3]),
        ("associated=true", [2]),
        ("associated=false&shard=a", [0, 1]),
        (f"instance_uuid={INSTANCE}", [2]),
        (f"instance_uuid={OTHER}", []),
        ("owner=us", [0]),
        ("lessee=them", [0]),
        ("project=them", [0]),
        ("retired=true", [1]),
        ("fault=clean failure", [3]),
        ("driver=fake-hardware", [0, 1, 2, 3]),
        ("sort_dir=desc", [3, 2, 1, 0]),
        ("sort_key=name&sort_dir=desc", [2, 1, 0, 3]),
        ("sort_key=shard", [3, 0, 1, 2]),
    ],
)
def test_filters_and_order(query: str, found: list[int]) -> None:
    fake = FakeIronic(conductors=(Conductor(), Conductor("conductor-2", "rack1")))
    nodes = [
        fake.add_node(name="b0", shard="a", owner="us", lessee="them"),
        fake.add_node(name="b1", shard="a", conductor_group="rack1", retired=True),
        fake.add_node(
            name="b2",
            shard="b",
            resource_class="gold",
            provision_state="active",
            instance_uuid=INSTANCE,
        ),
        fake.add_node(name="a3", maintenance=True, fault="clean failure"),
    ]
    assert uuids(Client(fake), query) == [nodes[index] for index in found]


def test_paging_over_a_column_with_nulls_loses_rows_as_in_ironic(
    fake: FakeIronic, api: Client
) -> None:
    nodes = fake.add_nodes(3)
    api.send("PATCH", f"/nodes/{nodes[0]}", change("/extra/a", 1, "add"))
    assert uuids(api, "sort_key=updated_at&sort_dir=desc") == [nodes[0], nodes[2], nodes[1]]
    assert uuids(api, f"sort_key=updated_at&sort_dir=desc&marker={nodes[0]}") == []


def test_it_can_sort_what_has_no_value_as_postgresql_does() -> None:
    fake = FakeIronic(nulls_sort_last=True)
    nodes = fake.add_nodes(3)
    api = Client(fake)
    api.send("PATCH", f"/nodes/{nodes[1]}", change("/extra/a", 1, "add"))
    assert uuids(api, "sort_key=updated_at&sort_dir=desc") == [nodes[2], nodes[0], nodes[1]]
    assert uuids(api, "sort_key=updated_at&sort_dir=asc") == [nodes[1], nodes[0], nodes[2]]
    assert uuids(api, f"sort_key=updated_at&sort_dir=asc&marker={nodes[1]}") == []


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("limit=0", 400, "Limit must be positive"),
        ("limit=x", 400, "Expected an integer for limit: x"),
        (f"marker={OTHER}", 404, f"Node {OTHER} could not be found."),
        ("provision_state=odd", 400, 'Provision state "odd" is not valid'),
        ("surprise=1", 400, "Unexpected arguments: surprise"),
        ("fields=updated_at", 400, "Field updated_at is not a valid field."),
        ("fields=allocation_uuid", 500, "type object 'Node' has no attribute 'allocation_uuid'"),
        ("sort_key=extra", 400, "The sort_key value extra is an invalid field for sorting"),
        ("sort_key=odd", 400, 'The sort_key value "odd" is an invalid field for sorting'),
        (
            "fields=uuid&detail=true",
            400,
            "Can not specify ?detail=True and fields in the same request.",
        ),
    ],
)
def test_bad_queries(fake: FakeIronic, api: Client, query: str, status: int, message: str) -> None:
    fake.add_node()
    assert api.refused("GET", f"/nodes?{query}") == (status, message)


def test_a_single_node_shows_what_is_asked_for(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(traits=["CUSTOM_B", "CUSTOM_A"], name="it")
    body = api.get("/nodes/it?fields=uuid,traits,allocation_uuid,conductor")
    assert body.pop("links")
    assert body == {
        "uuid": node,
        "traits": ["CUSTOM_A", "CUSTOM_B"],
        "allocation_uuid": None,
        "conductor": "conductor-1",
    }


def test_shards_are_counted(fake: FakeIronic, api: Client) -> None:
    fake.add_nodes(2, shard="a")
    fake.add_node()
    assert api.get("/shards") == {
        "shards": [{"name": "a", "count": 2}, {"name": "None", "count": 1}]
    }


# Create


def test_a_new_node_enrolls_or_is_available_in_old_versions(api: Client) -> None:
    body = {"driver": "fake-hardware", "name": "new"}
    response = api.send("POST", "/nodes", body)
    assert response.status_code == 201
    assert response.headers["Location"] == f"{URL}/v1/nodes/{response.json()['uuid']}"
    node = api.get("/nodes/new")
    assert (node["provision_state"], node["updated_at"]) == ("enroll", None)
    assert api.refused("POST", "/nodes", body)[0] == 409
    body = {"driver": "fake-hardware", "name": "old"}
    assert api.send("POST", "/nodes", body, "1.10").json()["provision_state"] == "available"


@pytest.mark.parametrize(
    "body",
    [{}, {"driver": "nope"}, {"driver": "fake-hardware", "conductor_group": "nope"}, []],
)
def test_nodes_that_can_not_be_are_not_created(api: Client, body: Any) -> None:
    assert api.refused("POST", "/nodes", body)[0] == 400


# Patch


def test_a_patch_changes_one_field_only(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    before = fake.node(node)
    fake.advance(5)
    response = api.send("PATCH", f"/nodes/{node}", change("/extra/a", 1, "add"))
    assert response.status_code == 200
    after = fake.node(node)
    changed = {key for key in after if after[key] != before[key]}
    assert changed == {"extra", "updated_at"}
    assert after["extra"] == {"a": 1}


def test_two_instances_never_share_a_node_nor_two_nodes_an_instance(
    fake: FakeIronic, api: Client
) -> None:
    first, second = fake.add_nodes(2)
    take = change("/instance_uuid", INSTANCE)
    assert api.send("PATCH", f"/nodes/{first}", take).status_code == 200
    assert api.send("PATCH", f"/nodes/{first}", take).status_code == 200
    status, message = api.refused("PATCH", f"/nodes/{second}", take)
    assert (status, message.startswith(f"Instance {INSTANCE} is already")) == (409, True)
    status, message = api.refused("PATCH", f"/nodes/{first}", change("/instance_uuid", OTHER))
    assert (status, message) == (409, f"Node {first} is associated with instance {INSTANCE}.")
    remove = [{"op": "remove", "path": "/instance_uuid"}]
    assert api.send("PATCH", f"/nodes/{first}", remove).status_code == 200
    assert api.send("PATCH", f"/nodes/{second}", take).status_code == 200


def test_a_node_in_transition_is_not_patched_but_a_failed_one_is(
    fake: FakeIronic, api: Client
) -> None:
    node = fake.add_node()
    api.provision(node, "active")
    status, message = api.refused("PATCH", f"/nodes/{node}", change("/extra/a", 1, "add"))
    assert status == 409
    assert message == f"Node {node} can not be updated while a state transition is in progress."
    fake.set_node(node, provision_state="deploy failed", target_provision_state="active")
    response = api.send("PATCH", f"/nodes/{node}", change("/extra/a", 1, "add"))
    assert response.status_code == 200


def test_a_node_moves_only_to_a_conductor_group_that_is_served() -> None:
    fake = FakeIronic(conductors=(Conductor(), Conductor("conductor-2", "rack1")))
    api = Client(fake)
    node = fake.add_node()
    status, _ = api.refused("PATCH", f"/nodes/{node}", change("/conductor_group", "rack9"))
    assert status == 400
    response = api.send("PATCH", f"/nodes/{node}", change("/conductor_group", "RACK1"))
    assert response.json()["conductor_group"] == "rack1"
    assert api.get(f"/nodes/{node}")["conductor"] == "conductor-2"


def test_secrets_are_masked(fake: FakeIronic, api: Client) -> None:
    info = {"configdrive": "abc", "admin_pass": "x", "image_url": "y", "display_name": "z"}
    node = fake.add_node(instance_info=info, driver_info={"ipmi_password": "x"})
    body = api.get(f"/nodes/{node}")
    assert body["instance_info"] == {
        "configdrive": "******",
        "admin_pass": "******",
        "image_url": "******",
        "display_name": "z",
    }
    assert body["driver_info"] == {"ipmi_password": "******"}
    assert fake.node(node)["instance_info"] == info


# Delete and the rest


def test_a_node_in_use_is_not_deleted(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(instance_uuid=INSTANCE)
    assert api.refused("DELETE", f"/nodes/{node}")[0] == 409
    fake.set_node(node, instance_uuid=None, provision_state="active")
    assert api.refused("DELETE", f"/nodes/{node}")[0] == 409
    fake.set_node(node, maintenance=True)
    assert api.send("DELETE", f"/nodes/{node}").status_code == 204
    assert api.refused("GET", f"/nodes/{node}")[0] == 404


def test_maintenance_comes_with_a_reason_and_goes_with_it(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    assert api.send("PUT", f"/nodes/{node}/maintenance", {"reason": "fan"}).status_code == 202
    values = fake.node(node)
    assert (values["maintenance"], values["maintenance_reason"]) == (True, "fan")
    status, message = api.refused("PUT", f"/nodes/{node}/states/provision", {"target": "active"})
    assert (status, "maintenance" in message) == (400, True)
    assert api.send("DELETE", f"/nodes/{node}/maintenance").status_code == 202
    values = fake.node(node)
    assert (values["maintenance"], values["maintenance_reason"]) == (False, None)


def test_validation_tells_what_is_wrong(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(instance_info={"traits": ["CUSTOM_X"]})
    fake.invalidate(node, "power", "no BMC")
    body = api.get(f"/nodes/{node}/validate")
    assert body["power"] == {"result": False, "reason": "no BMC"}
    assert "CUSTOM_X" in body["deploy"]["reason"]
    assert body["boot"] == {"result": True}
    status, message = api.refused("PUT", f"/nodes/{node}/states/provision", {"target": "active"})
    assert (status, "no BMC" in message) == (400, True)
    fake.invalidate(node, "power", None)
    assert api.get(f"/nodes/{node}/validate")["power"] == {"result": True}


def test_traits_are_replaced_added_and_removed(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    path = f"/nodes/{node}/traits"
    api.send("PUT", path, {"traits": ["CUSTOM_B", "HW_CPU_X86_AVX2"]})
    api.send("PUT", f"{path}/CUSTOM_A")
    assert api.get(path) == {"traits": ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_AVX2"]}
    assert api.send("DELETE", f"{path}/CUSTOM_B").status_code == 204
    assert api.refused("DELETE", f"{path}/CUSTOM_B")[0] == 404
    assert api.refused("PUT", path, {"traits": ["odd"]})[0] == 400
    api.send("DELETE", path)
    assert api.get(path) == {"traits": []}


def test_the_console_is_switched(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    path = f"/nodes/{node}/states/console"
    assert api.get(path) == {"console_enabled": False, "console_info": None}
    assert api.send("PUT", path, {"enabled": True}).status_code == 202
    assert api.get(path) == {"console_enabled": True, "console_info": {}}


def test_an_nmi_needs_hardware_that_can(api: Client, fake: FakeIronic) -> None:
    node = fake.add_node()
    assert api.refused("PUT", f"/nodes/{node}/management/inject_nmi", {})[0] == 400
    able = FakeIronic(supports_nmi=True)
    node = able.add_node()
    response = Client(able).send("PUT", f"/nodes/{node}/management/inject_nmi", {})
    assert response.status_code == 204
