# SPDX-License-Identifier: Apache-2.0

"""Arguments of ``ironic-virt-fault-proxy``; what is wrong with them is in test_wrong_lines.py."""

import dataclasses
import json
from typing import Any

import pytest
from werkzeug.datastructures import Headers

from ironic_virt.cmd import fault_proxy
from ironic_virt.testing.fault_proxy import Reply, Request

NODES = {"nodes": [{"uuid": "u", "name": "n"}]}


def answer(rule: str, method: str = "GET", path: str = "/v1/nodes") -> Reply | None:
    """What a request is answered with that the rule strikes."""
    made = fault_proxy.parse_rule(rule)
    request = Request(method, path, Headers({"X-OpenStack-Ironic-API-Version": "1.82"}), b"")

    def pass_on(request: Request) -> Reply:
        return Reply(200, Headers(), json.dumps(NODES).encode())

    return made.fault.act(request, pass_on) if made.strikes(request) else None


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("delay=0", {"status": 200}),
        ("drip=0.5", {"pause": 0.5}),
        ("reset-before", {"status": 0, "reset": True}),
        ("reset-after times=1", {"status": 200, "reset": True}),
        ("truncate", {"sent": len(json.dumps(NODES)) // 2}),
        ("truncate=3", {"sent": 3}),
        (
            "redirect=http://b.invalid",
            {"status": 307, "headers": {"Location": "http://b.invalid/v1/nodes"}},
        ),
        (
            "status=429 retry-after=5 'text=too much'",
            {"status": 429, "headers": {"Retry-After": "5"}, "body": "too much"},
        ),
        ("max-version=1.72", {"status": 406, "body": "[1.1, 1.72]"}),
        ("omit=name", {"body": '[{"uuid": "u"}]'}),
        ("malform=name value=[42]", {"body": '"name": [42]'}),
        ("malform=name", {"body": '"name": {'}),
        ("body=<html>", {"body": "<html>"}),
    ],
)
def test_a_rule_is_read(rule: str, expected: dict[str, Any]) -> None:
    reply = answer(rule)
    assert reply is not None
    assert expected.pop("body", "") in reply.body.decode()
    assert dict(reply.headers).items() >= expected.pop("headers", {}).items()
    fields = {field.name: getattr(reply, field.name) for field in dataclasses.fields(reply)}
    assert fields.items() >= expected.items()


def test_a_rule_has_conditions() -> None:
    assert answer("status=503 path=nodes") is not None
    assert answer(r"status=503 path=\?shard=a", path="/v1/nodes?shard=a") is not None
    assert answer(r"status=503 path=\?shard=a") is None
    assert answer("status=503 method=PATCH") is None
    assert answer("status=503 after=1") is None
    assert answer("status=503 every=2") is None
    assert answer("status=503 times=0") is None
    assert answer("status=503 rate=0.5 seed=1") is not None
    assert answer("status=503 rate=0.5 seed=2") is None
