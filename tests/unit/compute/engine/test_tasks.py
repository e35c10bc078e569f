# SPDX-License-Identifier: Apache-2.0

"""How many tasks work at a time, what they learn of the records, and when they come again."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.compute.engine.tasks import Tasks
from ironic_virt.compute.states import TaskState
from tests.clock import VirtualClock
from tests.unit.compute.service_stage import make_conf

SPAWNING, DELETING = TaskState.SPAWNING, TaskState.DELETING
SECONDS = 20


class Records:
    """Records that have nothing but pending tasks."""

    def __init__(self) -> None:
        self.instances = self
        self.wanted: dict[str, str] = {}

    def pending_tasks(self, _host: str) -> dict[str, str]:
        return self.wanted


class Nothing:
    """Threads of tasks that never begin."""

    def submit(self, _run: Any, *_arguments: Any) -> None:
        pass


class Stage:
    """Tasks whose bodies the test drives.

    :ivar may_act: whether the service has reported in time.
    """

    def __init__(self, directory: Path, places: int) -> None:
        conf = make_conf(directory, compute={"max_concurrent_tasks": places})
        self.records: Any = Records()
        self.clock = VirtualClock()
        self.may_act = True
        self.tasks = Tasks(
            *(conf, None, self.records, "me", Nothing()),  # type: ignore[arg-type]
            may_act=lambda: self.may_act,
            clock=self.clock,
        )

    def want(self, **tasks: TaskState) -> None:
        """Have a service's look find these tasks."""
        self.records.wanted = dict(tasks)
        self.tasks.look()


class Worker:
    """A task in a separate thread."""

    def __init__(self, tasks: Tasks, name: str, journal: queue.Queue[str]) -> None:
        self._tasks = tasks
        self._name = name
        self._journal = journal
        self.waits, self.resumes, self.ends = (threading.Event() for _ in range(3))
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self._tasks._take_place()
        self._journal.put(f"{self._name} works")
        self.waits.wait(SECONDS)
        with self._tasks.waiting(self._name):
            self._journal.put(f"{self._name} waits")
            self.resumes.wait(SECONDS)
        self._journal.put(f"{self._name} goes on")
        self.ends.wait(SECONDS)
        self._tasks._release_place()

    def end(self) -> None:
        for event in (self.waits, self.resumes, self.ends):
            event.set()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, 1)


def test_who_waits_releases_its_place_and_goes_on_first(stage: Stage) -> None:
    tasks, journal = stage.tasks, queue.Queue[str]()
    stage.want(one=SPAWNING, two=SPAWNING, three=SPAWNING)
    one = Worker(tasks, "one", journal)
    assert journal.get(timeout=SECONDS) == "one works"
    two = Worker(tasks, "two", journal)
    one.waits.set()
    assert {journal.get(timeout=SECONDS) for _ in range(2)} == {"one waits", "two works"}
    three = Worker(tasks, "three", journal)
    one.resumes.set()
    while not tasks._resuming:
        pass
    # Two end by a wait; one was there before three, whose place it is not.
    two.waits.set()
    assert {journal.get(timeout=SECONDS) for _ in range(2)} == {"two waits", "one goes on"}
    assert journal.empty()
    for worker in (one, two, three):
        worker.end()
    for worker in (one, two, three):
        worker.thread.join(SECONDS)
    assert "three works" in set(journal.queue)
    assert tasks._working == 0
    with tasks.waiting("of which nothing is known"):
        assert tasks._working == 0


def test_all_go_on_when_the_service_stops(stage: Stage) -> None:
    journal = queue.Queue[str]()
    workers = [Worker(stage.tasks, name, journal) for name in ("one", "two", "three")]
    assert journal.get(timeout=SECONDS)
    stage.tasks.stop()
    assert {journal.get(timeout=SECONDS).split()[1] for _ in range(2)} == {"works"}
    for worker in workers:
        worker.end()
        worker.thread.join(SECONDS)


def test_waiting_tells_which_instances_still_have_a_task(stage: Stage) -> None:
    assert stage.tasks.wait(SECONDS) == []
    stage.want(one=SPAWNING, two=DELETING)
    assert stage.tasks.wait(0) == ["one", "two"]


def test_a_build_is_unwanted_once_its_instance_is_to_be_deleted(stage: Stage) -> None:
    stage.want(one=SPAWNING)
    assert stage.tasks.abort_reason("one") is None
    stage.want(one=DELETING)
    assert stage.tasks.abort_reason("one") == "the server is deleting"
    assert stage.tasks.abort_reason("another") is None


@pytest.mark.parametrize("cause", ["another host", "no report"])
def test_a_build_that_is_not_ours_any_more_is_left_as_it_is(stage: Stage, cause: str) -> None:
    stage.want(one=SPAWNING)
    if cause == "another host":
        stage.want()
    stage.may_act = cause != "no report"
    with pytest.raises(exceptions.WaitCancelled, match="left as it is"):
        stage.tasks.abort_reason("one")


def test_a_task_is_put_off_for_twice_as_long_up_to_a_minute(stage, caplog) -> None:
    for seconds in (5, 10, 20, 40, 60, 60):
        stage.tasks.put_off("one", SPAWNING, "it rains")
        stage.clock.now += seconds - 0.1
        assert not stage.tasks.is_due("one", SPAWNING)
        stage.clock.now += 0.1
        assert stage.tasks.is_due("one", SPAWNING)
    assert "Instance one: spawning is tried again in 5 s: it rains" in caplog.messages


def test_a_task_that_nobody_wants_any_more_is_forgotten(stage: Stage) -> None:
    for name in ("one", "two"):
        stage.tasks.put_off(name, SPAWNING, "it rains")
    stage.want(one=DELETING, two=SPAWNING)
    assert stage.tasks.is_due("one", SPAWNING)
    assert not stage.tasks.is_due("two", SPAWNING)
