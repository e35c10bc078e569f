# SPDX-License-Identifier: Apache-2.0

"""What tasks learn of the records while they run, and how many work at a time."""

import contextlib
import queue
import threading

import pytest

from ironic_virt import exceptions
from ironic_virt.compute.db.records import PendingTask
from ironic_virt.compute.engine.in_flight import InFlight
from ironic_virt.compute.states import TaskState

SPAWNING, DELETING = TaskState.SPAWNING, TaskState.DELETING
SECONDS = 20


@pytest.fixture
def in_flight() -> InFlight:
    return InFlight(2)


def begin(in_flight: InFlight, instance: str, task: TaskState = SPAWNING) -> bool:
    return in_flight.begin(PendingTask(instance, task, "node"))


def test_an_instance_has_one_task_at_a_time(in_flight: InFlight) -> None:
    assert begin(in_flight, "one")
    assert not begin(in_flight, "one", DELETING)
    assert begin(in_flight, "two", DELETING)
    in_flight.end("one")
    assert begin(in_flight, "one", DELETING)


class Worker:
    """A task in a separate thread, which the test drives."""

    def __init__(self, in_flight: InFlight, name: str, journal: queue.Queue[str]) -> None:
        self._in_flight = in_flight
        self._name = name
        self._journal = journal
        self.waits, self.resumes, self.ends = (threading.Event() for _ in range(3))
        begin(in_flight, name)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with self._in_flight.place():
            self._journal.put(f"{self._name} works")
            self.waits.wait(SECONDS)
            with self._in_flight.waiting(self._name):
                self._journal.put(f"{self._name} waits")
                self.resumes.wait(SECONDS)
            self._journal.put(f"{self._name} goes on")
            self.ends.wait(SECONDS)


def test_who_waits_gives_its_place_up_and_goes_on_first() -> None:
    in_flight, journal = InFlight(1), queue.Queue[str]()
    one = Worker(in_flight, "one", journal)
    assert journal.get(timeout=SECONDS) == "one works"
    two = Worker(in_flight, "two", journal)
    one.waits.set()
    assert {journal.get(timeout=SECONDS) for _ in range(2)} == {"one waits", "two works"}
    three = Worker(in_flight, "three", journal)
    one.resumes.set()
    while not in_flight._resuming:
        pass
    # Two end by a wait; one was there before three, whose place it is not.
    two.waits.set()
    assert {journal.get(timeout=SECONDS) for _ in range(2)} == {"two waits", "one goes on"}
    assert journal.empty()
    for worker in (one, two, three):
        for event in (worker.waits, worker.resumes, worker.ends):
            event.set()
    for worker in (one, two, three):
        worker.thread.join(SECONDS)
    assert "three works" in set(journal.queue)
    assert in_flight._working == 0


def test_all_go_on_when_the_service_stops() -> None:
    in_flight, journal = InFlight(1), queue.Queue[str]()
    workers = [Worker(in_flight, name, journal) for name in ("one", "two", "three")]
    assert journal.get(timeout=SECONDS)
    in_flight.stop()
    assert {journal.get(timeout=SECONDS).split()[1] for _ in range(2)} == {"works"}
    for worker in workers:
        for event in (worker.waits, worker.resumes, worker.ends):
            event.set()
        worker.thread.join(SECONDS)


def test_a_stranger_waits_without_a_place(in_flight: InFlight) -> None:
    with in_flight.waiting("of which nothing is known"):
        assert in_flight._working == 0


def test_a_build_is_unwanted_once_its_instance_is_to_be_deleted(in_flight: InFlight) -> None:
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


def test_waiting_ends_with_the_last_task_or_tells_which_remain(in_flight: InFlight) -> None:
    for name in ("one", "two"):
        begin(in_flight, name)
    assert in_flight.wait(0) == ["one", "two"]
    with contextlib.ExitStack() as stack:
        for name in ("one", "two"):
            thread = threading.Thread(target=in_flight.end, args=(name,))
            thread.start()
            stack.callback(thread.join)
        assert in_flight.wait(SECONDS) == []
