# SPDX-License-Identifier: Apache-2.0

"""Which failures of polls mean that Ironic is down, and what is done then."""

import logging
import random
import threading

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.waiting.circuit_breaker import ALIVE_FOR, REFUSED_FOR, CircuitBreaker
from ironic_virt.baremetal.waiting.intervals import PollIntervals
from ironic_virt.baremetal.waiting.waiters import PollRequest, Waiter
from tests.clock import VirtualClock

INTERVAL = 8.0
DOWN = exceptions.IronicUnreachable("connection refused")
BUSY = exceptions.IronicUnavailable("try later", status=503)
REFUSED = exceptions.IronicUnauthorized("who are you?", status=401)
FORBIDDEN = exceptions.IronicUnauthorized("not for you", status=403)
BROKEN = exceptions.IronicError("broken", status=500)


class Bench:
    """A breaker with its clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.breaker = CircuitBreaker(PollIntervals(INTERVAL, random.Random(0)), self.clock)

    def fail(
        self, error: Exception, *waiters: Waiter, took: float = 0.0, timeout: float = 2.0
    ) -> bool:
        """Have a poll fail that took so many seconds."""
        request = PollRequest(node="a", began=self.clock.now, timeout=timeout)
        self.clock.now += took
        return self.breaker.failed(request, waiters, error)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def waiter() -> Waiter:
    return Waiter("a", threading.Condition())


@pytest.mark.parametrize(
    ("error", "down"),
    [(DOWN, True), (BUSY, True), (REFUSED, True), (FORBIDDEN, False), (BROKEN, False)],
)
def test_three_general_failures_in_a_row_mean_down(bench, error, down) -> None:
    bench.breaker.answered()
    told = [bench.fail(error) for _ in range(4)]
    assert told == [False, False, down, False], "and polls are held off once, for a while"
    assert bench.breaker.lasts is down
    assert (bench.breaker.held_until > bench.clock.now) is down
    bench.breaker.answered()
    assert bench.breaker.held_until < 0
    assert not bench.breaker.lasts
    assert bench.fail(error) is False, "an answer begins the row anew"


@pytest.mark.parametrize(
    ("took", "after", "counts"),
    [
        (2.0, 0.0, False),  # It hung: others are answered.
        (2.0, ALIVE_FOR - 0.1, False),
        (2.0, ALIVE_FOR, True),
        (1.9, 0.5, True),  # It was refused.
        (0.0, 0.0, True),
    ],
)
def test_a_poll_that_hangs_soon_after_an_answer_is_not_counted(bench, took, after, counts) -> None:
    for _ in range(3):
        # As if all had been sent at the same time.
        began = bench.clock.now
        bench.breaker.answered()
        bench.clock.now += after
        bench.fail(DOWN, took=took)
        breaker_counts = bench.breaker._in_a_row
        bench.clock.now = began
        assert breaker_counts == int(counts)


def test_a_poll_that_began_before_the_last_answer_says_nothing(bench: Bench) -> None:
    request = PollRequest(node="a", began=bench.clock.now, timeout=60)
    bench.clock.now += 5
    bench.breaker.answered()
    for _ in range(5):
        assert bench.breaker.failed(request, (), BUSY) is False
    assert not bench.breaker.lasts


def test_one_failure_among_answers_is_repeated_like_a_first_poll(bench: Bench) -> None:
    same = PollIntervals(INTERVAL, random.Random(0))
    bench.breaker.answered()
    request = PollRequest(node="a", began=bench.clock.now, timeout=2)
    bench.clock.now += 0.5
    assert bench.breaker.pause(request, 1, DOWN) == pytest.approx(same.pause(0, 1.0) - 0.5)
    assert bench.breaker.pause(request, 4, DOWN) == pytest.approx(same.backoff(1) - 0.5)
    assert bench.breaker.pause(request, 1, BROKEN) == pytest.approx(same.backoff(1) - 0.5)
    bench.clock.now += 60
    assert 0 < bench.breaker.pause(request, 1, DOWN) < 0.1, "it has taken its time already"


@pytest.mark.parametrize("error", [FORBIDDEN, REFUSED])
def test_waits_end_when_ironic_has_refused_for_a_minute(bench: Bench, error: Exception) -> None:
    waiters = one, _ = waiter(), waiter()
    for _ in range(3):
        bench.fail(error, one)
    assert bench.breaker.given_up([one], waiters, error) == []
    bench.clock.now += REFUSED_FOR
    ended = [one] if error is FORBIDDEN else [*waiters]
    assert bench.breaker.given_up([one], waiters, error) == ended
    assert bench.breaker.given_up([one], waiters, BROKEN) == []
    assert bench.breaker.given_up([one], waiters, ValueError("a bug")) == [one]
    bench.fail(DOWN, one)
    bench.fail(error, one)
    assert bench.breaker.given_up([one], waiters, error) == [], "refused anew"


def test_each_kind_of_failure_is_told_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    request = PollRequest(node="a", began=bench.clock.now)
    gateway = exceptions.IronicUnavailable("bad gateway", status=502)
    for _ in range(2):
        for error in (DOWN, BUSY, gateway, REFUSED):
            bench.breaker.log_failure(request, 3, 1.5, error)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3 + ["ERROR"]
    assert "is repeated in 1.5 s" in caplog.messages[0]
    assert bench.breaker.has_logged
    bench.clock.now += 7
    bench.breaker.log_recovery()
    assert caplog.messages[-1].endswith("again, after 7 s")
    assert not bench.breaker.has_logged
