# SPDX-License-Identifier: Apache-2.0

"""Ticks as functions of data: which requests, which waiters end, when the next one is."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import math
import random
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.baremetal.waiting import intervals
from ironic_virt.baremetal.waiting.intervals import PollIntervals
from ironic_virt.baremetal.waiting.poll import MOST_REQUESTS, Poll
from ironic_virt.baremetal.waiting.waiters import FIELDS, PollRequest, Waiter
from ironic_virt.driver.held import PATIENCE
from tests.clock import VirtualClock
from tests.unit.baremetal.ironic import Request, ScriptedIronic

INTERVAL = 8.0
DOWN = exceptions.IronicUnreachable("connection refused")
UNAVAILABLE = exceptions.IronicUnavailable("try later", status=503)
BROKEN = exceptions.IronicError("internal error", status=500)
REFUSED = exceptions.IronicUnauthorized("who are you?", status=401)
FORBIDDEN = exceptions.IronicUnauthorized("not for you", status=403)
TOO_OLD = exceptions.MicroversionNotSupported("filtering nodes by shard", "1.82", "1.70")


class Bench:
    """A poll with its Ironic and clock; ticks when it is due."""

    def __init__(self, nodes: dict[str, str], interval: float = INTERVAL, seed: int = 0) -> None:
        self.ironic = ScriptedIronic(nodes)
        self.clock = VirtualClock()
        self.lock = threading.Lock()
        self.where = NodeFilter(shard="s1", conductor_group="")
        self.poll = Poll(
            self.ironic,
            lambda: self.where,
            PollIntervals(interval, random.Random(seed)),
            self.clock,
            self.lock,
        )

    def wait(
        self,
        node: str,
        state: str | None = None,
        timeout: float = 0,
        patience: float = 1.0,
    ) -> Waiter:
        waiter = Waiter(
            node=node,
            woken=threading.Condition(self.lock),
            state=state,
            deadline=self.clock.now + timeout if timeout else None,
            patience=patience,
        )
        with self.lock:
            self.poll.add(waiter)
        return waiter

    def wait_for_all(self, **how: Any) -> list[Waiter]:
        """Wait for every node in the state in which it is."""
        nodes = list(self.ironic.nodes.items())
        return [self.wait(uuid, node.provision_state, **how) for uuid, node in nodes]

    def leave(self, *waiters: Waiter) -> None:
        with self.lock:
            for waiter in waiters:
                del self.poll.waiters[waiter]

    def next_due(self) -> float:
        with self.lock:
            return self.poll.next_due()

    def tick(self) -> list[Request]:
        """Go on to when something is due, and look one after the other; what was asked."""
        due = self.next_due()
        assert due < math.inf
        self.clock.now = max(self.clock.now, due)
        self.ironic.take_requests()
        while (look := self._take()) is not None:
            self.poll.land(look, self.poll.ask(look))
        return self.ironic.take_requests()

    def run(self, seconds: float) -> list[Request]:
        """Tick until so much time has passed; what was asked."""
        end, asked = self.clock.now + seconds, []
        while self.clock.now < end:
            asked += self.tick()
        return asked

    def pauses(self, count: int) -> list[float]:
        """Tick so often; the seconds before each tick."""
        times = [self.clock.now]
        for _ in range(count):
            self.tick()
            times.append(self.clock.now)
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    def _take(self) -> PollRequest | None:
        with self.lock:
            return self.poll.take()


# -- what a tick asks ---------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Tick:
    """What a tick asks.

    :ivar states: where the nodes are, which is also where they were last seen.
    :ivar moves: where some go before the tick; ``None``: they are deleted.
    :ivar asked: the requests, ``state:`` for a list of a state and else a node.
    :ivar waits: who waits, if not one for each node.
    """

    states: dict[str, str]
    asked: str
    moves: dict[str, str | None] = dataclasses.field(default_factory=dict)
    waits: list[tuple[str, str | None]] | None = None


def deploying(count: int) -> dict[str, str]:
    return {f"n{number}": "deploying" for number in range(count)}


BOTH_WAIT = {"c": "wait call-back", "d": "wait call-back"}
TICKS = {
    "one list serves all in a transitional state": Tick(deploying(500), "deploying:"),
    "a node that left it is asked for by itself": Tick(
        deploying(5), "deploying: n3 n4", {"n3": "active", "n4": None}
    ),
    "one that waits alone is a single request": Tick(
        deploying(2), "n0", waits=[("n0", "deploying")]
    ),
    "two that wait for one node share it": Tick({"a": "deploying"}, "a", waits=[("a", None)] * 2),
    "each state is a list of its own": Tick(
        deploying(2) | {"c": "cleaning", "d": "cleaning", "e": "active"},
        "deploying: cleaning: e",
    ),
    "a node in another state that is listed needs no request": Tick(
        deploying(3) | BOTH_WAIT, "deploying: wait call-back:", {"n0": "wait call-back"}
    ),
    "nodes that go on together cost one request and one list": Tick(
        deploying(500),
        "deploying: n0 wait call-back:",
        {f"n{number}": "wait call-back" for number in range(500)},
    ),
    "one node alone is not looked for by a list": Tick(
        deploying(4), "deploying: n0 n1", {"n0": "wait call-back", "n1": "wait call-back"}
    ),
    "a node that never left tells nothing of those that did": Tick(
        {"lone": "cleaning", "a": "active", "b": "active"},
        "deploying: lone a b",
        waits=[("lone", "cleaning"), ("a", "deploying"), ("b", "deploying")],
    ),
    "only those that left a state are looked for in the next": Tick(
        deploying(2) | {"c": "active", "d": "active"},
        "deploying: c d n0",
        {"n0": "wait call-back"},
    ),
} | {
    f"the state {state} is never listed": Tick(
        {"a": "active", "b": "active"}, "a b", waits=[("a", state), ("b", state)]
    )
    for state in ("active", "available", "deploy failed", "no such state", None)
}


@pytest.mark.parametrize("tick", TICKS.values(), ids=TICKS)
def test_a_tick_asks_for_little_and_all_who_wait_see_what_is(tick: Tick) -> None:
    bench = Bench(tick.states | {"somebody-else's": "deploying"})
    waits = [*tick.states.items()] if tick.waits is None else tick.waits
    waiters = [bench.wait(node, state) for node, state in waits]
    for node, state in tick.moves.items():
        bench.ironic.move(node, state)
    asked = [f"{what}:" if kind == "list" else what for kind, what in bench.tick()]
    assert " ".join(map(str, asked)) == tick.asked
    for waiter in waiters:
        found = bench.ironic.nodes.get(waiter.node)
        assert waiter.unread
        assert waiter.seen is found
        assert waiter.state == (found and found.provision_state)


def test_lists_are_restricted_to_this_services_nodes() -> None:
    bench = Bench(deploying(2))
    bench.wait_for_all()
    bench.tick()
    bench.where = NodeFilter(conductor_group="rack2")
    bench.tick()
    assert bench.ironic.filters == [
        NodeFilter(shard="s1", conductor_group="", provision_state="deploying"),
        NodeFilter(conductor_group="rack2", provision_state="deploying"),
    ]


def test_a_list_serves_waiters_who_are_not_due_yet() -> None:
    bench = Bench(deploying(4))
    waiters = bench.wait_for_all()
    for waiter in waiters[1:]:
        waiter.due = bench.clock.now + 100
    bench.ironic.move("n3", "active")
    assert bench.tick() == [("list", "deploying"), ("get", "n3")]
    assert all(waiter.unread for waiter in waiters)
    assert all(waiter.due <= bench.clock.now + INTERVAL for waiter in waiters)


def test_nodes_missing_from_a_list_are_asked_for() -> None:
    """Outside of the filter, or back in the state between the list and the single look."""
    bench = Bench(deploying(4))
    waiters = bench.wait_for_all()
    answered = bench.ironic.list_nodes
    bench.ironic.list_nodes = lambda *asked, **how: answered(*asked, **how)[:1]  # type: ignore[method-assign]
    assert bench.tick() == [("list", "deploying"), *(("get", f"n{n}") for n in (1, 2, 3))]
    assert all(waiter.seen is not None for waiter in waiters)


def test_the_state_last_seen_decides_what_is_asked_next() -> None:
    bench = Bench({"a": "available", "b": "available"})
    waiters = [bench.wait("a"), bench.wait("b")]
    bench.ironic.move("a", "deploying")
    bench.ironic.move("b", "deploying")
    assert [kind for kind, _ in bench.tick()] == ["get", "get"]
    assert {waiter.state for waiter in waiters} == {"deploying"}
    assert bench.tick() == [("list", "deploying")]


def test_a_waiter_who_came_later_does_not_get_an_older_answer() -> None:
    """The node may have been read before the newcomer's own change of it."""
    bench = Bench(deploying(2))
    early = bench.wait_for_all()
    late: list[Waiter] = []

    def come_late(request: Request) -> None:
        late.append(bench.wait("n0", "deploying"))

    bench.ironic.trouble = come_late  # type: ignore[assignment]
    bench.tick()
    assert all(waiter.unread for waiter in early)
    assert not any(waiter.unread for waiter in late)


