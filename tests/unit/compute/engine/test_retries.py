# SPDX-License-Identifier: Apache-2.0

"""When the turn of what could not be done comes again."""

from ironic_virt.compute.engine.tasks import Retries
from tests.clock import VirtualClock

ONE, TWO = ("one", "spawning"), ("two", "spawning")


def test_waits_double_up_to_a_minute() -> None:
    clock = VirtualClock()
    retries = Retries(clock)
    waits = []
    for _ in range(6):
        seconds, _first = retries.put_off(ONE)
        waits.append(seconds)
        clock.now += seconds - 0.1
        assert not retries.is_due(ONE)
        clock.now += 0.1
        assert retries.is_due(ONE)
    assert waits == [5, 10, 20, 40, 60, 60]


def test_what_worked_starts_from_the_beginning() -> None:
    retries = Retries(VirtualClock())
    assert retries.put_off(ONE) == (5, True)
    assert retries.put_off(ONE) == (10, False)
    retries.forget(ONE)
    assert retries.is_due(ONE)
    assert retries.put_off(ONE) == (5, True)


def test_what_nobody_wants_any_more_is_forgotten() -> None:
    retries = Retries(VirtualClock())
    retries.put_off(ONE)
    retries.put_off(TWO)
    retries.keep_only([TWO])
    assert retries.is_due(ONE)
    assert not retries.is_due(TWO)
