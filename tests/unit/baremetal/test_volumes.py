# SPDX-License-Identifier: Apache-2.0

"""Volume connectors and targets as the client asks for them, and what it makes of the answers."""

import re
from typing import Any

import pytest

from ironic_virt import exceptions
from tests.unit.baremetal.scripted import (
    NODE,
    ScriptedChannel,
    answer,
    client_of,
    fault,
)

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


def test_what_is_secret_in_a_target_is_in_no_text_of_it() -> None:
    shown = {"targets": [target(properties={"auth_password": SECRET})]}
    found = client_of(ScriptedChannel(answer(200, shown))).volumes.targets(NODE)
    assert SECRET not in repr(found)


def test_a_target_is_deleted_once_and_a_missing_one_is_no_error() -> None:
    absent = fault(404, f"Volume target {TARGET} could not be found.")
    channel = ScriptedChannel(answer(204), absent, answer(404, {"message": "no route"}))
    volumes = client_of(channel).volumes
    assert volumes.delete_target(TARGET, NODE)
    assert not volumes.delete_target(TARGET, NODE)
    with pytest.raises(exceptions.NotFound, match="no route"):
        volumes.delete_target(TARGET, NODE)


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
