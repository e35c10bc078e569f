# SPDX-License-Identifier: Apache-2.0

"""What goes with a request, and what is done between two tries of a change."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.http import retry
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.baremetal.http.sender import Sender
from tests.unit.baremetal.scripted import (
    NODE,
    Clock,
    ScriptedChannel,
    answer,
    fault,
    locked,
    lost,
    no_such_node,
)

NEWER = ("disable_power_off", "instance_name")


def sender_of(channel: Any, retries: int = 4) -> Sender:
    clock = Clock()
    return Sender(
        channel,
        RetryPolicy(retries, 1.0, clock=clock, sleep=clock.sleep, rng=random.Random(1)),
    )


def change(sender: Sender, **more: Any) -> Any:
    """A change that was applied if the look says so."""

    def applied() -> str | None:
        return sender.once("GET", "/look").body.decode() or None

    rest = {"applied": applied, "result": lambda reply: reply.status} | more
    return sender.change("PUT", "/thing", **rest)


class Timed(ScriptedChannel):
    """Remembers the timeouts, too."""

    def __init__(self, *script: Answer) -> None:
        super().__init__(*script)
        self.timeouts: list[float | None] = []

    def send(self, method: str, path: str, **more: Any) -> Answer:
        if path:
            self.timeouts.append(more.get("timeout"))
        return super().send(method, path, **more)


def test_a_single_try_is_single_and_leaves_the_other_its_retries() -> None:
    channel = ScriptedChannel(lost(), lost(), answer(200))
    sender = sender_of(channel)
    with pytest.raises(exceptions.IronicUnreachable):
        sender.single_try().read("/nodes")
    assert sender.read("/nodes").status == 200


def test_a_shorter_timeout_is_for_those_requests_only() -> None:
    channel = Timed(answer(200), answer(200))
    sender = sender_of(channel)
    sender.within(5.0).read("/nodes")
    sender.read("/nodes")
    assert channel.timeouts == [5.0, None]


def test_in_a_hurry_each_request_is_tried_once_and_waits_no_longer_than_there_is_time() -> None:
    channel = Timed(fault(503, "later"), answer(200), answer(200), answer(200))
    clock = Clock()
    sender = Sender(channel, RetryPolicy(4, 1.0, clock=clock, sleep=clock.sleep))
    with retry.hurry(clock() + 8):
        with pytest.raises(exceptions.IronicUnavailable):
            sender.read("/nodes")
        sender.within(5.0).read("/nodes")
        clock.sleep(60)
        sender.read("/nodes")
    sender.read("/nodes")
    assert channel.timeouts == [8.0, 5.0, 1.0, None]


def test_a_change_is_sent_with_its_body_and_the_guard_is_told_that_it_is_one() -> None:
    told: list[bool] = []

    def guard(changes: bool) -> contextlib.AbstractContextManager[None]:
        told.append(changes)
        return contextlib.nullcontext()

    channel = ScriptedChannel(answer(200), answer(202))
    sender = Sender(channel, RetryPolicy(0), guard)
    sender.read("/nodes")
    change(sender, json={"target": "on"})
    assert channel.requests[-1].json == {"target": "on"}
    assert told == [False, True]


@pytest.mark.parametrize("reply", [no_such_node(), lost()], ids=["refused", "no answer"])
def test_an_error_names_the_node(reply: Any) -> None:
    sender = sender_of(ScriptedChannel(*[reply] * 4), retries=0)
    for call in (
        lambda: sender.read("/nodes", node=NODE),
        lambda: sender.look("/nodes", result=lambda _: None, node=NODE),
        lambda: change(sender, node=NODE),
    ):
        with pytest.raises(exceptions.IronicError) as caught:
            call()
        assert caught.value.node == NODE


@pytest.mark.parametrize(
    ("newest", "version", "fields", "unasked"),
    [
        ("1.115", "1.104", "uuid,disable_power_off,instance_name", set()),
        ("1.103", "1.95", "uuid,disable_power_off", {"instance_name"}),
        ("1.90", "1.90", "uuid", set(NEWER)),
    ],
)
def test_a_newer_field_is_asked_of_a_server_that_has_it(
    newest: str, version: str, fields: str, unasked: set[str]
) -> None:
    channel = ScriptedChannel(*[answer(200)] * 3, versions=("1.1", newest))
    sender = sender_of(channel)
    found = sender.read("/nodes", fields=["uuid"], newer=NEWER)
    assert found.unasked == unasked
    seen = sender.look("/nodes", result=lambda reply: reply, fields=["uuid"], newer=NEWER)
    assert seen.unasked == unasked
    change(sender, newer=NEWER)
    assert [request.params.get("fields") for request in channel.requests] == [fields, fields, None]
    assert {request.version for request in channel.requests} == {version}


@pytest.mark.parametrize(
    ("statuses", "tried"),
    [([500, 200], 2), ([500, 500, 200], 2), ([503, 503, 503, 500, 200], 5), ([500, 503, 500], 3)],
)
def test_what_a_conductor_works_out_and_fails_at_twice_is_not_asked_for_again(
    statuses: list[int], tried: int
) -> None:
    replies = [fault(status, "no") if status != 200 else answer(200) for status in statuses]
    channel = ScriptedChannel(*replies)
    if statuses[tried - 1] == 200:
        sender_of(channel, 20).read("/nodes", is_costly=True)
    else:
        with pytest.raises(exceptions.IronicError) as caught:
            sender_of(channel, 20).read("/nodes", node=NODE, is_costly=True)
        last, final = caught.value.__cause__, caught.value
        assert isinstance(last, exceptions.IronicUnavailable)
        assert not isinstance(final, exceptions.IronicUnavailable)
        assert (final.status, final.node, final.method, final.path) == (500, NODE, "GET", "/nodes")
        assert (final.message, final.request_id) == ("no", last.request_id)
        assert last.request_id
    assert len(channel.requests) == tried
    # What costs nothing is asked for as often as any other.
    channel = ScriptedChannel(*[fault(500, "no")] * 4, answer(200))
    assert sender_of(channel, 20).read("/nodes").status == 200


def test_a_change_is_checked_again_before_each_further_try() -> None:
    channel = ScriptedChannel(*[locked()] * 3, answer(202), locked(), answer(202))
    sender = sender_of(channel)
    seen: list[tuple[str, int]] = []
    outer = sender.rechecking(lambda: seen.append(("outer", len(channel.requests))))
    change(outer.rechecking(lambda: seen.append(("inner", len(channel.requests)))))
    assert seen == [(name, tries) for tries in (1, 2, 3) for name in ("outer", "inner")]
    seen.clear()
    change(sender)
    assert not seen, "its twins leave it as it was"


def test_a_check_goes_with_other_twins_and_is_left_out_of_reads() -> None:
    channel = ScriptedChannel(locked(), answer(202), fault(503, "later"), answer(200))
    seen: list[str] = []
    checked = sender_of(channel).rechecking(lambda: seen.append("check")).within(5.0)
    change(checked, again=lambda: seen.append("again"))
    assert checked.read("/nodes").status == 200
    assert seen == ["check", "again"]


def test_a_check_that_fails_for_good_ends_a_change_and_one_that_may_pass_costs_a_try() -> None:
    channel = ScriptedChannel(locked(), lost(), answer(200), answer(202))
    sender = sender_of(channel)
    assert change(sender.rechecking(lambda: sender.once("GET", "/check"))) == 202
    assert channel.lines == ["PUT /thing", "GET /check", "GET /check", "PUT /thing"]

    def check() -> None:
        raise exceptions.NodeTaken(NODE, "a", "b")

    channel = ScriptedChannel(locked())
    with pytest.raises(exceptions.NodeTaken):
        change(sender_of(channel).rechecking(check))
    assert channel.lines == ["PUT /thing"]


def test_a_change_that_was_applied_is_not_checked_again() -> None:
    channel = ScriptedChannel(lost(), answer(200, b"applied"))

    def check() -> None:
        raise exceptions.NodeTaken(NODE, "a", "b")

    assert change(sender_of(channel).rechecking(check)) == "applied"
