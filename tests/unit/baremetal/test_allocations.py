# SPDX-License-Identifier: Apache-2.0

"""Allocations as the client asks for them, and what it makes of the answers."""

from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.allocations import Allocation
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer
from tests.unit.baremetal.scripted import (
    INSTANCE,
    NODE,
    OTHER_INSTANCE,
    OTHER_NODE,
    ScriptedChannel,
    answer,
    client_of,
    fault,
)

PATH = f"/allocations/{INSTANCE}"


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


def create(client: IronicClient) -> Allocation:
    return client.allocations.create(
        INSTANCE,
        resource_class="gold",
        candidate_nodes=[NODE, OTHER_NODE],
        traits={"CUSTOM_B", "CUSTOM_A"},
        extra={"host": "compute1"},
    )


def absent(uuid: str = INSTANCE) -> Answer:
    """There is no such allocation (text of Ironic 39.0.0)."""
    return fault(404, f"Allocation {uuid} could not be found.")


def exists() -> Answer:
    return fault(409, f"An allocation with UUID {INSTANCE} already exists.")


def test_it_has_the_instances_uuid_and_its_candidates() -> None:
    channel = ScriptedChannel(answer(201, allocation()))
    made = create(client_of(channel))
    assert (made.uuid, made.state, made.node_uuid) == (INSTANCE, "allocating", None)
    [request] = channel.requests
    assert (request.method, request.path, request.version) == ("POST", "/allocations", "1.109")
    assert request.json == {
        "uuid": INSTANCE,
        "resource_class": "gold",
        "candidate_nodes": [NODE, OTHER_NODE],
        "traits": ["CUSTOM_A", "CUSTOM_B"],
        "extra": {"host": "compute1"},
    }


def test_without_candidates_nothing_is_asked_for() -> None:
    channel = ScriptedChannel()
    client = client_of(channel)
    with pytest.raises(ValueError, match="any node"):
        client.allocations.create(INSTANCE, resource_class="gold", candidate_nodes=[])
    assert channel.lines == []


def test_one_that_exists_is_found_and_not_made_again() -> None:
    active = allocation(state="active", node_uuid=NODE)
    channel = ScriptedChannel(exists(), answer(200, active))
    assert create(client_of(channel)).node_uuid == NODE
    assert channel.lines == ["POST /allocations", f"GET {PATH}"]
    other = fault(409, "An allocation with name x already exists.")
    with pytest.raises(exceptions.Conflict, match="name x"):
        create(client_of(ScriptedChannel(other, absent())))


def test_one_is_read_and_one_that_is_not_there_is_none() -> None:
    failed = allocation(state="error", last_error="none of the requested nodes are available")
    channel = ScriptedChannel(answer(200, failed), absent())
    client = client_of(channel)
    found = client.allocations.get(INSTANCE)
    assert found is not None
    assert (found.state, found.last_error) == ("error", failed["last_error"])
    assert client.allocations.get(INSTANCE) is None


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


def test_one_is_given_up_and_one_that_is_not_there_already_was() -> None:
    channel = ScriptedChannel(answer(204), absent())
    client = client_of(channel)
    assert client.allocations.delete(INSTANCE) is True
    assert client.allocations.delete(INSTANCE) is False
    assert channel.lines == [f"DELETE {PATH}", f"DELETE {PATH}"]


def test_the_allocation_of_a_node_in_use_is_not_given_up() -> None:
    busy = fault(409, f"Cannot remove allocation {INSTANCE} for node {NODE}, because the node is ")
    channel = ScriptedChannel(busy)
    with pytest.raises(exceptions.Conflict) as caught:
        client_of(channel).allocations.delete(INSTANCE)
    assert type(caught.value) is exceptions.Conflict
    assert channel.lines == [f"DELETE {PATH}"]


@pytest.mark.parametrize("body", [b"", b"[]", b"17", b'{"state": "active"}'])
def test_something_else_than_an_allocation_is_an_error(body: bytes) -> None:
    with pytest.raises(exceptions.UnexpectedAnswer):
        client_of(ScriptedChannel(answer(200, body))).allocations.get(INSTANCE)
    with pytest.raises(exceptions.UnexpectedAnswer):
        client_of(ScriptedChannel(answer(200, body))).allocations.listed()
