# SPDX-License-Identifier: Apache-2.0

"""What goes with a request, and what is done between two tries of a change."""

import contextlib
import random
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.http.requests import Call, Sender, hurry_requests
from ironic_virt.baremetal.http.retry import Limit, RetryPolicy
from tests.unit.baremetal.scripted import (
    NODE,
    REQUEST_ID,
    Clock,
    ScriptedChannel,
    answer,
    fault,
    locked,
    lost,
    no_such_node,
    versions_answer,
)


def sender_of(channel: Any, retries: int = 4) -> Sender:
    clock = Clock()
    return Sender(
        channel,
        RetryPolicy(retries, 1.0, clock=clock, sleep=clock.sleep, rng=random.Random(1)),
    )


def read(sender: Sender, **more: Any) -> Answer:
    """A read whose answer is returned as it is."""
    return sender.read(Call("GET", "/nodes", **more), lambda reply: reply)


def change(sender: Sender, **more: Any) -> Any:
    """A change that was applied if the look says so."""

    def applied() -> str | None:
        return sender.read(Call("GET", "/look"), lambda reply: reply.body.decode() or None)

    call = Call("PUT", "/thing", **more)
    return sender.change(call, applied, lambda reply: reply.status)


def test_a_single_try_is_single_and_leaves_the_other_its_retries() -> None:
    channel = ScriptedChannel(lost(), lost(), answer(200))
    clock = Clock()
    policy = RetryPolicy(4, 1.0, clock=clock, sleep=clock.sleep, connect=Limit(5))
    sender = Sender(channel, policy)
    with pytest.raises(exceptions.IronicUnreachable):
        read(sender.single_try())
    assert read(sender).status == 200


def test_in_a_hurry_each_request_is_tried_once_and_cut_short() -> None:
    channel = ScriptedChannel(fault(503, "later"), *[answer(200)] * 4)
    clock = Clock()
    sender = Sender(channel, RetryPolicy(4, 1.0, clock=clock, sleep=clock.sleep))
    with hurry_requests(clock() + 8):
        with pytest.raises(exceptions.IronicUnavailable):
            read(sender)
        read(sender.within(5.0))
        clock.sleep(60)
        read(sender)
    read(sender.within(5.0))
    read(sender)
    assert channel.timeouts == [8.0, 5.0, 1.0, 5.0, None]


def test_a_change_has_its_body_and_the_guard_knows_it_is_one() -> None:
    told: list[bool] = []

    def guard(changes: bool) -> contextlib.AbstractContextManager[None]:
        told.append(changes)
        return contextlib.nullcontext()

    channel = ScriptedChannel(answer(200), answer(202))
    sender = Sender(channel, RetryPolicy(0), guard)
    read(sender)
    change(sender, json={"target": "on"})
    assert channel.requests[-1].json == {"target": "on"}
    assert told == [False, False, True], "the first asks for the versions"


@pytest.mark.parametrize(
    "error",
    [exceptions.UnexpectedAnswer("what?"), exceptions.NodeUnreadable(["shard"], node=NODE)],
)
def test_an_answer_that_can_not_be_read_says_which_it_was(error: exceptions.IronicError) -> None:
    channel = ScriptedChannel(*[answer(200)] * 2)

    def parse(_: Answer) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        sender_of(channel, 1).read(Call("GET", "/nodes", node=NODE), parse)
    found = caught.value
    assert (found.status, found.request_id) == (200, REQUEST_ID)
    assert (found.method, found.path, found.node) == ("GET", "/nodes", NODE)
    tries = 2 if isinstance(error, exceptions.NodeUnreadable) else 1
    assert len(channel.requests) == tries, "what may pass is asked for again"