def test_nobody_is_asked_for_whose_waiters_have_left() -> None:
    bench = Bench({"a": "active", "b": "active"})
    waiters = [bench.wait("a"), bench.wait("b")]

    def leave(request: Request) -> None:
        other = next(waiter for waiter in waiters if waiter.node != request[1])
        bench.leave(other)

    bench.ironic.trouble = leave  # type: ignore[assignment]
    assert len(bench.tick()) == 1
    bench.leave(*bench.poll.waiters)
    assert bench.next_due() == math.inf, "nobody waiting is no tick"
    bench.ironic.trouble = lambda request: None
    bench.wait("a")
    bench.wait("b")
    assert len(bench.tick()) == 2, "who comes back is asked for again"


def test_only_a_change_is_news() -> None:
    """Five hundred threads need not wake up to find what they have found before."""
    bench = Bench(deploying(3))
    waiters = [*bench.wait_for_all(), bench.wait("n0", "deploying")]

    def told() -> list[bool]:
        news = [waiter.unread for waiter in waiters]
        for waiter in waiters:
            waiter.unread = False
        return news

    bench.tick()
    assert told() == [True] * 4, "the first look, whatever it shows"
    bench.ironic.move("n0", "deploying")  # equal, as each answer is again
    bench.tick()
    assert told() == [False] * 4
    bench.ironic.move("n1", "deploying", last_error="one disk is slow")
    bench.ironic.move("n2", None)
    bench.tick()
    assert told() == [False, True, True, False]
    while waiters[2].polls < 4:
        bench.tick()
        assert told() == [False] * 4, "that a node is still gone is no news either"
    assert [waiter.polls >= 4 for waiter in waiters[:3]] == [True] * 3


