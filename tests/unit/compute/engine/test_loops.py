# SPDX-License-Identifier: Apache-2.0

"""A loop's rounds: when they come, and what ends them."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from ironic_virt.compute.engine.loops import Loop
from ironic_virt.compute.errors import ServiceSuperseded

PATIENCE = 20.0
FOREVER = 3600.0

Start = Callable[..., Loop]


class Rounds:
    """Counts rounds, and lets a test wait for one."""

    def __init__(self) -> None:
        self.count = 0
        self._came = threading.Condition()

    def __call__(self) -> None:
        with self._came:
            self.count += 1
            self._came.notify_all()

    def wait_for(self, count: int) -> None:
        with self._came:
            assert self._came.wait_for(lambda: self.count >= count, PATIENCE), self.count


@pytest.fixture
def start() -> Iterator[Start]:
    loops: list[Loop] = []

    def begin(
        action: Callable[[], None],
        interval: Callable[[], float],
        on_fatal: Callable[[Exception], None] = lambda _error: None,
    ) -> Loop:
        loop = Loop("test", action, interval, on_fatal)
        loops.append(loop)
        loop.start()
        return loop

    yield begin
    for loop in loops:
        assert loop.stop(PATIENCE)


def test_the_first_round_comes_at_once_and_the_next_when_woken(start: Start) -> None:
    rounds = Rounds()
    loop = start(rounds, lambda: FOREVER)
    rounds.wait_for(1)
    loop.wake()
    rounds.wait_for(2)


def test_rounds_come_at_each_interval_as_it_is_then(start: Start) -> None:
    rounds = Rounds()
    intervals = iter([0.001, 0.001])
    start(rounds, lambda: next(intervals, FOREVER))
    rounds.wait_for(3)


def test_without_an_interval_a_round_comes_only_when_woken(start: Start) -> None:
    rounds = Rounds()
    asked = threading.Event()

    def interval() -> float:
        asked.set()
        return 0.0

    loop = start(rounds, interval)
    assert asked.wait(PATIENCE)
    loop.wake()
    rounds.wait_for(2)


def test_being_woken_during_a_round_brings_another_one(start: Start) -> None:
    rounds = Rounds()
    began, go_on = threading.Event(), threading.Event()

    def action() -> None:
        began.set()
        assert go_on.wait(PATIENCE)
        rounds()

    loop = start(action, lambda: FOREVER)
    assert began.wait(PATIENCE)
    loop.wake()
    go_on.set()
    rounds.wait_for(2)


def test_a_round_that_fails_is_logged_and_the_next_one_comes(start, caplog) -> None:
    rounds = Rounds()

    def action() -> None:
        rounds()
        if rounds.count == 1:
            raise RuntimeError("what a day")

    start(action, lambda: 0.001 if rounds.count < 2 else FOREVER)
    rounds.wait_for(2)
    assert "what a day" in caplog.text


def test_a_fatal_error_ends_the_loop_and_is_told(start: Start) -> None:
    told: list[Exception] = []

    def action() -> None:
        raise ServiceSuperseded("compute1")

    loop = start(action, lambda: 0.001, told.append)
    loop._thread.join(PATIENCE)
    assert [type(error) for error in told] == [ServiceSuperseded]


def test_an_interval_that_cannot_be_read_leaves_the_former_one(start, caplog) -> None:
    rounds = Rounds()

    def interval() -> float:
        if rounds.count == 1:
            return 0.001
        raise ValueError("'often' is no number")

    with caplog.at_level(logging.ERROR):
        start(rounds, interval)
        rounds.wait_for(3)
    assert "'often' is no number" in caplog.text


def test_a_loop_that_is_stopped_just_before_a_round_ends_at_once() -> None:
    rounds = Rounds()
    loop = Loop("test", rounds, lambda: FOREVER, lambda _error: None)

    class StoppedJustNow(threading.Event):
        def clear(self) -> None:
            loop.stop()
            super().clear()

    loop._woken = StoppedJustNow()
    loop.start()
    assert loop.stop(PATIENCE)
    assert rounds.count == 0
