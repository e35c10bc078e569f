# SPDX-License-Identifier: Apache-2.0

"""Faults, the request log, and the ways into the fake Ironic in one process."""

import pytest
import requests
from keystoneauth1 import adapter, noauth, session

from ironic_virt.testing.fake_ironic import FakeIronic, RealClock
from tests.unit.testing.fake_ironic.conftest import URL, Client


def test_a_status_fault_keeps_the_request_from_having_an_effect(
    fake: FakeIronic, api: Client
) -> None:
    node = fake.add_node()
    fault = fake.faults.status(503, "PUT", "/states/power")
    body = {"target": "power on"}
    status, message = api.refused("PUT", f"/nodes/{node}/states/power", body)
    assert (status, message) == (503, "Injected error 503")
    assert fake.node(node)["target_power_state"] is None
    assert fault.hits == 1
    api.power(node, "power on")


def test_a_lost_reply_leaves_the_effect(fake: FakeIronic, api: Client) -> None:
    fake.faults.lose_reply("POST", "/nodes$")
    with pytest.raises(requests.ConnectionError):
        api.send("POST", "/nodes", {"driver": "fake-hardware", "name": "it"})
    assert fake.node("it")["provision_state"] == "enroll"
    assert [(entry.status, entry.fault) for entry in fake.requests] == [(201, "lost")]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("reset", requests.ConnectionError),
        ("hang", requests.ReadTimeout),
    ],
)
def test_reset_and_hang_come_before_the_effect(
    fake: FakeIronic, api: Client, kind: str, error: type[Exception]
) -> None:
    getattr(fake.faults, kind)("POST")
    with pytest.raises(error):
        api.send("POST", "/nodes", {"driver": "fake-hardware"})
    assert fake.nodes() == []
    assert fake.requests[0].status == 0


def test_a_truncated_body_is_an_error(fake: FakeIronic, api: Client) -> None:
    fake.faults.truncate("GET", "/nodes")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        api.send("GET", "/nodes")


def test_a_delay_moves_the_virtual_clock(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    api.provision(node, "active")
    fake.faults.delay(10, "GET")
    assert api.get(f"/nodes/{node}")["provision_state"] == "active"


def test_a_delay_sleeps_once_where_time_is_real() -> None:
    slept: list[float] = []
    fake = FakeIronic(clock=RealClock(), sleep=slept.append)
    fake.faults.delay(2.5)
    assert Client(fake).send("GET", "/nodes").status_code == 200
    assert slept == [2.5]


def test_a_fault_strikes_from_the_nth_match_on_so_many_times(
    fake: FakeIronic, api: Client
) -> None:
    fake.faults.status(500, "GET", "/nodes", nth=2, count=2)
    found = [api.send("GET", "/nodes").status_code for _ in range(5)]
    assert found == [200, 500, 500, 200, 200]


def test_a_fault_can_look_at_the_body(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    fake.faults.status(
        409, "PUT", count=None, when=lambda method, path, body: body["target"] == "power on"
    )
    path = f"/nodes/{node}/states/power"
    assert api.send("PUT", path, {"target": "power off"}).status_code == 202
    assert api.send("PUT", path, {"target": "power on"}).status_code == 409
    fake.faults.clear()
    fake.settle()
    assert api.send("PUT", path, {"target": "power on"}).status_code == 202


def test_the_request_log_tells_all_of_a_request(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    api.get("/nodes?limit=1", version="1.58")
    api.power(node, "power on")
    listing, power = fake.requests
    assert (listing.method, listing.path, listing.query) == ("GET", "/v1/nodes", "limit=1")
    assert (listing.version, listing.body, listing.status) == ("1.58", None, 200)
    assert fake.requests.mutating() == [power]
    assert fake.requests.matching("PUT", "/states/power$") == [power]
    assert (power.body, power.status) == ({"target": "power on"}, 202)
    fake.requests.clear()
    assert len(fake.requests) == 0


def test_keystoneauth_works_through_the_mock(fake: FakeIronic) -> None:
    node = fake.add_node(shard="a")
    plugin = noauth.NoAuth(endpoint=URL)
    client = adapter.Adapter(
        session.Session(auth=plugin), service_type="baremetal", default_microversion="1.82"
    )
    with fake.mock(URL):
        found = client.get("/v1/nodes?shard=a&fields=uuid,shard").json()["nodes"]
        assert [(row["uuid"], row["shard"]) for row in found] == [(node, "a")]
        assert client.get_endpoint_data().max_microversion == (1, 115)
        client.put(f"/v1/nodes/{node}/states/provision", json={"target": "active"})
        fake.advance(10)
        assert client.get(f"/v1/nodes/{node}").json()["provision_state"] == "active"


def test_the_mock_serves_its_host_only(fake: FakeIronic) -> None:
    fake.add_node()
    with fake.mock("http://one.test"), pytest.raises(BaseException, match="may not use the net"):
        requests.get("http://127.0.0.1:9/v1/nodes", timeout=1)


def test_a_removed_node_takes_everything_with_it(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    api.provision(node, "active")
    fake.remove_node(node)
    fake.settle()
    assert api.get("/nodes") == {"nodes": []}
    assert api.get("/ports") == {"ports": []}
    with pytest.raises(LookupError):
        fake.node(node)


def test_only_a_virtual_clock_can_be_moved() -> None:
    with pytest.raises(TypeError):
        FakeIronic(clock=RealClock()).advance(1)
    with pytest.raises(ValueError, match="go back"):
        FakeIronic().clock.advance(-1)  # type: ignore[attr-defined]


def test_unknown_operations_can_not_be_made_to_fail(fake: FakeIronic) -> None:
    with pytest.raises(ValueError, match="none of deploy"):
        fake.fail_next("explode", "boom")


def test_the_same_seed_makes_the_same_nodes() -> None:
    assert FakeIronic(seed=3).add_nodes(3) == FakeIronic(seed=3).add_nodes(3)
    assert FakeIronic(seed=3).add_nodes(3) != FakeIronic(seed=4).add_nodes(3)