# -- a state that others crowd ------------------------------------------------


def crowd(count: int) -> dict[str, str]:
    return {f"foreign-{number}": "cleaning" for number in range(count)}


def test_a_state_of_thousands_is_not_listed_for_a_few() -> None:
    bench = Bench(crowd(5000) | {"a": "cleaning", "b": "cleaning"})
    waiters = [bench.wait("a", "cleaning"), bench.wait("b", "cleaning")]
    kinds = [kind for kind, _ in bench.run(600)]
    assert 9 <= kinds.count("list") <= 11, "once a minute, to see"
    assert kinds.count("get") > 100
    assert all(waiter.polls > 60 for waiter in waiters)
    bench.ironic.move("a", "available")
    bench.tick()
    bench.tick()
    assert waiters[0].state == "available"


def test_hundreds_of_ours_are_listed_among_thousands_of_others() -> None:
    bench = Bench(crowd(5000) | {f"ours-{number}": "cleaning" for number in range(300)})
    for number in range(300):
        bench.wait(f"ours-{number}", "cleaning")
    for _ in range(5):
        assert bench.tick() == [("list", "cleaning")]


@pytest.mark.parametrize("why", ["more of ours", "the crowd has gone"])
def test_a_state_is_listed_again_when_it_is_worth_it(why: str) -> None:
    bench = Bench(crowd(500) | {f"ours-{number}": "cleaning" for number in range(20)})
    bench.wait("ours-0", "cleaning")
    bench.wait("ours-1", "cleaning")
    assert ("list", "cleaning") in bench.tick()
    assert ("list", "cleaning") not in bench.tick()
    if why == "more of ours":
        for number in range(2, 20):
            bench.wait(f"ours-{number}", "cleaning")
    else:
        for foreign in crowd(500):
            bench.ironic.move(foreign, None)
        began = bench.clock.now
        while bench.tick() != [("list", "cleaning")]:
            assert bench.clock.now < began + 60 + INTERVAL
    assert bench.tick() == [("list", "cleaning")]


