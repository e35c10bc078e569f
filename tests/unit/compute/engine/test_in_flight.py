# SPDX-License-Identifier: Apache-2.0

"""What tasks learn of the records while they run."""

import threading

import pytest

from ironic_virt import exceptions
from ironic_virt.compute.engine.in_flight import InFlight
from ironic_virt.compute.states import TaskState

SPAWNING, DELETING = TaskState.SPAWNING, TaskState.DELETING


@pytest.fixture
def in_flight() -> InFlight:
    return InFlight()


def test_an_instance_has_one_task_at_a_time(in_flight: InFlight) -> None:
    in_flight.looking()
    assert in_flight.begin("one", SPAWNING, "node")
    assert not in_flight.begin("one", DELETING, "node")
    assert in_flight.begin("two", DELETING, "node")
    assert in_flight.count(SPAWNING) == 1
    assert in_flight.count(SPAWNING, DELETING) == 2


def test_what_ended_while_the_records_were_read_does_not_begin_by_them(
    in_flight: InFlight,
) -> None:
    in_flight.looking()
    in_flight.begin("one", SPAWNING, "node")
    in_flight.looking()
    in_flight.end("one")
    assert not in_flight.begin("one", SPAWNING, "node"), "what was read is older than its end"
    in_flight.looking()
    assert in_flight.begin("one", SPAWNING, "node")


def test_a_build_is_unwanted_as_soon_as_its_instance_is_to_be_deleted(
    in_flight: InFlight,
) -> None:
    in_flight.begin("one", SPAWNING, "node")
    in_flight.compare({"one": SPAWNING})
    assert in_flight.abort_reason("one") is None
    in_flight.compare({"one": DELETING})
    assert in_flight.abort_reason("one") == "the instance is deleting"
    assert in_flight.abort_reason("another") is None


def test_a_build_of_an_instance_that_is_not_ours_any_more_is_left_as_it_is(
    in_flight: InFlight,
) -> None:
    in_flight.begin("one", SPAWNING, "node")
    in_flight.compare({})
    with pytest.raises(exceptions.WaitCancelled, match="left as it is"):
        in_flight.abort_reason("one")


def test_waiting_ends_with_the_last_task_or_tells_which_are_left(in_flight: InFlight) -> None:
    in_flight.begin("one", SPAWNING, "node")
    in_flight.begin("two", SPAWNING, "node")
    assert in_flight.wait(0) == ["one", "two"]
    ended = [threading.Thread(target=in_flight.end, args=(name,)) for name in ("one", "two")]
    for thread in ended:
        thread.start()
    assert in_flight.wait(20.0) == []
    for thread in ended:
        thread.join()