def test_each_request_is_reported_with_its_status_and_time() -> None:
    seen: list[tuple[str, str, str, float]] = []
    clock = Clock()

    class Slow(ScriptedChannel):
        def send(self, method: str, path: str, **more: Any) -> Answer:
            clock.now += 0.5
            return super().send(method, path, **more)

    no_token = exceptions.IronicUnauthorized("no token")
    channel = Slow(answer(202), no_such_node(), lost(), no_token)
    policy = RetryPolicy(0, clock=clock)
    sender = Sender(channel, policy, observe=lambda *request: seen.append(request))
    change(sender)
    for _ in range(3):
        with pytest.raises(exceptions.IronicError):
            read(sender)
    reads = [("GET", "/nodes", status, 0.5) for status in ("404", "none", "refused")]
    assert seen == [("GET", "", "200", 0.5), ("PUT", "/thing", "202", 0.5), *reads]


@pytest.mark.parametrize(
    ("statuses", "tried"),
    [([500, 200], 2), ([500, 500, 200], 2), ([503, 503, 503, 500, 200], 5), ([500, 503, 500], 3)],
)
def test_a_conductors_second_failure_ends_the_retries(statuses: list[int], tried: int) -> None:
    replies = [fault(status, "no") if status != 200 else answer(200) for status in statuses]
    channel = ScriptedChannel(*replies)
    if statuses[tried - 1] == 200:
        read(sender_of(channel, 20), is_costly=True)
    else:
        with pytest.raises(exceptions.IronicError) as caught:
            read(sender_of(channel, 20), node=NODE, is_costly=True)
        last, final = caught.value.__cause__, caught.value
        assert isinstance(last, exceptions.IronicUnavailable)
        assert not isinstance(final, exceptions.IronicUnavailable)
        assert (final.status, final.node, final.method, final.path) == (500, NODE, "GET", "/nodes")
        assert (final.message, final.request_id) == ("no", last.request_id)
        assert last.request_id
    assert len(channel.requests) == tried
    # What costs nothing is asked for as often as any other.
    channel = ScriptedChannel(*[fault(500, "no")] * 4, answer(200))
    assert read(sender_of(channel, 20)).status == 200


def test_a_change_is_checked_again_before_each_further_try() -> None:
    later = (fault(503, "later"), answer(200))
    channel = ScriptedChannel(*[locked()] * 3, answer(202), *later, locked(), answer(202))
    sender = sender_of(channel)
    seen: list[tuple[str, int]] = []
    outer = sender.rechecking(lambda: seen.append(("outer", len(channel.requests))))
    inner = outer.rechecking(lambda: seen.append(("inner", len(channel.requests)))).within(5.0)
    change(inner)
    assert seen == [(name, tries) for tries in (1, 2, 3) for name in ("outer", "inner")]
    seen.clear()
    assert read(inner).status == 200
    change(sender)
    assert not seen, "reads need none, and its twins leave it as it was"


def test_a_check_that_fails_for_good_ends_a_change() -> None:
    channel = ScriptedChannel(locked(), lost(), answer(200), answer(202))
    sender = sender_of(channel)
    assert change(sender.rechecking(lambda: sender.read(Call("GET", "/check"), bool))) == 202
    assert channel.lines == ["PUT /thing", "GET /check", "GET /check", "PUT /thing"]

    def check() -> None:
        raise exceptions.NodeTaken(NODE, "a", "b")

    channel = ScriptedChannel(locked())
    with pytest.raises(exceptions.NodeTaken):
        change(sender_of(channel).rechecking(check))
    assert channel.lines == ["PUT /thing"]
    channel = ScriptedChannel(lost(), answer(200, b"applied"))
    assert change(sender_of(channel).rechecking(check)) == "applied", "there is no further try"


def test_a_change_not_sent_for_its_version_is_not_looked_up() -> None:
    """What is there then is another's."""
    root = versions_answer("1.1", "1.115")
    channel = ScriptedChannel(lost(), fault(503, "later"), root, answer(202), versions=None)
    assert change(sender_of(channel)) == 202
    assert channel.lines == ["GET /", "GET /", "GET /", "PUT /thing"]
    channel = ScriptedChannel(lost(), versions=None)
    with pytest.raises(exceptions.IronicUnreachable):
        change(sender_of(channel, retries=0))
    assert channel.lines == ["GET /"]
