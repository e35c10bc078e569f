# SPDX-License-Identifier: Apache-2.0

"""What the calls that change or check a node send, and what they make of the answer."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import Validation
from ironic_virt.baremetal.http.versions import Feature
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


@pytest.mark.parametrize(
    ("configdrive", "features", "version"),
    [
        (None, (), "1.38"),
        ("H4sIAAAA", (), "1.38"),
        ({"meta_data": {}}, (), "1.56"),
        ({"meta_data": {}, "vendor_data": {}}, (), "1.59"),
        (None, (Feature.HOLD,), "1.85"),
    ],
)
def test_a_provision_state_is_asked_for(
    configdrive: Any, features: tuple[Feature, ...], version: str
) -> None:
    channel = ScriptedChannel(answer(202))
    client_of(channel).set_provision_state(
        NODE, "active", applied=never, configdrive=configdrive, features=features
    )
    request = channel.requests[0]
    assert str(request) == f"PUT /nodes/{NODE}/states/provision"
    wanted = {"target": "active"}
    assert request.json == wanted | ({"configdrive": configdrive} if configdrive else {})
    assert request.version == version


def test_deploy_steps_go_with_it_to_a_server_that_knows_them() -> None:
    channel = ScriptedChannel(answer(202))
    step = {"interface": "bios", "step": "reset", "args": {}, "priority": 1}
    client_of(channel).set_provision_state(NODE, "active", applied=never, deploy_steps=[step])
    request = channel.requests[0]
    assert request.json == {"target": "active", "deploy_steps": [step]}
    assert request.version == "1.69"


@pytest.mark.parametrize(
    ("configdrive", "newest", "refused"),
    [
        ({"meta_data": {}}, "1.55", "config drive as JSON"),
        ({"meta_data": {}, "vendor_data": {"a": 1}}, "1.58", "vendor data"),
        ("H4sIAAAA", "1.38", None),
        ({"meta_data": {}}, "1.56", None),
    ],
)
def test_a_config_drive_that_the_server_can_not_make_is_not_sent(
    configdrive: Any, newest: str, refused: str | None
) -> None:
    channel = ScriptedChannel(answer(202), versions=("1.1", newest))
    client = client_of(channel)
    if refused is None:
        client.set_provision_state(NODE, "active", applied=never, configdrive=configdrive)
        return
    with pytest.raises(exceptions.MicroversionNotSupported, match=refused):
        client.set_provision_state(NODE, "active", applied=never, configdrive=configdrive)
    assert channel.requests == []


@pytest.mark.parametrize(
    ("timeout", "body"),
    [
        (None, {"target": "soft power off"}),
        (30, {"target": "soft power off", "timeout": 30}),
    ],
)
def test_a_power_state_is_asked_for(timeout: int | None, body: dict[str, Any]) -> None:
    channel = ScriptedChannel(answer(202))
    client_of(channel).set_power_state(NODE, "soft power off", applied=never, timeout=timeout)
    assert channel.lines == [f"PUT /nodes/{NODE}/states/power"]
    assert channel.requests[0].json == body


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


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{}", b'{"vifs": null}', b'{"vifs": [1]}', b'{"vifs": [{}]}']
)
def test_what_is_no_list_of_vifs_is_an_error_that_names_the_node(body: bytes) -> None:
    with pytest.raises(exceptions.UnexpectedAnswer) as caught:
        client_of(ScriptedChannel(answer(200, body))).ports.vifs(NODE)
    assert caught.value.node == NODE


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


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"power": true}', b"<html>", b'{"a": {"reason": "\xff"}}']
)
def test_what_is_no_validation_is_an_error_that_names_the_node(body: bytes) -> None:
    with pytest.raises(exceptions.UnexpectedAnswer) as caught:
        client_of(ScriptedChannel(answer(200, body))).validate_node(NODE)
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


def test_a_guard_is_around_each_request_and_told_whether_it_is_a_change() -> None:
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