def test_nodes_gone_on_into_a_crowd_are_looked_at_one_by_one() -> None:
    bench = Bench(crowd(500) | {f"ours-{number}": "deleting" for number in range(5)})
    bench.wait("ours-0", "cleaning")
    bench.wait("ours-1", "cleaning")
    bench.tick()
    for waiter in bench.poll.waiters:
        waiter.state = "deleting"
    for number in range(2, 5):
        bench.wait(f"ours-{number}", "deleting")
    for number in range(5):
        bench.ironic.move(f"ours-{number}", "cleaning")
    assert [kind for kind, _ in bench.tick()] == ["list", "get", "get", "get", "get", "get"]


# -- when ---------------------------------------------------------------------


@given(st.floats(0.4, 60), st.sampled_from([1.0, 2.0, 5.0]), st.integers(0, 1000))
def test_the_first_look_comes_soon_and_pauses_are_bounded(interval, patience, seed) -> None:
    bench = Bench({"a": "active"}, interval, seed)
    bench.wait("a", patience=patience)
    longest = interval * patience
    pauses = bench.pauses(12)
    assert interval * 0.2 - 1e-6 <= pauses[0] <= interval * 0.25 + 1e-6
    assert all(interval * 0.2 - 1e-6 <= pause <= longest + 1e-6 for pause in pauses)
    assert all(pause >= longest * 0.8 - 1e-6 for pause in pauses[6:]), "it grows to the longest"
    assert len(set(pauses[6:])) > 1, "with jitter"


@given(st.integers(0, 1000), st.floats(10, 11.3))
def test_a_deployment_of_ten_intervals_costs_five_looks(seed: int, took: float) -> None:
    """Of 20 s, that is, with 2 s: Nova's driver looks eleven times and more."""
    bench = Bench({"a": "deploying"}, INTERVAL, seed)
    waiter = bench.wait("a", "deploying", patience=PATIENCE)
    bench.run(took * INTERVAL)
    assert waiter.polls <= 5


@pytest.mark.parametrize(
    ("patience", "count", "shortest", "longest"),
    [(5.0, count, 0.8 * 5.0 / count, 5.0 / count) for count in (2, 3, 5)]
    + [(5.0, 10, 0.6, 0.75), (5.0, 100, 0.6, 0.75), (1.0, 100, 0.6, 0.62)],
)
def test_the_more_share_a_list_the_sooner_it_comes(patience, count, shortest, longest) -> None:
    """It never costs more for each of them than if everyone waited alone."""
    bench = Bench(deploying(count))
    bench.wait_for_all(patience=patience)
    for pause in bench.pauses(30)[6:]:
        assert INTERVAL * shortest - 1e-6 <= pause <= INTERVAL * longest + 1e-6


def test_where_others_have_left_the_last_is_looked_at_soon() -> None:
    bench = Bench(deploying(2))
    first, _ = bench.wait_for_all(patience=5.0)
    bench.run(30 * INTERVAL)
    bench.ironic.move(first.node, "active")
    assert bench.tick() == [("list", "deploying"), ("get", first.node)]
    bench.leave(first)
    pauses = bench.pauses(6)
    assert pauses[0] <= 1.5 * INTERVAL
    assert pauses[1] <= 3.0 * INTERVAL
    assert min(pauses[4:]) >= 4.0 * INTERVAL, "and then later and later as before"


@pytest.mark.parametrize("interval", [0.0, 0.001])
def test_no_interval_makes_a_busy_loop(interval: float) -> None:
    shortest = intervals.SHORTEST_INTERVAL
    bench = Bench({"a": "active"}, interval)
    bench.wait("a")
    assert min(bench.pauses(20)[1:]) > shortest * 0.99
    bench.ironic.trouble = lambda request: BROKEN
    failing = bench.pauses(20)
    assert min(failing[1:]) > shortest * 0.99
    assert failing[-1] >= shortest * 4


def test_who_is_due_at_nearly_the_same_time_is_served_together() -> None:
    bench = Bench({"a": "active", "b": "active"})
    first = bench.wait("a")
    second = bench.wait("b")
    first.due, second.due = bench.clock.now + 1, bench.clock.now + 1 + INTERVAL / 8
    assert len(bench.tick()) == 2
    first.due, second.due = bench.clock.now + 1, bench.clock.now + 1.1 + INTERVAL / 8
    assert len(bench.tick()) == 1


def begun(bench: Bench) -> list[PollRequest]:
    """Go on to when something is due, and send all that may be sent; nothing is answered yet."""
    bench.clock.now = max(bench.clock.now, bench.next_due())
    return list(iter(bench._take, None))


def land(bench: Bench, *looks: PollRequest) -> None:
    """Let these be answered."""
    for look in looks:
        bench.poll.land(look, bench.poll.ask(look))


