# SPDX-License-Identifier: Apache-2.0

"""What a test can do with the fake Ironic; that its API is Ironic's is tested by the checks
of ``tests/conformance``."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from keystoneauth1 import adapter, noauth, session

from ironic_virt.testing.fake_ironic import Conductor, Durations, FakeIronic, RealClock

URL = "http://ironic.test"
VERSION = "X-OpenStack-Ironic-API-Version"
INSTANCE = str(uuid.UUID(int=7))
EXTRA = [{"op": "add", "path": "/extra/a", "value": 1}]


class Client:
    """Sends requests with an API version, and tells status and body."""

    def __init__(self, fake: FakeIronic, version: str = "latest") -> None:
        self.session = requests.Session()
        self.session.mount(URL, fake.adapter())
        self.version = version

    def send(
        self, method: str, path: str, body: Any = None, version: str | None = None
    ) -> requests.Response:
        headers = {VERSION: version or self.version}
        return self.session.request(method, f"{URL}/v1{path}", json=body, headers=headers)

    def get(self, path: str, version: str | None = None) -> Any:
        response = self.send("GET", path, version=version)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, method: str, path: str, body: Any = None, version: str | None = None) -> Any:
        """Status and message of an answer that must be an error."""
        response = self.send(method, path, body, version)
        fault = requests.models.complexjson.loads(response.json()["error_message"])
        return response.status_code, fault.get("faultstring", fault.get("description"))

    def provision(self, node: str, target: str, **arguments: Any) -> None:
        self._state(node, "provision", target, arguments)

    def power(self, node: str, target: str, **arguments: Any) -> None:
        self._state(node, "power", target, arguments)

    def _state(self, node: str, kind: str, target: str, arguments: dict[str, Any]) -> None:
        body = {"target": target, **arguments}
        response = self.send("PUT", f"/nodes/{node}/states/{kind}", body)
        assert response.status_code == 202, response.text


@pytest.fixture
def fake() -> FakeIronic:
    """A fake Ironic on which everything takes ten seconds."""
    spans = ("deploy", "undeploy", "clean", "inspect", "verify", "rescue", "unrescue", "adopt")
    durations = Durations(service=10.0, power=10.0, **dict.fromkeys(spans, 10.0))
    return FakeIronic(durations=durations)


@pytest.fixture
def api(fake: FakeIronic) -> Iterator[Client]:
    client = Client(fake)
    yield client
    client.session.close()


def states(fake: FakeIronic, node: str) -> tuple[str, str | None]:
    values = fake.node(node)
    return values["provision_state"], values["target_provision_state"]


# -- time ---------------------------------------------------------------------------


def test_a_node_whose_image_is_written_is_not_deployed_without_one(
    fake: FakeIronic, api: Client
) -> None:
    imaged, booting, without = (fake.add_node(deploy_interface="direct") for _ in range(3))
    fake.set_node(imaged, instance_info={"image_source": "https://images.example.test/a.raw"})
    api.provision(imaged, "active")
    target = {"node_uuid": booting, "volume_type": "iscsi", "boot_index": 0, "volume_id": "v"}
    assert api.send("POST", "/volume/targets", target).status_code == 201
    api.provision(booting, "active")
    path = f"/nodes/{without}/states/provision"
    status, said = api.refused("PUT", path, {"target": "active"})
    assert (status, "'instance_info.image_source'" in said) == (400, True)


def test_a_deployment_locks_the_node_until_its_time_is_over(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    api.provision(node, "active")
    for moment, found in ((0, "deploying"), (9.9, "deploying"), (0.1, "active")):
        fake.advance(moment)
        assert fake.node(node)["provision_state"] == found
        assert fake.node(node)["reservation"] == ("conductor-1" if found == "deploying" else None)


def test_with_wait_states_the_second_half_is_not_locked_and_can_be_ended() -> None:
    fake = FakeIronic(durations=Durations(deploy=10, undeploy=2, clean=2), wait_states=True)
    api = Client(fake)
    node = fake.add_node()
    for is_ended in (True, False):
        api.provision(node, "active")
        fake.advance(5)
        assert states(fake, node) == ("wait call-back", "active")
        assert fake.node(node)["reservation"] is None
        if is_ended:
            api.provision(node, "deleted")
            assert states(fake, node) == ("deleting", "available")
            fake.settle()
            assert states(fake, node) == ("available", None)
    fake.advance(5)
    assert states(fake, node) == ("active", None)


def test_what_follows_starts_when_what_it_follows_ended_not_when_somebody_looks(
    fake: FakeIronic, api: Client
) -> None:
    node = fake.add_node(provision_state="active", instance_uuid=INSTANCE)
    api.provision(node, "deleted")
    fake.advance(20)
    assert states(fake, node) == ("available", None)
    assert fake.node(node)["provision_updated_at"] == "2026-01-01T00:00:20+00:00"
    assert fake.node(node)["instance_uuid"] is None


def test_power_changes_and_allocations_take_their_time() -> None:
    fake = FakeIronic(durations=Durations(power=10, allocate=3))
    api = Client(fake)
    node = fake.add_node()
    api.power(node, "power on")
    values = fake.node(node)
    assert (values["power_state"], values["target_power_state"]) == ("power off", "power on")
    fake.settle()
    assert fake.node(node)["power_state"] == "power on"
    api.send("POST", "/allocations", {"uuid": INSTANCE, "resource_class": "baremetal"})
    assert api.get(f"/allocations/{INSTANCE}")["state"] == "allocating"
    fake.advance(3)
    assert api.get(f"/allocations/{INSTANCE}")["node_uuid"] == node


def test_durations_out_of_a_range_repeat_with_the_seed() -> None:
    def moments(seed: int) -> list[float]:
        fake = FakeIronic(durations=Durations(deploy=(5, 30)), seed=seed)
        api = Client(fake)
        for node in fake.add_nodes(5):
            api.provision(node, "active")
        due = []
        start = fake.clock.now()
        while (moment := fake.bm.timeline.next_due()) is not None:
            due.append(moment - start)
            fake.advance(moment - fake.clock.now())
        return due

    assert moments(1) == moments(1) != moments(2)
    assert all(5 <= moment <= 30 for moment in moments(1))


def test_only_a_virtual_clock_can_be_moved() -> None:
    with pytest.raises(TypeError):
        FakeIronic(clock=RealClock()).advance(1)
    with pytest.raises(ValueError, match="go back"):
        FakeIronic().clock.advance(-1)  # type: ignore[attr-defined]


# -- hardware and people ------------------------------------------------------------


def test_a_lock_refuses_changes_and_names_who_has_it(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    fake.lock_node(node, "conductor-9")
    refusal = (
        409,
        f"Node {node} is locked by host conductor-9, please retry after the current operation is"
        " completed.",
    )
    assert api.refused("PATCH", f"/nodes/{node}", EXTRA) == refusal
    fake.unlock_node(node)
    assert api.send("PATCH", f"/nodes/{node}", EXTRA).status_code == 200


def test_an_operation_can_be_made_to_fail(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    fake.fail_next("deploy", "the disk is on fire")
    api.provision(node, "active")
    fake.settle()
    assert states(fake, node) == ("deploy failed", "active")
    assert fake.node(node)["last_error"] == "the disk is on fire"
    fake.fail_next("clean", "no ramdisk", node=node)
    api.provision(node, "deleted")
    fake.settle()
    values = fake.node(node)
    assert states(fake, node) == ("clean failed", "available")
    assert (values["maintenance"], values["fault"]) == (True, "clean failure")
    fake.add_node()
    fake.fail_next("allocate", "out of luck")
    api.send("POST", "/allocations", {"uuid": INSTANCE, "resource_class": "baremetal"})
    assert "out of luck" in api.get(f"/allocations/{INSTANCE}")["last_error"]
    with pytest.raises(ValueError, match="none of deploy"):
        fake.fail_next("explode", "boom")


def test_a_node_can_be_made_invalid(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    fake.invalidate(node, "power", "no BMC")
    assert api.get(f"/nodes/{node}/validate")["power"] == {"result": False, "reason": "no BMC"}
    status, message = api.refused("PUT", f"/nodes/{node}/states/provision", {"target": "active"})
    assert (status, "no BMC" in message) == (400, True)
    fake.invalidate(node, "power", None)
    assert api.get(f"/nodes/{node}/validate")["power"] == {"result": True}


def test_an_instance_can_ignore_a_soft_power_off(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(power_state="power on")
    fake.ignore_soft_power(node)
    api.power(node, "soft power off", timeout=30)
    fake.advance(29)
    assert fake.node(node)["target_power_state"] == "power off"
    fake.advance(1)
    assert fake.node(node)["power_state"] == "power on"
    assert "soft power off" in fake.node(node)["last_error"]
    api.power(node, "power off")
    fake.settle()
    assert fake.node(node)["power_state"] == "power off"


def test_a_node_can_wait_for_servicing_and_be_held(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node(provision_state="active")
    step = {"interface": "vendor", "step": "trigger_servicewait"}
    api.provision(node, "service", service_steps=[step])
    fake.settle()
    assert states(fake, node) == ("service wait", "active")
    api.provision(node, "deleted")
    fake.settle()
    assert states(fake, node) == ("available", None)
    held = fake.add_node(provision_state="deploy hold", target_provision_state="active")
    api.provision(held, "unhold")
    assert states(fake, held) == ("wait call-back", "active")


def test_a_removed_node_takes_everything_with_it(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    api.provision(node, "active")
    fake.remove_node(node)
    fake.settle()
    assert api.get("/nodes") == {"nodes": []}
    assert api.get("/ports") == {"ports": []}
    with pytest.raises(LookupError):
        fake.node(node)


# -- how it is set up ---------------------------------------------------------------


def test_the_same_seed_makes_the_same_nodes() -> None:
    assert FakeIronic(seed=3).add_nodes(3) == FakeIronic(seed=3).add_nodes(3)
    assert FakeIronic(seed=3).add_nodes(3) != FakeIronic(seed=4).add_nodes(3)


@pytest.mark.parametrize(
    ("nulls_sort_last", "found"), [(False, ["120", "021", ""]), (True, ["201", "102", ""])]
)
def test_it_can_sort_what_has_no_value_as_each_database_does(
    nulls_sort_last: bool, found: list[str]
) -> None:
    fake = FakeIronic(nulls_sort_last=nulls_sort_last)
    nodes = fake.add_nodes(3)
    api = Client(fake)
    api.send("PATCH", f"/nodes/{nodes[1]}", EXTRA)
    behind = f"sort_dir={'asc' if nulls_sort_last else 'desc'}&marker={nodes[1]}"
    queries = ("sort_dir=desc", "sort_dir=asc", behind)
    listed = [api.get(f"/nodes?sort_key=updated_at&{query}")["nodes"] for query in queries]
    assert ["".join(str(nodes.index(node["uuid"])) for node in page) for page in listed] == found


def test_it_has_the_conductors_versions_and_token_that_it_is_given() -> None:
    fake = FakeIronic(
        conductors=(Conductor(), Conductor("conductor-2", "rack1")),
        min_version=(1, 51),
        max_version=(1, 81),
        token="secret",
    )
    api = Client(fake)
    assert api.session.get(URL).json()["default_version"]["version"] == "1.81"
    assert api.send("GET", "/nodes").status_code == 401
    api.session.headers["X-Auth-Token"] = "secret"
    node = fake.add_node(conductor_group="rack1")
    assert api.get(f"/nodes/{node}", version="1.51")["conductor"] == "conductor-2"
    for version in ("1.50", "1.82"):
        status, message = api.refused("GET", "/nodes", version=version)
        assert (status, message.endswith("range is: [1.51, 1.81].")) == (406, True)


# -- faults ---------------------------------------------------------------------------


def test_a_status_fault_keeps_the_request_from_having_an_effect(
    fake: FakeIronic, api: Client
) -> None:
    node = fake.add_node()
    fault = fake.faults.status(503, "PUT", "/states/power")
    refused = api.refused("PUT", f"/nodes/{node}/states/power", {"target": "power on"})
    assert refused == (503, "Injected error 503")
    assert fake.node(node)["target_power_state"] is None
    assert fault.hits == 1
    api.power(node, "power on")


@pytest.mark.parametrize(
    ("kind", "error", "seen"),
    [
        ("reset", requests.ConnectionError, (0, "reset")),
        ("hang", requests.ReadTimeout, (0, "hang")),
        ("lose_reply", requests.ConnectionError, (201, "lost")),
        ("truncate", requests.exceptions.ChunkedEncodingError, (201, "truncate")),
    ],
)
def test_no_whole_answer_comes_before_the_effect_or_after_it(
    fake: FakeIronic, api: Client, kind: str, error: type[Exception], seen: tuple[int, str]
) -> None:
    getattr(fake.faults, kind)("POST", "/nodes$")
    with pytest.raises(error):
        api.send("POST", "/nodes", {"driver": "fake-hardware", "name": "it"})
    assert (fake.requests[0].status, fake.requests[0].fault) == seen
    assert [node["name"] for node in fake.nodes()] == ([] if seen[0] == 0 else ["it"])


def test_a_delay_moves_the_virtual_clock_and_sleeps_where_time_is_real(
    fake: FakeIronic, api: Client
) -> None:
    node = fake.add_node()
    api.provision(node, "active")
    fake.faults.delay(10, "GET")
    assert api.get(f"/nodes/{node}")["provision_state"] == "active"
    slept: list[float] = []
    slow = FakeIronic(clock=RealClock(), sleep=slept.append)
    slow.faults.delay(2.5)
    assert Client(slow).send("GET", "/nodes").status_code == 200
    assert slept == [2.5]


def test_a_fault_strikes_from_the_nth_match_on_and_can_look_at_the_body(
    fake: FakeIronic, api: Client
) -> None:
    fake.faults.status(500, "GET", "/nodes", nth=2, count=2)
    found = [api.send("GET", "/nodes").status_code for _ in range(5)]
    assert found == [200, 500, 500, 200, 200]
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


# -- what a test looks at -------------------------------------------------------------


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


def test_secrets_are_masked_in_answers_only(fake: FakeIronic, api: Client) -> None:
    info = {"configdrive": "abc", "display_name": "z"}
    node = fake.add_node(instance_info=info)
    assert api.get(f"/nodes/{node}")["instance_info"] == info | {"configdrive": "******"}
    assert fake.node(node)["instance_info"] == info


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


@pytest.mark.parametrize(
    "name",
    [
        *("continue_inspection", "deploy_templates", "events", "heartbeat", "inspection_rules"),
        *("lookup", "runbooks"),
    ],
)
def test_what_it_does_not_offer_is_neither_named_nor_found(api: Client, name: str) -> None:
    assert name not in api.get("")
    assert api.refused("GET", f"/{name}") == (404, "")


def test_a_delete_with_an_argument_deletes_nothing(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    assert api.refused("DELETE", f"/nodes/{node}?a=1") == (400, "Unexpected arguments: a")
    assert fake.node(node)["uuid"] == node


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [
        ("/nodes", 1 << 20, 400),
        ("/nodes", (1 << 20) + 1, 413),
        ("/nodes/n/states/provision", (1 << 20) + 1, 404),
    ],
)
def test_bodies_have_a_largest_size(
    fake: FakeIronic, api: Client, path: str, size: int, status: int
) -> None:
    body = {"target": "x" * (size - len(b'{"target": ""}'))}
    assert api.send("POST" if path == "/nodes" else "PUT", path, body).status_code == status
