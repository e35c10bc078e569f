# SPDX-License-Identifier: Apache-2.0

"""The first signal ends the demo in order, the second at once."""

import concurrent.futures
import signal
import threading
from collections.abc import Iterator

import pytest

from ironic_virt.cmd.demo.interrupts import Interrupted, Interrupts
from tests import signals


class Left(Exception):
    """Stands for the end of the process."""


def leave(code: int) -> None:
    raise Left(code)


class Time:
    """Time that passes only in sleep, with a signal at a chosen moment."""

    def __init__(self, signal_at: float | None = None) -> None:
        self.now = 0.0
        self._signal_at = signal_at

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self._signal_at is not None and self.now >= self._signal_at:
            self._signal_at = None
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def interrupts(notes: list[str]) -> Iterator[Interrupts]:
    with (
        signals.heard(signal.SIGHUP),
        Interrupts(lambda: notes.append("stopping"), leave=leave) as interrupts,
    ):
        yield interrupts


@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
def test_the_first_signal_waits_until_somebody_looks(
    interrupts: Interrupts, notes: list[str], signum: signal.Signals, code: int
) -> None:
    interrupts.check()
    signal.raise_signal(signum)
    assert notes == []
    with pytest.raises(Interrupted) as caught:
        interrupts.check()
    assert caught.value.exit_code == code
    assert notes == ["stopping"]


def test_it_is_said_once_however_often_one_looks(interrupts: Interrupts, notes: list[str]) -> None:
    signal.raise_signal(signal.SIGINT)
    for _ in range(2):
        with pytest.raises(Interrupted):
            interrupts.check()
    assert notes == ["stopping"]


def test_the_second_signal_leaves_at_once_after_the_last_things(interrupts: Interrupts) -> None:
    done: list[str] = []

    def fail() -> None:
        raise RuntimeError("the terminal has gone")

    interrupts.before_leaving(fail)
    interrupts.before_leaving(lambda: done.append("directory removed"))
    signal.raise_signal(signal.SIGINT)
    assert done == []
    with pytest.raises(Left) as left:
        signal.raise_signal(signal.SIGTERM)
    assert left.value.args == (143,)
    assert done == ["directory removed"]


def test_a_sleep_ends_soon_after_a_signal() -> None:
    time = Time(signal_at=1.0)
    with (
        Interrupts(leave=leave, sleep=time.sleep, clock=time.clock) as interrupts,
        pytest.raises(Interrupted),
    ):
        interrupts.sleep(60)
    assert 1.0 <= time.now < 1.2


def test_a_sleep_without_a_signal_takes_its_time() -> None:
    time = Time()
    Interrupts(sleep=time.sleep, clock=time.clock).sleep(2.5)
    assert time.now == pytest.approx(2.5)


def test_waiting_for_threads_ends_by_a_signal(interrupts: Interrupts) -> None:
    over = threading.Event()
    with concurrent.futures.ThreadPoolExecutor() as threads:
        future = threads.submit(over.wait)
        signal.raise_signal(signal.SIGINT)
        try:
            with pytest.raises(Interrupted):
                interrupts.wait([future])
        finally:
            over.set()


def test_waiting_for_threads_ends_by_the_first_error(interrupts: Interrupts) -> None:
    over = threading.Event()

    def fail() -> None:
        raise ValueError("no such image")

    with concurrent.futures.ThreadPoolExecutor() as threads:
        futures = [threads.submit(over.wait), threads.submit(fail)]
        try:
            with pytest.raises(ValueError, match="no such image"):
                interrupts.wait(futures)
        finally:
            over.set()


def test_waiting_for_threads_is_for_all_of_them(interrupts: Interrupts) -> None:
    never = threading.Event()
    with concurrent.futures.ThreadPoolExecutor() as threads:
        # The second takes longer than one look for signals does.
        futures = [threads.submit(str), threads.submit(never.wait, 0.2)]
        interrupts.wait(futures)
        assert [future.done() for future in futures] == [True, True]


def test_what_may_be_cut_short_is(interrupts: Interrupts, notes: list[str]) -> None:
    reached = []

    def install() -> None:
        with interrupts.cutting_short():
            signal.raise_signal(signal.SIGINT)
            reached.append("the end")

    with pytest.raises(Interrupted):
        install()
    assert reached == []
    assert notes == ["stopping"]


def test_the_handlers_that_were_are_again() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with Interrupts():
        assert [signal.getsignal(number) for number in numbers] != before
    assert [signal.getsignal(number) for number in numbers] == before


def test_an_ignored_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
