# SPDX-License-Identifier: Apache-2.0

"""A request whose reply is lost may have been applied: look before sending it again.

Every call that changes something goes through the same stories here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer
from tests.unit.baremetal import scripted
from tests.unit.baremetal.scripted import (
    INSTANCE,
    NODE,
    VIF,
    ScriptedChannel,
    answer,
    client_of,
    fault,
    locked,
    lost,
    node_answer,
)

PATCH = [{"op": "add", "path": "/instance_uuid", "value": INSTANCE}]


@dataclasses.dataclass(frozen=True)
class Change:
    """A call that changes something, and what Ironic says before and after it."""

    call: Callable[[IronicClient], Any]
    request: str
    look: str
    done: Answer
    before: Answer
    after: Answer
    refused_because_done: Answer


def _vifs(*ids: str) -> Answer:
    return answer(200, {"vifs": [{"id": vif} for vif in ids]})


CHANGES = {
    "patch_node": Change(
        call=lambda client: client.patch_node(NODE, PATCH),
        request=f"PATCH /nodes/{NODE}",
        look=f"GET /nodes/{NODE}",
        done=node_answer(instance_uuid=INSTANCE),
        before=node_answer(),
        after=node_answer(instance_uuid=INSTANCE),
        refused_because_done=fault(409, f"Node {NODE} is associated with instance {INSTANCE}."),
    ),
    "set_provision_state": Change(
        call=lambda client: client.set_provision_state(
            NODE, "active", applied=lambda node: node.provision_state == "deploying"
        ),
        request=f"PUT /nodes/{NODE}/states/provision",
        look=f"GET /nodes/{NODE}",
        done=answer(202),
        before=node_answer(),
        after=node_answer(provision_state="deploying", target_provision_state="active"),
        refused_because_done=fault(
            400,
            'The requested action "active" can not be performed on node '
            f'"{NODE}" while it is in state "deploying".',
        ),
    ),
    "set_power_state": Change(
        call=lambda client: client.set_power_state(
            NODE, "power on", applied=lambda node: node.target_power_state == "power on"
        ),
        request=f"PUT /nodes/{NODE}/states/power",
        look=f"GET /nodes/{NODE}",
        done=answer(202),
        before=node_answer(),
        after=node_answer(target_power_state="power on"),
        refused_because_done=fault(400, "Already on its way."),
    ),
    "attach_vif": Change(
        call=lambda client: client.ports.attach(NODE, VIF),
        request=f"POST /nodes/{NODE}/vifs",
        look=f"GET /nodes/{NODE}/vifs",
        done=answer(204),
        before=_vifs(),
        after=_vifs(VIF),
        refused_because_done=fault(
            409, f"Unable to attach VIF because VIF {VIF} is already attached to Ironic Port x"
        ),
    ),
    "detach_vif": Change(
        call=lambda client: client.ports.detach(NODE, VIF),
        request=f"DELETE /nodes/{NODE}/vifs/{VIF}",
        look=f"GET /nodes/{NODE}/vifs",
        done=answer(204),
        before=_vifs(VIF),
        after=_vifs(),
        refused_because_done=fault(
            400,
            f"Unable to detach VIF {VIF} from node {NODE} because it is not attached to it.",
        ),
    ),
}

each_change = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)


@each_change
def test_with_a_reply_it_is_sent_once_and_nothing_is_looked_at(change: Change) -> None:
    channel = ScriptedChannel(change.done)
    change.call(client_of(channel))
    assert channel.lines == [change.request]


@each_change
@pytest.mark.parametrize(
    "loss",
    [lost(), fault(502, "bad gateway"), fault(504, "gateway timeout")],
    ids=["no answer", "502", "504"],
)
def test_applied_although_the_reply_was_lost_it_is_not_sent_again(
    change: Change, loss: Answer | exceptions.IronicError
) -> None:
    channel = ScriptedChannel(loss, change.after)
    change.call(client_of(channel))
    assert channel.lines == [change.request, change.look]


@each_change
def test_not_applied_it_is_sent_again(change: Change) -> None:
    channel = ScriptedChannel(lost(), change.before, change.done)
    change.call(client_of(channel))
    assert channel.lines == [change.request, change.look, change.request]
    assert channel.requests[0] == channel.requests[2], "unchanged"


@each_change
def test_while_looking_fails_it_is_not_sent_again(change: Change) -> None:
    channel = ScriptedChannel(lost(), lost(), fault(503, "busy"), change.after)
    change.call(client_of(channel))
    assert channel.lines == [change.request, change.look, change.look, change.look]


@each_change
def test_when_looking_never_succeeds_that_is_the_error(change: Change) -> None:
    channel = ScriptedChannel(lost(), fault(503, "busy"), fault(503, "busy"), lost())
    with pytest.raises(exceptions.IronicUnreachable):
        change.call(client_of(channel, retries=3))
    assert channel.lines == [change.request, change.look, change.look, change.look]


@each_change
def test_when_looking_is_refused_that_is_the_error(change: Change) -> None:
    channel = ScriptedChannel(lost(), scripted.no_such_node())
    with pytest.raises(exceptions.NodeNotFound) as caught:
        change.call(client_of(channel))
    assert caught.value.node == NODE


@each_change
def test_once_lost_it_is_looked_for_before_every_further_try(change: Change) -> None:
    # It may come in late: a node that our own lost request has locked.
    channel = ScriptedChannel(lost(), change.before, locked(), change.after)
    change.call(client_of(channel))
    assert channel.lines == [change.request, change.look, change.request, change.look]


@each_change
def test_lost_then_refused_because_it_had_come_in_late_is_success(change: Change) -> None:
    channel = ScriptedChannel(lost(), change.before, change.refused_because_done, change.after)
    change.call(client_of(channel))
    assert channel.lines == [change.request, change.look, change.request, change.look]


@each_change
def test_lost_then_refused_for_another_reason_is_that_refusal(change: Change) -> None:
    refusal = fault(400, "the node is in maintenance")
    channel = ScriptedChannel(lost(), change.before, refusal, change.before)
    with pytest.raises(exceptions.BadRequest, match="maintenance"):
        change.call(client_of(channel))


@each_change
def test_refused_without_a_loss_is_a_refusal_whatever_the_node_looks_like(change: Change) -> None:
    channel = ScriptedChannel(change.refused_because_done)
    with pytest.raises(exceptions.IronicError) as caught:
        change.call(client_of(channel))
    assert caught.value.status in (400, 409)
    assert channel.lines == [change.request]


@each_change
@pytest.mark.parametrize("reply", [locked(), fault(503, "busy"), fault(429, "slow down")])
def test_a_server_that_surely_did_nothing_is_asked_again_without_looking(
    change: Change, reply: Answer
) -> None:
    channel = ScriptedChannel(reply, change.done)
    change.call(client_of(channel))
    assert channel.lines == [change.request, change.request]


@each_change
def test_a_lock_that_stays_is_the_error_in_the_end(change: Change) -> None:
    channel = ScriptedChannel(locked(), locked(), locked())
    with pytest.raises(exceptions.NodeLocked, match="conductor-1") as caught:
        change.call(client_of(channel, retries=2))
    assert caught.value.node == NODE


@each_change
def test_without_retries_a_lost_reply_is_an_error_that_names_the_node(change: Change) -> None:
    channel = ScriptedChannel(lost())
    with pytest.raises(exceptions.IronicUnreachable, match=NODE) as caught:
        change.call(client_of(channel, retries=0))
    assert caught.value.node == NODE


def test_a_patch_found_applied_returns_the_node_as_it_was_found() -> None:
    channel = ScriptedChannel(lost(), node_answer(instance_uuid=INSTANCE, name="found"))
    node = client_of(channel).patch_node(NODE, PATCH)
    assert (node.instance_uuid, node.name) == (INSTANCE, "found")


def test_a_patch_is_compared_with_the_whole_node() -> None:
    # A field that was not asked for would look as if it were missing.
    patch = [{"op": "add", "path": "/extra/owner", "value": "us"}]
    channel = ScriptedChannel(lost(), node_answer(extra={"owner": "us"}))
    client_of(channel).patch_node(NODE, patch)
    assert "fields" not in channel.requests[1].params


def test_a_foreign_instance_is_a_conflict_and_no_success() -> None:
    other = node_answer(instance_uuid=scripted.OTHER_INSTANCE)
    refusal = fault(409, f"Node {NODE} is associated with instance {scripted.OTHER_INSTANCE}.")
    channel = ScriptedChannel(lost(), other, refusal, other)
    with pytest.raises(exceptions.Conflict, match=scripted.OTHER_INSTANCE) as caught:
        client_of(channel).patch_node(NODE, PATCH)
    assert type(caught.value) is exceptions.Conflict


@pytest.mark.parametrize("body", [b"", b"<html>welcome</html>", b"[]", b"17"])
def test_looking_and_finding_something_else_than_a_node_is_an_error(body: bytes) -> None:
    channel = ScriptedChannel(lost(), answer(200, body))
    with pytest.raises(exceptions.UnexpectedAnswer) as caught:
        client_of(channel).patch_node(NODE, PATCH)
    assert caught.value.node == NODE
