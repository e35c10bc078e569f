# SPDX-License-Identifier: Apache-2.0

"""What a test can do with the fake Ironic; that its API is Ironic's is tested by the checks
of ``tests/conformance``."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from ironic_virt.testing.fake_ironic import Conductor, Durations, FakeIronic, RealClock

URL = "http://ironic.test"
VERSION = "X-OpenStack-Ironic-API-Version"
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


def test_it_is_at_work_on_one_request_at_a_time(fake: FakeIronic, api: Client) -> None:
    taken = []
    with ThreadPoolExecutor(1) as other:

        def try_lock() -> None:
            taken.append(other.submit(fake.lock.acquire, blocking=False).result())

        # It happens in the next request.
        fake.bm.timeline.after(0, try_lock)
        api.get("/nodes")
    assert taken == [False]


def states(fake: FakeIronic, node: str) -> tuple[str, str | None]:
    values = fake.node(node)
    return values["provision_state"], values["target_provision_state"]


# -- time ---------------------------------------------------------------------------


def test_with_wait_states_the_second_half_is_not_locked() -> None:
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


def test_durations_out_of_a_range_repeat_with_the_seed() -> None:
    def moment(seed: int) -> float:
        fake = FakeIronic(durations=Durations(deploy=(5, 30)), seed=seed)
        Client(fake).provision(fake.add_node(), "active")
        return (fake.bm.timeline.next_due() or 0) - fake.clock.now()

    assert 5 <= moment(1) == moment(1) != moment(2) <= 30


# -- how it is set up ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("nulls_sort_last", "found"), [(False, ["120", "021", ""]), (True, ["201", "102", ""])]
)
def test_it_can_sort_what_has_no_value_as_each_database_does(nulls_sort_last, found) -> None:
    fake = FakeIronic(nulls_sort_last=nulls_sort_last)
    nodes = fake.add_nodes(3)
    api = Client(fake)
    api.send("PATCH", f"/nodes/{nodes[1]}", EXTRA)
    behind = f"sort_dir={'asc' if nulls_sort_last else 'desc'}&marker={nodes[1]}"
    queries = ("sort_dir=desc", "sort_dir=asc", behind)
    listed = [api.get(f"/nodes?sort_key=updated_at&{query}")["nodes"] for query in queries]
    assert ["".join(str(nodes.index(node["uuid"])) for node in page) for page in listed] == found


def test_it_has_the_conductors_versions_and_token_it_is_given() -> None:
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


@pytest.mark.parametrize(
    ("kind", "error", "seen"),
    [
        ("reset", requests.ConnectionError, (0, "reset")),
        ("hang", requests.ReadTimeout, (0, "hang")),
        ("lose_reply", requests.ConnectionError, (201, "lost")),
        ("truncate", requests.exceptions.ChunkedEncodingError, (201, "truncate")),
    ],
)
def test_no_whole_answer_comes_before_the_effect_or_after_it(fake, api, kind, error, seen) -> None:
    getattr(fake.faults, kind)("POST", "/nodes$")
    with pytest.raises(error):
        api.send("POST", "/nodes", {"driver": "fake-hardware", "name": "it"})
    assert (fake.requests[0].status, fake.requests[0].fault) == seen
    assert [node["name"] for node in fake.nodes()] == ([] if seen[0] == 0 else ["it"])


def test_a_delay_moves_the_virtual_clock_or_really_sleeps(fake: FakeIronic, api: Client) -> None:
    node = fake.add_node()
    api.provision(node, "active")
    fake.faults.delay(10, "GET")
    assert api.get(f"/nodes/{node}")["provision_state"] == "active"
    slept: list[float] = []
    slow = FakeIronic(clock=RealClock(), sleep=slept.append)
    slow.faults.delay(2.5)
    assert Client(slow).send("GET", "/nodes").status_code == 200
    assert slept == [2.5]
