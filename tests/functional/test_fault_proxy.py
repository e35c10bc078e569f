# SPDX-License-Identifier: Apache-2.0

"""The fault proxy in front of a fake Ironic, as a plain client feels it."""

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer
from ironic_virt.testing.fault_proxy import (
    Delay,
    Drip,
    Edit,
    FaultProxy,
    Hang,
    MaxVersion,
    Redirect,
    ResetAfter,
    ResetBefore,
    Status,
    Truncate,
)

SECONDS = 60
"""More than anything here should take."""

VERSION = "X-OpenStack-Ironic-API-Version"
MAX_VERSION = "X-OpenStack-Ironic-API-Maximum-Version"


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "fault-proxy"]


def whole(answer: requests.Response, **_: Any) -> None:
    """Have a body that is cut off be an error, as it is with urllib3 2."""
    answer.raw.enforce_content_length = True


RACK = [{"op": "add", "path": "/extra/rack", "value": "12"}]


class Stage:
    """A fake Ironic with a node, the proxy in front of it, and a session at the proxy."""

    def __init__(self, fake: FakeIronic, proxy: FaultProxy) -> None:
        self.fake = fake
        self.proxy = proxy
        self.node = fake.add_node(name="it")
        self.path = f"/v1/nodes/{self.node}"
        self.session = requests.Session()
        self.session.headers[VERSION] = "1.82"
        self.session.hooks["response"].append(whole)

    def ask(self, method: str, path: str = "/v1/nodes", **options: Any) -> requests.Response:
        options.setdefault("timeout", SECONDS)
        return self.session.request(method, self.proxy.url + path, **options)

    def get(self, path: str = "/v1/nodes") -> Any:
        answer = self.ask("GET", path)
        answer.raise_for_status()
        return answer.json()

    def patch(self, **options: Any) -> requests.Response:
        """Give the node its rack."""
        return self.ask("PATCH", self.path, json=RACK, **options)

    @property
    def rack(self) -> Any:
        return self.fake.node(self.node)["extra"].get("rack")

    def passed(self) -> list[tuple[str, str, int, str | None]]:
        return [(row.method, row.path, row.status, row.fault) for row in self.proxy.requests]


@pytest.fixture
def stage(fake_ironic_server: FakeIronicServer) -> Iterator[Stage]:
    with FaultProxy(fake_ironic_server.url) as proxy:
        stage = Stage(fake_ironic_server.fake, proxy)
        with stage.session:
            yield stage
    assert threads() == []


def test_requests_pass_and_are_recorded(stage: Stage) -> None:
    assert stage.get("/v1/nodes?fields=uuid,name")["nodes"][0]["uuid"] == stage.node
    patched = stage.patch()
    assert patched.json()["extra"] == {"rack": "12"}
    assert patched.headers["x-openstack-request-id"].startswith("req-")
    assert stage.ask("PUT", f"{stage.path}/maintenance").status_code == 202
    assert stage.ask("DELETE", f"{stage.path}/maintenance").content == b""
    assert stage.ask("GET", "/v1/nodes/none").status_code == 404
    assert stage.ask("HEAD").content == b""
    assert [row.status for row in stage.proxy.requests][:5] == [200, 200, 202, 202, 404]
    first, second = list(stage.proxy.requests)[:2]
    assert (first.path, first.query, first.version) == ("/v1/nodes", "fields=uuid,name", "1.82")
    assert second.body == RACK


def test_links_lead_back_to_the_proxy(stage: Stage) -> None:
    uuids = {stage.node, *stage.fake.add_nodes(2)}
    page = stage.get("/v1/nodes?limit=2")
    assert page["next"].startswith(f"{stage.proxy.url}/v1/nodes?")
    rest = stage.session.get(page["next"], timeout=SECONDS).json()["nodes"]
    assert {row["uuid"] for row in [*page["nodes"], *rest]} == uuids
    assert len(stage.proxy.requests) == 2
    made = stage.ask("POST", json={"driver": "fake-hardware"})
    assert made.headers["Location"].startswith(f"{stage.proxy.url}/v1/nodes/")


