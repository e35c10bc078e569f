# SPDX-License-Identifier: Apache-2.0

"""Volume connectors and targets as the client asks for them, and what it makes of the answers."""

import re
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.volumes import VolumeTarget
from tests.unit.baremetal.scripted import NODE, ScriptedChannel, answer, client_of, fault

TARGET = "0a8d2c4e-0000-4000-8000-000000000001"
SECRET = "correct horse battery staple"


GIVEN: dict[str, Any] = {
    "volume_type": "iscsi",
    "volume_id": "v1",
    "boot_index": 0,
    "properties": {"target_iqn": "iqn.x", "auth_password": SECRET},
    "extra": {"instance_uuid": "i1"},
}


def target(uuid: str = TARGET, **fields: Any) -> dict[str, Any]:
    """A target as Ironic sends it."""
    rest = {"links": [], "created_at": "2026-01-01T00:00:00+00:00", "updated_at": None}
    properties = {"target_iqn": "iqn.x", "auth_password": "******"}
    return GIVEN | rest | {"uuid": uuid, "node_uuid": NODE, "properties": properties} | fields


def create(client: IronicClient) -> VolumeTarget:
    return client.volumes.create_target(NODE, **GIVEN, uuid=TARGET)


def absent(uuid: str = TARGET) -> Answer:
    """There is no such target (text of Ironic 39.0.0)."""
    return fault(404, f"Volume target {uuid} could not be found.")


def test_a_target_is_made_with_a_uuid_of_our_choice_or_any() -> None:
    channel = ScriptedChannel(*[answer(201, target())] * 3)
    client = client_of(channel)
    made = create(client)
    assert (made.uuid, made.volume_id, made.boot_index) == (TARGET, "v1", 0)
    [request] = channel.requests
    assert (request.method, request.path) == ("POST", "/volume/targets")
    assert request.json == {"uuid": TARGET, "node_uuid": NODE, **GIVEN}
    for _ in range(2):
        client.volumes.create_target(NODE, **GIVEN)
    _, first, second = (request.json["uuid"] for request in channel.requests)
    assert len(first) == len(TARGET)
    assert first != second


def test_what_is_secret_in_a_target_is_in_no_text_of_it() -> None:
    channel = ScriptedChannel(answer(201, target(properties={"auth_password": SECRET})))
    assert SECRET not in repr(create(client_of(channel)))


def test_a_target_is_deleted_once_and_a_missing_one_is_no_error() -> None:
    channel = ScriptedChannel(answer(204), absent(), answer(404, {"message": "no route"}))
    volumes = client_of(channel).volumes
    assert volumes.delete_target(TARGET, NODE)
    assert not volumes.delete_target(TARGET, NODE)
    with pytest.raises(exceptions.NotFound, match="no route"):
        volumes.delete_target(TARGET, NODE)


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
    empty = answer(200, {"connectors": [], "next": "http://x/v1/..."})
    page = answer(200, {"targets": [target()], "next": "http://inside/v1/volume/targets?marker=x"})
    volumes = client_of(ScriptedChannel(empty, page, page)).volumes
    with pytest.raises(exceptions.UnexpectedAnswer, match="empty page"):
        volumes.connectors(NODE)
    with pytest.raises(exceptions.UnexpectedAnswer, match="drop the query 'marker'"):
        volumes.targets(NODE)


@pytest.mark.parametrize("body", [{}, {"targets": [{}]}, {"targets": "none"}])
def test_what_is_no_list_of_targets_is_told(body: Any) -> None:
    channel = ScriptedChannel(answer(200, body))
    with pytest.raises(exceptions.UnexpectedAnswer, match=re.escape("a page of volume targets")):
        client_of(channel).volumes.targets(NODE)