def land_all(bench: Bench) -> None:
    """Send and answer all requests that are due."""
    while (look := bench._take()) is not None:
        land(bench, look)


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_queued_is_sent_as_soon_as_one_has_been_answered(count: int) -> None:
    nodes = {f"n{number}": "active" for number in range(MOST_REQUESTS)}
    transitional = sorted(states.TRANSITIONAL)[:count]
    late = {f"{state} {number}": state for state in transitional for number in range(2)}
    bench = Bench(nodes | late)
    bench.wait_for_all()
    under_way = begun(bench)
    # Lists go first.
    assert len(under_way) == MOST_REQUESTS
    assert bench.next_due() == math.inf
    land(bench, under_way[-1])
    assert bench.next_due() <= bench.clock.now
    assert bench._take() is not None


def test_a_waiter_who_left_a_queued_state_is_not_looked_for() -> None:
    crowd = {
        f"{state} {number}": state
        for state in sorted(states.TRANSITIONAL)[: MOST_REQUESTS + 1]
        for number in range(3)
    }
    bench = Bench(crowd)
    waiters = dict(zip(crowd, bench.wait_for_all(), strict=True))
    under_way = begun(bench)
    (queued,) = bench.poll._lists
    gone, goes, stays = (node for node, state in crowd.items() if state == queued)
    bench.leave(waiters[gone])
    bench.clock.now += INTERVAL
    bench.wait("new")
    bench.ironic.move(goes, "active")
    bench.clock.now = max(bench.clock.now, *(waiter.due for waiter in bench.poll.waiters))
    land(bench, under_way[0])
    land_all(bench)
    land(bench, *under_way[1:])
    land_all(bench)
    seen = {node: waiters[node].seen for node in (gone, goes, stays)}
    assert seen[gone] is None
    assert {node: one.provision_state for node, one in seen.items() if one is not None} == {
        goes: "active",
        stays: queued,
    }


def test_whoever_is_still_waited_for_shows_where_the_others_are() -> None:
    nodes = deploying(6) | {"c": "cleaning", "d": "cleaning"}
    bench = Bench(nodes)
    waiters = bench.wait_for_all()
    first, second = begun(bench)
    for number in range(6):
        bench.ironic.move(f"n{number}", "wait call-back")
    land(bench, first)
    bench.leave(waiters[0])
    land(bench, second)
    bench.ironic.take_requests()
    land_all(bench)
    assert len(bench.ironic.take_requests()) == 2, "a node, and a list of its state"
    assert {waiter.state for waiter in waiters[1:6]} == {"wait call-back"}


@pytest.mark.parametrize("timeout", [0.01, 0.3, 1.9, 20.0])
def test_there_is_a_look_before_the_deadline(timeout: float) -> None:
    bench = Bench({"a": "active"})
    waiter = bench.wait("a", timeout=timeout)
    assert waiter.deadline is not None
    looks = []
    while bench.next_due() < waiter.deadline:
        bench.tick()
        looks.append(bench.clock.now)
    assert looks
    assert waiter.deadline - looks[-1] <= 0.5, "what happened just before the end is seen"
    assert len(looks) <= 8


def test_an_unseen_node_in_trouble_is_not_asked_for_ever_faster() -> None:
    bench = Bench({"a": "active"})
    bench.ironic.trouble = lambda request: BROKEN
    waiter = bench.wait("a", timeout=3)
    assert waiter.deadline is not None
    looks = 0
    while waiter.due < waiter.deadline:
        bench.tick()
        looks += 1
    assert looks <= 3


@pytest.mark.parametrize(
    ("failures", "usual", "seconds"),
    [(0, None, 2.0), (2, None, 4.5), (0, 0.1, 1.0), (0, 1.0, 5.0), (1, 1.0, 7.5)],
)
def test_a_request_may_take_longer_than_usual_and_after_failures(failures, usual, seconds) -> None:
    assert PollIntervals.timeout(failures, usual) == seconds
    assert PollIntervals.timeout(10**6, usual) == PollIntervals.timeout(10, usual)


def test_how_long_a_request_takes_is_remembered_for_a_while() -> None:
    bench = Bench({"a": "active"})
    bench.wait("a", "active")
    timeouts = []
    for took in (0.1, 10.0, 0.1, 0.1):
        (look,) = begun(bench)
        timeouts.append(look.timeout)
        bench.clock.now += took
        land(bench, look)
    (look,) = begun(bench)
    assert [*timeouts, look.timeout] == pytest.approx([2.0, 1.0, 50.0, 40.0, 32.0])