def test_a_target_that_is_not_there_is_a_bad_gateway() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with FaultProxy(f"http://127.0.0.1:{nobody.getsockname()[1]}") as proxy:
            answer = requests.get(f"{proxy.url}/v1", timeout=SECONDS)
    assert answer.status_code == 502
    assert "got no answer from http://127.0.0.1:" in answer.text


@pytest.mark.parametrize(
    ("fault", "error", "row", "rack"),
    [
        (ResetBefore(), "reset by peer", (0, "reset-before"), None),
        (ResetAfter(), "reset by peer", (200, "reset-after"), "12"),
        (Truncate(5), r"IncompleteRead\(5 bytes", (200, "truncate"), "12"),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_a_lost_answer_has_an_effect_if_ironic_was_asked(stage, fault, error, row, rack) -> None:
    stage.proxy.add(fault, "PATCH", times=1)
    with pytest.raises(requests.RequestException, match=error):
        stage.patch()
    assert stage.rack == rack
    stage.patch()
    assert stage.rack == "12"
    assert stage.passed() == [("PATCH", stage.path, *row), ("PATCH", stage.path, 200, None)]


def test_a_dripping_body_comes_byte_by_byte(stage: Stage) -> None:
    stage.proxy.add(Drip(3600), times=1)
    with socket.create_connection(("127.0.0.1", stage.proxy.port), timeout=SECONDS) as raw:
        raw.sendall(b"GET /v1/nodes HTTP/1.1\r\nHost: x\r\n\r\n")
        got = b""
        while not got.endswith(b"\r\n\r\n"):
            got += raw.recv(1)
        assert raw.recv(100) == b"{"
        raw.settimeout(0.05)
        with pytest.raises(TimeoutError):
            raw.recv(100)
    stage.proxy.add(Drip(0))
    assert len(stage.get()["nodes"]) == 1


def test_a_delayed_request_is_passed_on_later(stage: Stage) -> None:
    rule = stage.proxy.add(Delay(3600), "PATCH")
    with pytest.raises(requests.ReadTimeout):
        stage.patch(timeout=(SECONDS, 0.05))
    assert stage.rack is None
    stage.proxy.rules.remove(rule)
    stage.proxy.add(Delay(0.001), "PATCH")
    stage.patch()
    assert stage.rack == "12"


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("cleared", [False, True])
def test_a_hanging_request_holds_up_nobody_until_it_is_released(stage, applied, cleared) -> None:
    hang = Hang(applied=applied)
    rule = stage.proxy.add(hang, "PATCH")
    arrived = threading.Event()
    fake = stage.fake
    fake.requests.listener = lambda entry: arrived.set() if entry.method == "PATCH" else None
    with ThreadPoolExecutor(1) as pool:
        url = stage.proxy.url + stage.path
        waiting = pool.submit(requests.patch, url, json=RACK, timeout=SECONDS)
        assert (arrived.wait(SECONDS) if applied else rule.wait(timeout=SECONDS)) is True
        assert stage.get()["nodes"][0]["uuid"] == stage.node
        assert not waiting.done()
        assert ("PATCH", stage.path, 0, "hang") in stage.passed()
        assert arrived.is_set() == applied
        if cleared:
            stage.proxy.rules.clear()
        else:
            hang.release()
        assert waiting.result(SECONDS).status_code == 200
    assert stage.rack == "12"
    assert len(fake.requests.matching("PATCH")) == 1


def test_closing_ends_what_waits_and_passes_nothing_on(stage: Stage) -> None:
    rule = stage.proxy.add(Hang())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(requests.get, f"{stage.proxy.url}/v1/nodes", timeout=SECONDS)
        assert rule.wait(timeout=SECONDS)
        stage.proxy.stop()
        with pytest.raises(requests.ConnectionError):
            waiting.result(SECONDS)
    assert len(stage.fake.requests) == 0


def test_away_it_refuses_connections_and_comes_back_where_it_was(stage: Stage) -> None:
    url = stage.proxy.url
    before = stage.get()
    with stage.proxy.away(), pytest.raises(requests.ConnectionError, match="refused"):
        stage.get()
    assert stage.proxy.url == url
    assert stage.get()["nodes"][0]["uuid"] == before["nodes"][0]["uuid"]


def test_a_status_and_a_redirect_are_answers_of_its_own(stage: Stage) -> None:
    stage.proxy.add(Redirect("http://b.invalid", keep_query=False), times=1)
    assert stage.ask("GET", "/v1/nodes?a=1", allow_redirects=False).headers["Location"] == (
        "http://b.invalid/v1/nodes"
    )
    stage.proxy.add(Status(503, "no conductor", {"Retry-After": "5"}), times=1)
    stage.proxy.add(Status(401, {"error": "who?"}), times=1)
    stage.proxy.add(Status(502, b"<html>"), times=1)
    answer = stage.ask("GET")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert json.loads(answer.json()["error_message"])["faultstring"] == "no conductor"
    assert stage.ask("GET").json() == {"error": "who?"}
    assert stage.ask("GET").content == b"<html>"
    assert [row.fault for row in stage.proxy.requests] == ["redirect", *["status"] * 3]
    assert len(stage.fake.requests) == 0


def test_an_older_api_server(stage: Stage) -> None:
    stage.proxy.add(MaxVersion("1.72"))
    refused = stage.ask("GET")
    assert (refused.status_code, refused.headers[MAX_VERSION]) == (406, "1.72")
    assert "[1.1, 1.72]" in refused.text
    assert len(stage.fake.requests) == 0
    for header in ({VERSION: "latest"}, {"OpenStack-API-Version": "baremetal latest"}):
        latest = stage.ask("GET", stage.path, headers=header)
        assert latest.headers[VERSION] == latest.headers[MAX_VERSION] == "1.72"
        assert "shard" not in latest.json()
    for path in ("/", "/v1", "/v1/"):
        stage.session.headers[VERSION] = "1.72"
        document = stage.get(path)
        found = document["version"] if path != "/" else document["default_version"]
        assert (found["min_version"], found["version"]) == ("1.1", "1.72")
    assert document["id"] == "v1"


@pytest.mark.parametrize(
    ("conditions", "struck"),
    [
        ({"times": 2}, [1, 2]),
        ({"after": 3}, [4, 5, 6, 7, 8, 9]),
        ({"every": 3}, [3, 6, 9]),
        ({"after": 2, "every": 3, "times": 1}, [5]),
        ({"rate": 0}, []),
    ],
)
def test_a_rule_counts(stage: Stage, conditions: Any, struck: list[int]) -> None:
    rule = stage.proxy.add(Status(503), "GET", r"/nodes\?marker=", **conditions)
    answers = []
    for _ in range(9):
        answers.append(stage.ask("GET", "/v1/nodes?marker=a").status_code)
        assert stage.ask("GET").status_code == 200
    assert [number for number, status in enumerate(answers, 1) if status == 503] == struck
    assert (rule.matches, rule.hits) == (9, len(struck))


def test_faults_add_up_and_rules_apply_when_a_request_arrives(stage: Stage) -> None:
    stage.proxy.add(MaxVersion("1.82"))
    once = stage.proxy.add(Status(503), times=1)
    lost = stage.proxy.add(ResetAfter(), when=lambda request: request.method == "PATCH")
    assert stage.patch().status_code == 503
    assert (once.hits, lost.matches) == (1, 0)
    with pytest.raises(requests.ConnectionError):
        stage.patch()
    stage.proxy.add(Edit(lambda document: {**document, "nodes": document["nodes"] * 2}))
    edited = stage.ask("GET")
    assert edited.headers[MAX_VERSION] == "1.82"
    assert [node["name"] for node in edited.json()["nodes"]] == ["it", "it"]
    assert [row.fault for row in stage.proxy.requests] == [
        "max-version+status",
        "max-version+reset-after",
        "max-version+edit",
    ]
