# SPDX-License-Identifier: Apache-2.0

"""What tasks learn of the records while they run, and how many work at a time."""

import threading

import pytest

from ironic_virt import exceptions
from ironic_virt.compute.engine.in_flight import InFlight
from ironic_virt.compute.states import TaskState

SPAWNING, DELETING = TaskState.SPAWNING, TaskState.DELETING


@pytest.fixture
def in_flight() -> InFlight:
    return InFlight(2)


def begin(in_flight: InFlight, instance: str) -> bool:
    return in_flight.begin(instance, SPAWNING, "node")


def test_an_instance_has_one_task_at_a_time(in_flight: InFlight) -> None:
    assert begin(in_flight, "one")
    assert not in_flight.begin("one", DELETING, "node")
    assert in_flight.begin("two", DELETING, "node")
    assert in_flight.count(SPAWNING) == 1
    assert in_flight.count(SPAWNING, DELETING) == 2
    in_flight.end("one")
    assert in_flight.begin("one", DELETING, "node")


def test_a_task_that_waits_leaves_its_room_to_another(in_flight: InFlight) -> None:
    room: list[bool] = []
    in_flight.on_room = lambda: room.append(in_flight.has_room())
    assert [begin(in_flight, name) for name in ("one", "two")] == [True, True]
    assert not in_flight.has_room()
    with in_flight.waiting("one"):
        assert room == [True]
        assert in_flight.count(SPAWNING) == 1
    assert not in_flight.has_room()
    with in_flight.waiting("of which nothing is known"):
        assert room == [True]


def test_who_has_waited_goes_on_when_there_is_room_or_the_service_stops(
    in_flight: InFlight,
) -> None:
    goes_on = {name: threading.Event() for name in ("one", "two")}
    inside = threading.Barrier(3)

    def wait(name: str) -> None:
        with in_flight.waiting(name):
            inside.wait(20)
        goes_on[name].set()

    for name in goes_on:
        begin(in_flight, name)
    threads = [threading.Thread(target=wait, args=(name,)) for name in goes_on]
    in_flight.on_room = lambda: None
    for thread in threads:
        thread.start()
    # Both have given their places up, and others have taken them.
    while in_flight.count(SPAWNING):
        pass
    begin(in_flight, "three")
    begin(in_flight, "four")
    inside.wait(20)
    assert not any(event.is_set() for event in goes_on.values())
    in_flight.end("three")
    while not any(event.is_set() for event in goes_on.values()):
        pass
    in_flight.stop()
    for thread in threads:
        thread.join(20)
    assert all(event.is_set() for event in goes_on.values())


def test_a_build_is_unwanted_as_soon_as_its_instance_is_to_be_deleted(
    in_flight: InFlight,
) -> None:
    begin(in_flight, "one")
    in_flight.compare({"one": SPAWNING})
    assert in_flight.abort_reason("one") is None
    in_flight.compare({"one": DELETING})
    assert in_flight.abort_reason("one") == "the server is deleting"
    assert in_flight.abort_reason("another") is None


@pytest.mark.parametrize("cause", ["another host", "no report"])
def test_a_build_that_is_not_ours_any_more_is_left_as_it_is(cause: str) -> None:
    in_flight = InFlight(2, may_act=lambda: cause != "no report")
    begin(in_flight, "one")
    in_flight.compare({} if cause == "another host" else {"one": SPAWNING})
    with pytest.raises(exceptions.WaitCancelled, match="left as it is"):
        in_flight.abort_reason("one")


def test_waiting_ends_with_the_last_task_or_tells_which_are_left(in_flight: InFlight) -> None:
    for name in ("one", "two"):
        begin(in_flight, name)
    assert in_flight.wait(0) == ["one", "two"]
    ended = [threading.Thread(target=in_flight.end, args=(name,)) for name in ("one", "two")]
    for thread in ended:
        thread.start()
    assert in_flight.wait(20.0) == []
    for thread in ended:
        thread.join()


def test_who_has_waited_comes_before_who_has_not_begun(in_flight: InFlight) -> None:
    room: list[bool] = []

    class Full(threading.Condition):
        def wait_for(self, *_args: object, **_more: object) -> bool:
            # There is a place by now, and this one has not taken it yet.
            room.append(in_flight.has_room())
            return True

    begin(in_flight, "one")
    in_flight._changed = Full()
    with in_flight.waiting("one"):
        assert in_flight.has_room()
    assert room == [False]
    assert in_flight.has_room()