@pytest.mark.parametrize("late", [0.0, 3.0, 100.0])
def test_who_was_served_late_waits_less_but_half_a_pause(late: float) -> None:
    longest, seeds = INTERVAL * 5.0, range(200)
    pauses = [PollIntervals(INTERVAL, random.Random(n)).pause(20, 5.0, late=late) for n in seeds]
    drawn = [PollIntervals(INTERVAL, random.Random(n)).pause(20, 5.0) for n in seeds]
    assert pauses == [max(min(one, longest - late), one / 2) for one in drawn]


def test_a_request_has_its_own_timeout_and_asks_for_few_fields() -> None:
    look, listing = PollRequest(node="a", timeout=3.5), PollRequest(state="deploying", timeout=2.5)
    client, gone = mock.Mock(), exceptions.NodeNotFound("gone", status=404)
    client.within.return_value.get_node.side_effect = [Node(uuid="a"), gone]
    client.within.return_value.list_nodes.side_effect = [[Node(uuid="b")], gone]
    assert look.answer(client, lambda: NodeFilter(shard="s")) == [Node(uuid="a")]
    assert listing.answer(client, lambda: NodeFilter(shard="s")) == [Node(uuid="b")]
    where = NodeFilter(shard="s", provision_state="deploying")
    assert client.mock_calls == [
        *(mock.call.within(3.5), mock.call.within().get_node("a")),
        *(mock.call.within(2.5), mock.call.within().list_nodes(where, fields=FIELDS)),
    ]
    assert look.answer(client, NodeFilter) == [], "a missing node is an answer"
    assert listing.answer(client, NodeFilter) is gone, "a missing list is not"


def test_a_request_that_nobody_waits_for_has_no_failures() -> None:
    request = PollRequest(state="deploying", expected={"a": None})
    assert (request.waiters(), request.failures()) == ([], 0)


# -- when Ironic can't be asked -----------------------------------------------


@pytest.mark.parametrize(
    "error", [DOWN, UNAVAILABLE, BROKEN, exceptions.NotFound("no such path", status=404)]
)
@pytest.mark.parametrize("count", [1, 3])
def test_an_error_tells_the_waiters_nothing(error: Exception, count: int) -> None:
    bench = Bench(deploying(count))
    bench.ironic.trouble = lambda request: error
    waiters = bench.wait_for_all()
    for _ in range(3):
        assert len(bench.tick()) == 1, "a list that failed is not made up for node by node"
    assert not any(waiter.unread or waiter.error for waiter in waiters)
    assert {waiter.state for waiter in waiters} == {"deploying"}
    assert {waiter.last_error for waiter in waiters} == {str(error)}
    bench.ironic.trouble = lambda request: None
    bench.tick()
    assert all(waiter.unread and waiter.last_error is None for waiter in waiters)


@pytest.mark.parametrize("error", [DOWN, BROKEN])
@pytest.mark.parametrize("count", [1, 2])
def test_pauses_grow_while_ironic_fails_and_shrink_again(error: Exception, count: int) -> None:
    bench = Bench(deploying(count))
    bench.ironic.trouble = lambda request: error
    bench.wait_for_all()
    pauses = bench.pauses(10)
    assert pauses[1] <= INTERVAL
    assert all(INTERVAL * 4 <= pause <= INTERVAL * 5 for pause in pauses[-3:])
    for answer in (None, error, None):
        bench.ironic.trouble = lambda request, answer=answer: answer  # type: ignore[misc]
        bench.tick()
        assert bench.pauses(1)[0] <= INTERVAL * 1.5


def test_requests_queued_when_ironic_goes_down_are_planned_again() -> None:
    crowded = {
        f"{state}-{number}": state
        for state in ("deploying", "cleaning", "wait call-back", "deleting", "active")
        for number in range(3)
    }
    bench = Bench(crowded)
    bench.ironic.trouble = lambda request: DOWN
    waiters = bench.wait_for_all()
    for waiter in waiters:
        waiter.due = bench.clock.now
    assert [kind for kind, _ in bench.tick()] == ["list"] * 3, "and of four, and three nodes"
    poll = bench.poll
    assert [*poll._lists, *poll._gets, *poll._listing, *poll._busy] == []
    bench.ironic.trouble = lambda request: None
    while not all(waiter.polls for waiter in waiters):
        bench.tick()


