# SPDX-License-Identifier: Apache-2.0

"""Version documents, negotiation, and what each API version knows."""

import pytest

from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.testing.fake_ironic.conftest import URL, Client

VERSION = "X-OpenStack-Ironic-API-Version"


def test_the_version_documents_tell_the_configured_range() -> None:
    fake = FakeIronic(min_version=(1, 51), max_version=(1, 81))
    api = Client(fake)
    root = api.session.get(URL).json()
    assert (root["default_version"]["min_version"], root["default_version"]["version"]) == (
        "1.51",
        "1.81",
    )
    assert root["default_version"]["links"] == [{"href": f"{URL}/v1/", "rel": "self"}]
    document = api.get("")
    assert document["version"]["version"] == "1.81"
    assert "allocations" in document
    assert "shards" not in document


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [("latest", "1.81"), ("1.60", "1.60"), ("1.51", "1.51"), (None, "1.51")],
)
def test_a_version_in_range_is_agreed_on(asked: str | None, agreed: str) -> None:
    api = Client(FakeIronic(min_version=(1, 51), max_version=(1, 81)))
    headers = {} if asked is None else {VERSION: asked}
    response = api.session.get(f"{URL}/v1/nodes", headers=headers)
    assert response.headers[VERSION] == agreed
    assert response.headers["X-OpenStack-Ironic-API-Minimum-Version"] == "1.51"
    assert response.headers["X-OpenStack-Ironic-API-Maximum-Version"] == "1.81"


def test_the_openstack_wide_version_header_counts_as_well(api: Client) -> None:
    headers = {"OpenStack-API-Version": "compute 2.1, baremetal 1.58"}
    response = api.session.get(f"{URL}/v1/nodes", headers=headers)
    assert response.headers[VERSION] == "1.58"


@pytest.mark.parametrize("asked", ["1.50", "1.82", "2.1"])
def test_a_version_out_of_range_is_not_acceptable(asked: str) -> None:
    api = Client(FakeIronic(min_version=(1, 51), max_version=(1, 81)))
    status, message = api.refused("GET", "/nodes", version=asked)
    assert status == 406
    assert message.endswith("The supported version range is: [1.51, 1.81].")
    response = api.send("GET", "/nodes", version=asked)
    assert response.headers["X-OpenStack-Ironic-API-Maximum-Version"] == "1.81"


@pytest.mark.parametrize(
    ("path", "since"),
    [
        ("/nodes?conductor_group=a", 46),
        ("/nodes?owner=a", 50),
        ("/nodes?lessee=a", 65),
        ("/nodes?shard=a", 82),
        ("/nodes?sharded=true", 82),
        ("/nodes?fields=resource_class", 21),
        ("/nodes?fields=retired", 61),
        ("/nodes?fields=shard", 82),
        ("/nodes?fields=instance_name", 104),
        ("/nodes?sort_key=shard", 82),
        ("/nodes?instance_name=a", 104),
        ("/nodes?parent_node=a", 83),
    ],
)
def test_filters_and_fields_need_their_version(api: Client, path: str, since: int) -> None:
    assert api.refused("GET", path, version=f"1.{since - 1}")[0] == 406
    assert api.send("GET", path, version=f"1.{since}").status_code == 200


@pytest.mark.parametrize(
    ("path", "since"),
    [("/allocations", 52), ("/shards", 82), ("/conductors", 49), ("/volume/targets", 32)],
)
def test_collections_need_their_version(api: Client, path: str, since: int) -> None:
    assert api.refused("GET", path, version=f"1.{since - 1}")[0] == 404
    assert api.send("GET", path, version=f"1.{since}").status_code == 200


@pytest.mark.parametrize(
    ("field", "since"),
    [("traits", 37), ("conductor_group", 46), ("allocation_uuid", 52), ("shard", 82)],
)
def test_a_node_hides_fields_that_are_too_new(
    fake: FakeIronic, api: Client, field: str, since: int
) -> None:
    node = fake.add_node()
    assert field not in api.get(f"/nodes/{node}", version=f"1.{since - 1}")
    assert field in api.get(f"/nodes/{node}", version=f"1.{since}")


def test_old_versions_see_old_names_of_states(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(provision_state="inspect wait")
    other = fake.add_node()
    assert api.get(f"/nodes/{node}", version="1.38")["provision_state"] == "inspecting"
    assert api.get(f"/nodes/{node}", version="1.39")["provision_state"] == "inspect wait"
    assert api.get(f"/nodes/{other}", version="1.1")["provision_state"] is None


@pytest.mark.parametrize(
    ("version", "drive", "status"),
    [
        ("1.55", {"meta_data": {}}, 400),
        ("1.56", {"meta_data": {}}, 202),
        ("1.58", {"vendor_data": {}}, 400),
        ("1.59", {"vendor_data": {}}, 202),
        ("1.38", "aGVsbG8=", 202),
        ("1.38", "not base64!", 400),
        ("1.115", {"surprise": {}}, 400),
    ],
)
def test_config_drives_by_version(
    fake: FakeIronic, api: Client, version: str, drive: object, status: int
) -> None:
    node = fake.add_node()
    body = {"target": "active", "configdrive": drive}
    response = api.send("PUT", f"/nodes/{node}/states/provision", body, version)
    assert response.status_code == status


def test_errors_have_the_shape_and_the_request_id_of_ironic(api: Client) -> None:
    response = api.send("GET", "/nodes/nope")
    assert response.status_code == 404
    assert response.json() == {
        "error_message": '{"faultcode": "Client", "faultstring": "Node nope could not be found.",'
        ' "debuginfo": null}'
    }
    assert response.headers["openstack-request-id"].startswith("req-")
    assert response.headers["x-openstack-request-id"] == response.headers["openstack-request-id"]
    response = api.send("GET", "/surprise")
    assert response.json() == {
        "error_message": '{"code": 404, "title": "Not Found", "description": ""}'
    }
    assert api.send("PUT", "/nodes").status_code == 405


def test_a_token_is_asked_for_where_one_is_set() -> None:
    api = Client(FakeIronic(token="secret"))
    assert api.send("GET", "/nodes").status_code == 401
    assert api.session.get(URL).status_code == 200
    api.session.headers["X-Auth-Token"] = "secret"
    assert api.send("GET", "/nodes").status_code == 200
