# SPDX-License-Identifier: Apache-2.0

"""What the calls that change or check a node send, and what they make of the answer."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import Validation
from tests.unit.baremetal import scripted
from tests.unit.baremetal.scripted import (
    INSTANCE,
    NODE,
    VIF,
    ScriptedChannel,
    answer,
    client_of,
    fault,
)


def never(_: object) -> bool:
    return False


def test_a_patch_is_sent_as_it_is_and_the_node_comes_back() -> None:
    patch = [{"op": "add", "path": "/instance_uuid", "value": INSTANCE}]
    channel = ScriptedChannel(scripted.node_answer(instance_uuid=INSTANCE))
    node = client_of(channel).patch_node(NODE, patch)
    assert node.instance_uuid == INSTANCE
    assert channel.requests[0].json == patch


STEP = {"interface": "bios", "step": "reset", "args": {}, "priority": 1}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"configdrive": "H4sIAAAA"},
        {"configdrive": {"meta_data": {}, "vendor_data": {}}},
        {"deploy_steps": [STEP]},
    ],
    ids=str,
)
def test_a_provision_state_is_asked_for_with_what_it_needs(more: dict[str, Any]) -> None:
    channel = ScriptedChannel(answer(202))
    client_of(channel).set_provision_state(NODE, "active", applied=never, **more)
    [request] = channel.requests
    assert str(request) == f"PUT /nodes/{NODE}/states/provision"
    assert request.json == {"target": "active"} | more
    assert request.version == "1.109"


@pytest.mark.parametrize("more", [{}, {"timeout": 30}])
def test_a_power_state_is_asked_for(more: dict[str, int]) -> None:
    channel = ScriptedChannel(answer(202))
    client_of(channel).set_power_state(NODE, "soft power off", applied=never, **more)
    assert channel.lines == [f"PUT /nodes/{NODE}/states/power"]
    assert channel.requests[0].json == {"target": "soft power off"} | more


def test_vifs_are_listed_attached_and_detached() -> None:
    channel = ScriptedChannel(
        answer(200, {"vifs": [{"id": VIF}, {"id": "other"}]}), answer(204), answer(204)
    )
    client = client_of(channel)
    assert client.ports.vifs(NODE) == [VIF, "other"]
    client.ports.attach(NODE, VIF)
    client.ports.detach(NODE, VIF)
    assert channel.lines == [
        f"GET /nodes/{NODE}/vifs",
        f"POST /nodes/{NODE}/vifs",
        f"DELETE /nodes/{NODE}/vifs/{VIF}",
    ]
    assert channel.requests[1].json == {"id": VIF}


def test_a_validation_says_of_each_interface_what_ironic_says() -> None:
    channel = ScriptedChannel(
        answer(
            200,
            {
                "power": {"result": True},
                "deploy": {"result": False, "reason": "no image_source"},
                "console": {"result": None, "reason": "not supported"},
            },
        )
    )
    assert client_of(channel).validate_node(NODE) == {
        "power": Validation(True),
        "deploy": Validation(False, "no image_source"),
        "console": Validation(None, "not supported"),
    }
    assert channel.lines == [f"GET /nodes/{NODE}/validate"]


@pytest.mark.parametrize("kind", ["ports", "portgroups"])
def test_ports_are_those_of_all_pages(kind: str) -> None:
    link = f"http://elsewhere/v1/{kind}?marker=p1"
    pages = [
        answer(200, {kind: [{"uuid": "p1"}], "next": link}),
        answer(200, {kind: [{"uuid": "p2"}]}),
    ]

    def listed(channel: ScriptedChannel) -> list[str]:
        ports = client_of(channel).ports
        return [row.uuid for row in (ports.listed if kind == "ports" else ports.groups)(NODE)]

    channel = ScriptedChannel(*pages)
    assert listed(channel) == ["p1", "p2"]
    first, second = (request.params for request in channel.requests)
    assert first["node"] == NODE
    assert second == first | {"marker": "p1"}
    with pytest.raises(exceptions.BadRequest):
        listed(ScriptedChannel(pages[0], fault(400, "no page two")))


@pytest.mark.parametrize(
    "ask", [lambda client: client.validate_node(NODE), lambda client: client.consoles.get(NODE)]
)
def test_a_result_that_a_conductor_fails_at_is_asked_for_twice(ask: Any) -> None:
    """Ironic answers 500 also if the hardware can't be asked, each time after a minute."""
    channel = ScriptedChannel(*[fault(500, "for good")] * 3)
    with pytest.raises(exceptions.IronicError, match="for good"):
        ask(client_of(channel))
    assert len(channel.requests) == 2


def test_a_look_that_is_answered_500_is_made_again() -> None:
    channel = ScriptedChannel(*[fault(500, "database")] * 3, scripted.node_answer())
    assert client_of(channel).get_node(NODE).uuid == NODE


NO_VIFS = (b"", b"[]", b"null", b"{}", b'{"vifs": null}', b'{"vifs": [1]}', b'{"vifs": [{}]}')
NO_VALIDATION = (b"", b"[]", b'{"power": true}', b"<html>", b'{"a": {"reason": 7}}')


@pytest.mark.parametrize(
    ("what", "body"),
    [*(("vifs", body) for body in NO_VIFS), *(("validation", body) for body in NO_VALIDATION)],
)
def test_what_is_none_is_an_error_that_names_the_node(what: str, body: bytes) -> None:
    client = client_of(ScriptedChannel(answer(200, body)))
    with pytest.raises(exceptions.UnexpectedAnswer) as caught:
        client.ports.vifs(NODE) if what == "vifs" else client.validate_node(NODE)
    assert caught.value.node == NODE


def test_a_refusal_carries_the_node_the_words_and_the_request() -> None:
    channel = ScriptedChannel(fault(400, "can not be performed"))
    with pytest.raises(exceptions.BadRequest) as caught:
        client_of(channel).set_provision_state(NODE, "deleted", applied=never)
    error = caught.value
    assert error.message == "can not be performed"
    assert (error.node, error.request_id, error.status) == (NODE, scripted.REQUEST_ID, 400)
    assert error.method == "PUT"
    assert error.path == f"/nodes/{NODE}/states/provision"


def test_no_request_s_contents_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "correct horse battery staple"
    channel = ScriptedChannel(scripted.lost(), scripted.node_answer(), answer(202))
    client_of(channel).set_provision_state(
        NODE, "active", applied=never, configdrive={"user_data": secret}
    )
    assert f"/nodes/{NODE}/states/provision" in caplog.text, "the request itself is"
    assert secret not in caplog.text


def test_a_guard_is_around_each_request_and_knows_changes() -> None:
    allowed = [True, False]

    @contextlib.contextmanager
    def guard(change: bool) -> Iterator[None]:
        if change and not allowed.pop(0):
            raise exceptions.LeaseLost("it could not be renewed in time")
        yield

    channel = ScriptedChannel(scripted.node_answer(), scripted.lost(), scripted.node_answer())
    client = client_of(channel, guard=guard)
    client.get_node(NODE)
    with pytest.raises(exceptions.LeaseLost):
        client.patch_node(NODE, [{"op": "add", "path": "/instance_uuid", "value": INSTANCE}])
    assert channel.lines == [f"{method} /nodes/{NODE}" for method in ("GET", "PATCH", "GET")]