def test_nodes_that_went_on_in_an_outage_are_planned_again() -> None:
    bench = Bench(deploying(3) | {"a": "active", "b": "active", "c": "active"})
    waiters = bench.wait_for_all()
    listed, *looks = begun(bench)
    bench.ironic.move("n0", "active")
    bench.ironic.move("n1", "active")
    land(bench, listed)
    assert list(bench.poll._gets) == ["n0"], "and n1 waits for what it shows"
    for look in looks:
        bench.poll.land(look, DOWN)
    assert [*bench.poll._lists, *bench.poll._gets, *bench.poll._busy] == []
    while not all(waiter.polls for waiter in waiters):
        bench.tick()


def test_a_node_that_always_fails_does_not_keep_others_waiting() -> None:
    bench = Bench({"sick": "active"} | {f"n{number}": "active" for number in range(5)})
    bench.ironic.trouble = lambda request: UNAVAILABLE if request[1] == "sick" else None
    waiters = {uuid: bench.wait(uuid) for uuid in bench.ironic.nodes}
    bench.run(20 * INTERVAL)
    looks = {uuid: waiter.polls for uuid, waiter in waiters.items()}
    for _ in range(5):
        bench.wait("sick")
        for waiter in bench.poll.waiters:
            waiter.due = bench.clock.now
        requests = bench.tick()
        assert len(requests) == 6
        assert requests[-1] == ("get", "sick")
    assert looks["sick"] == 0
    assert all(looks[f"n{number}"] >= 15 for number in range(5))


@pytest.mark.parametrize(("error", "after"), [(ValueError("a bug"), 0.1), (FORBIDDEN, 90)])
def test_an_error_for_good_ends_the_waits_that_meet_it(caplog, error, after) -> None:
    bench = Bench(deploying(2) | {"c": "active"}, interval=2)
    bench.ironic.trouble = lambda request: error if request[0] == "list" else None
    waiters = bench.wait_for_all()
    bench.run(after)
    assert [waiter.error for waiter in waiters] == [error, error, None]
    assert waiters[2].unread
    tracebacks = [one.exc_info[1] for one in caplog.records if one.exc_info]
    assert tracebacks == ([] if error is FORBIDDEN else [error])


@pytest.mark.parametrize("error", [REFUSED, FORBIDDEN, TOO_OLD])
def test_refusals_end_the_waits_after_a_minute_and_not_before(error: Exception) -> None:
    """Keystone restarts, or one API server of several is not set up yet: that passes."""
    bench = Bench({f"n{number}": "active" for number in range(50)}, interval=2)
    waiters = bench.wait_for_all()
    bench.ironic.trouble = lambda request: error
    bench.run(50)
    assert not any(waiter.error for waiter in waiters)
    bench.ironic.trouble = lambda request: None
    bench.run(25)
    assert all(waiter.polls for waiter in waiters)
    bench.ironic.trouble = lambda request: error
    began = bench.clock.now
    while not all(waiter.error for waiter in waiters):
        bench.tick()
    assert {waiter.error for waiter in waiters} == {error}
    assert 60 <= bench.clock.now - began <= 90


def test_a_filter_that_can_not_be_told_ends_the_waits() -> None:
    bench = Bench(deploying(2))
    error = exceptions.InvalidConfiguration("[ironic] shard_key", "is nonsense")

    def refuse() -> NodeFilter:
        raise error

    bench.poll._node_filter = refuse
    waiters = bench.wait_for_all()
    assert bench.tick() == []
    assert [waiter.error for waiter in waiters] == [error, error]


