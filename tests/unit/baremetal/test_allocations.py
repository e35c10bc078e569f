# SPDX-License-Identifier: Apache-2.0

"""Allocations as the client asks for them, and what it makes of the answers."""

from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.http.connection import Answer
from tests.unit.baremetal.scripted import (
    INSTANCE,
    NODE,
    OTHER_INSTANCE,
    ScriptedChannel,
    answer,
    client_of,
    fault,
)


def allocation(uuid: str = INSTANCE, **fields: Any) -> dict[str, Any]:
    """An allocation as Ironic sends it when it has just taken the request."""
    return {
        "uuid": uuid,
        "state": "allocating",
        "node_uuid": None,
        "resource_class": "gold",
        "candidate_nodes": [NODE],
        "traits": [],
        "last_error": None,
        "extra": {},
        "name": None,
        "links": [],
    } | fields


def absent(uuid: str = INSTANCE) -> Answer:
    """There is no such allocation (text of Ironic 39.0.0)."""
    return fault(404, f"Allocation {uuid} could not be found.")


def test_without_candidates_nothing_is_asked_for() -> None:
    channel = ScriptedChannel()
    client = client_of(channel)
    with pytest.raises(ValueError, match="any node"):
        client.allocations.create(INSTANCE, resource_class="gold", candidate_nodes=[])
    assert channel.lines == []


def test_a_proxys_404_says_nothing_about_an_allocation() -> None:
    for call in ("get", "delete"):
        channel = ScriptedChannel(answer(404, b"<html>no such page</html>"))
        with pytest.raises(exceptions.NotFound):
            getattr(client_of(channel).allocations, call)(INSTANCE)
    with pytest.raises(exceptions.NotFound):
        client_of(ScriptedChannel(absent(OTHER_INSTANCE))).allocations.get(INSTANCE)


def test_all_are_listed_page_by_page_or_none() -> None:
    link = f"http://elsewhere/v1/allocations?marker={INSTANCE}"
    first = answer(200, {"allocations": [allocation()], "next": link})
    channel = ScriptedChannel(first, answer(200, {"allocations": [allocation(OTHER_INSTANCE)]}))
    found = client_of(channel).allocations.listed()
    assert [one.uuid for one in found] == [INSTANCE, OTHER_INSTANCE]
    assert [request.params for request in channel.requests] == [{}, {"marker": INSTANCE}]
    with pytest.raises(exceptions.IronicError):
        client_of(ScriptedChannel(first, fault(400, "broken"))).allocations.listed()
    with pytest.raises(exceptions.UnexpectedAnswer, match="on one before"):
        client_of(ScriptedChannel(first, first)).allocations.listed()
    with pytest.raises(exceptions.UnexpectedAnswer, match="page"):
        client_of(ScriptedChannel(answer(200, b"[]"))).allocations.listed()
