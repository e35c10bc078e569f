# SPDX-License-Identifier: Apache-2.0

"""Volume connectors and targets as the client asks for them, and what it makes of the answers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.volumes import VolumeTarget
from tests.unit.baremetal.scripted import NODE, ScriptedChannel, answer, client_of, fault, lost

TARGET = "0a8d2c4e-0000-4000-8000-000000000001"
SECRET = "correct horse battery staple"


def target(uuid: str = TARGET, **fields: Any) -> dict[str, Any]:
    """A target as Ironic sends it."""
    return {
        "uuid": uuid,
        "node_uuid": NODE,
        "volume_type": "iscsi",
        "volume_id": "v1",
        "boot_index": 0,
        "properties": {"target_iqn": "iqn.x", "auth_password": "******"},
        "extra": {"instance_uuid": "i1"},
        "links": [],
        "created_at": "2026-01-01T00:00:00+00:00",
        "updated_at": None,
    } | fields


def create(client: IronicClient) -> VolumeTarget:
    return client.volumes.create_target(
        NODE,
        volume_type="iscsi",
        volume_id="v1",
        boot_index=0,
        properties={"target_iqn": "iqn.x", "auth_password": SECRET},
        extra={"instance_uuid": "i1"},
        uuid=TARGET,
    )


def absent(uuid: str = TARGET) -> Answer:
    """There is no such target (text of Ironic 39.0.0)."""
    return fault(404, f"Volume target {uuid} could not be found.")


def test_every_target_has_another_uuid() -> None:
    channel = ScriptedChannel(answer(201, target()), answer(201, target()))
    volumes = client_of(channel).volumes
    for index in (0, 1):
        volumes.create_target(
            NODE, volume_type="iscsi", volume_id="v", boot_index=index, properties={}, extra={}
        )
    first, second = channel.requests
    assert len(first.json["uuid"]) == len(TARGET)
    assert first.json["uuid"] != second.json["uuid"]


def test_a_target_is_made_with_a_uuid_of_our_choice() -> None:
    channel = ScriptedChannel(answer(201, target()))
    made = create(client_of(channel))
    assert (made.uuid, made.volume_id, made.boot_index) == (TARGET, "v1", 0)
    [request] = channel.requests
    assert (request.method, request.path) == ("POST", "/volume/targets")
    assert request.json == {
        "uuid": TARGET,
        "node_uuid": NODE,
        "volume_type": "iscsi",
        "volume_id": "v1",
        "boot_index": 0,
        "properties": {"target_iqn": "iqn.x", "auth_password": SECRET},
        "extra": {"instance_uuid": "i1"},
    }


def test_one_whose_reply_was_lost_is_looked_for_and_not_made_twice() -> None:
    channel = ScriptedChannel(lost(), answer(200, target()))
    create(client_of(channel))
    assert channel.lines == ["POST /volume/targets", f"GET /volume/targets/{TARGET}"]


def test_one_that_was_lost_itself_is_made() -> None:
    channel = ScriptedChannel(lost(), absent(), answer(201, target()))
    create(client_of(channel))
    first, _, second = channel.requests
    assert first.json == second.json


def test_what_is_secret_in_a_target_is_in_no_text_of_it() -> None:
    channel = ScriptedChannel(answer(201, target(properties={"auth_password": SECRET})))
    assert SECRET not in repr(create(client_of(channel)))


def test_a_target_is_deleted_once() -> None:
    channel = ScriptedChannel(lost(), absent())
    assert client_of(channel).volumes.delete_target(TARGET, NODE)
    assert [request.method for request in channel.requests] == ["DELETE", "GET"]


def test_a_target_that_is_gone_is_no_error() -> None:
    channel = ScriptedChannel(absent())
    assert not client_of(channel).volumes.delete_target(TARGET, NODE)


def test_somebody_elses_404_does_not_make_a_target_gone() -> None:
    channel = ScriptedChannel(answer(404, {"message": "no route"}))
    with pytest.raises(exceptions.NotFound, match="no route"):
        client_of(channel).volumes.delete_target(TARGET, NODE)


def test_lists_are_a_nodes_with_all_fields_and_all_pages() -> None:
    second = "0a8d2c4e-0000-4000-8000-000000000002"
    channel = ScriptedChannel(
        answer(200, {"targets": [target()], "next": "http://inside/v1/volume/targets?marker=x"}),
        answer(200, {"targets": [target(second, extra=None, properties=None)]}),
    )
    found = client_of(channel).volumes.targets(NODE)
    assert [one.uuid for one in found] == [TARGET, second]
    first, further = channel.requests
    assert first.params == {"node": NODE, "detail": "true"}
    assert further.params == {"node": NODE, "detail": "true", "marker": TARGET}


def test_a_list_that_never_ends_is_an_error() -> None:
    channel = ScriptedChannel(answer(200, {"connectors": [], "next": "http://x/v1/..."}))
    with pytest.raises(exceptions.UnexpectedAnswer, match="empty page"):
        client_of(channel).volumes.connectors(NODE)


def test_a_list_whose_pages_repeat_is_an_error() -> None:
    page = {"targets": [target()], "next": "http://inside/v1/volume/targets?marker=x"}
    channel = ScriptedChannel(answer(200, page), answer(200, page))
    with pytest.raises(exceptions.UnexpectedAnswer, match="drop the query 'marker'"):
        client_of(channel).volumes.targets(NODE)
    assert len(channel.requests) == 2


def test_connectors_have_a_type_and_an_id() -> None:
    body = {"connectors": [{"uuid": "c1", "type": "iqn", "connector_id": "iqn.1", "extra": {}}]}
    channel = ScriptedChannel(answer(200, body))
    [found] = client_of(channel).volumes.connectors(NODE)
    assert (found.type, found.connector_id) == ("iqn", "iqn.1")


@pytest.mark.parametrize("body", [{}, {"targets": [{}]}, {"targets": "none"}])
def test_what_is_no_list_of_targets_is_told(body: Any) -> None:
    channel = ScriptedChannel(answer(200, body))
    with pytest.raises(exceptions.UnexpectedAnswer, match=re.escape("a page of volume targets")):
        client_of(channel).volumes.targets(NODE)