Lines = Callable[[], list[tuple[str, str]]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """What an operator reads."""
    caplog.set_level(logging.INFO)
    return lambda: [(one.levelname, one.getMessage()) for one in caplog.records]


def test_trouble_and_recovery_are_one_line_each(lines: Lines) -> None:
    bench = Bench(deploying(3) | {"c": "active"})
    bench.wait_for_all()
    bench.tick()
    bench.ironic.trouble = lambda request: DOWN
    bench.pauses(6)
    [(level, text)] = lines()
    assert level == "WARNING"
    assert "The request for nodes in state 'deploying', for which 3 wait, has failed; it" in text
    assert "connection refused" in text
    bench.ironic.trouble = lambda request: BROKEN
    bench.tick()
    assert len(lines()) == 2, "another trouble is another line"
    bench.ironic.trouble = lambda request: None
    bench.pauses(6)
    recovered = "Ironic answers all requests for awaited nodes again, after 115 s"
    assert lines()[2:] == [("INFO", recovered)]
    bench.ironic.trouble = lambda request: DOWN
    bench.tick()
    assert len(lines()) == 4, "the next trouble is told again"


def test_trouble_that_lasts_is_told_every_few_minutes(lines: Lines) -> None:
    bench = Bench({"a": "active"}, interval=2)
    bench.wait("a")
    bench.ironic.trouble = lambda request: DOWN
    bench.run(3600)
    assert 10 <= len(lines()) <= 13
    assert {level for level, _ in lines()} == {"WARNING"}
    assert "node a, for which 1 wait, has failed for 3" in lines()[1][1]


def test_no_recovery_is_claimed_because_the_one_who_waited_left(lines: Lines) -> None:
    bench = Bench({"a": "active", "b": "active"})
    waiters = {"a": bench.wait("a"), "b": bench.wait("b")}

    def fail_and_leave(request: Request) -> Exception:
        bench.leave(waiters[str(request[1])])
        return DOWN

    bench.ironic.trouble = fail_and_leave
    bench.tick()
    assert [level for level, _ in lines()] == ["WARNING"]


def test_no_recovery_is_claimed_while_a_single_node_fails(lines: Lines) -> None:
    bench = Bench({"a": "active", "sick": "active"})
    bench.wait_for_all()
    bench.ironic.trouble = lambda request: BROKEN if request[1] == "sick" else None
    bench.pauses(10)
    assert [level for level, _ in lines()] == ["WARNING"]


def test_trouble_is_told_again_to_those_who_come_later(lines: Lines) -> None:
    bench = Bench({"a": "active"})
    bench.ironic.trouble = lambda request: DOWN
    for count in (1, 2):
        waiter = bench.wait("a")
        came = bench.clock.now
        bench.tick()
        assert bench.clock.now <= came + INTERVAL / 4
        bench.leave(waiter)
        assert len(lines()) == count


# -- any history --------------------------------------------------------------

STATES = st.sampled_from(
    ["deploying", "wait call-back", "active", "deploy failed", "cleaning", "available", None]
)
NAMES = [f"n{number}" for number in range(6)]
MOVES = st.lists(st.tuples(st.sampled_from(NAMES), STATES), max_size=6)
TROUBLES = st.sampled_from([None, None, None, DOWN, BROKEN])


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), STATES), min_size=1, max_size=10),
    st.lists(st.tuples(MOVES, TROUBLES), max_size=12),
    st.integers(0, 1000),
)
@example(
    waits=[("n1", "deploying"), ("n0", "deploying"), ("n0", "wait call-back")],
    history=[([("n0", None), ("n1", "wait call-back")], None)],
    seed=0,
)
def test_every_waiter_sees_its_state_at_a_bounded_cost(waits, history, seed) -> None:
    bench = Bench(dict.fromkeys(NAMES, "deploying"), seed=seed)
    waiters = [bench.wait(uuid, state) for uuid, state in waits]
    told: dict[Waiter, Node | None] = {}
    for moves, trouble in history:
        for uuid, state in moves:
            bench.ironic.move(uuid, state)
        bench.ironic.trouble = lambda request, trouble=trouble: trouble  # type: ignore[misc]
        requests = bench.tick()
        lists = [state for kind, state in requests if kind == "list"]
        gets = [uuid for kind, uuid in requests if kind == "get"]
        assert len(set(lists)) == len(lists)
        assert set(lists) <= states.TRANSITIONAL
        assert len(set(gets)) == len(gets)
        assert not trouble or not any(waiter.unread for waiter in waiters)
        for index, (kind, uuid) in enumerate(requests):
            if kind == "get" and uuid in bench.ironic.nodes and not trouble:
                now = bench.ironic.nodes[uuid].provision_state
                assert ("list", now) not in requests[:index], "that list has shown it"
        for waiter in waiters:
            if waiter.unread:
                assert waiter.seen is bench.ironic.nodes.get(waiter.node)
                told[waiter] = waiter.seen
                waiter.unread = False
            elif waiter.polls:
                assert waiter.seen == told[waiter], "a change is always news"
    bench.ironic.trouble = lambda request: None
    bench.run(6 * INTERVAL + 1)
    for waiter in waiters:
        assert waiter.polls
        assert waiter.seen is bench.ironic.nodes.get(waiter.node)
