# SPDX-License-Identifier: Apache-2.0

"""What signals become, in this very process."""

import signal
from collections.abc import Iterator

import pytest

from ironic_virt.compute.engine.process import Signals


@pytest.fixture
def left() -> list[int]:
    """With which codes the process would have been left."""
    return []


@pytest.fixture
def signals(left: list[int]) -> Iterator[Signals]:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with Signals(left.append) as holding:
        holding.is_started = True
        yield holding
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_the_first_one_asks_for_an_end_and_the_second_one_ends(signals, left, signum) -> None:
    signal.raise_signal(signum)
    assert signals.wait() is signum
    assert left == []
    signal.raise_signal(signal.SIGTERM)
    assert left == [143]
    signal.raise_signal(signal.SIGINT)
    assert left == [143, 130]


def test_sighup_asks_for_the_files_to_be_read_anew(signals: Signals, left: list[int]) -> None:
    for _ in range(2):
        signal.raise_signal(signal.SIGHUP)
    assert [signals.wait(), signals.wait()] == [signal.SIGHUP] * 2
    assert signals._notes.empty()
    assert left == []


def test_a_start_is_ended_at_once(signals: Signals, left: list[int]) -> None:
    signals.is_started = False
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGTERM)
    assert left == [0]
    assert signals.wait() is signal.SIGHUP
    assert signals._notes.empty()


def test_a_service_that_cannot_go_on_wakes_the_main_thread(signals: Signals) -> None:
    error = RuntimeError("superseded")
    signals.fail(error)
    assert signals.wait() is error
