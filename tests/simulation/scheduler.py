# SPDX-License-Identifier: Apache-2.0

"""One task at a time, on a virtual clock: who is next among equals, a seed decides.

The product's threads are greenlets here.  They switch only where the product waits: for an
answer, a pause, a lock, another thread.  So a seed gives the same history each time, and a
lock that is held while others run is an error.
"""

import heapq
import random
import types
from collections.abc import Callable
from typing import Any

import greenlet

from tests.crashing import Crash

Work = Callable[[], object]


class Process:
    """What dies as a whole: a service, or a client.

    :ivar stopped_until: until then none of its tasks goes on, but for requests on their way.
    :ivar tasks: those that have not ended.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.stopped_until = 0.0
        self.tasks: dict[Task, None] = {}

    def check(self) -> None:
        """:raises Crash: it is dead."""
        if self.dead:
            raise Crash(self.name)


class Task(greenlet.greenlet):
    """A thread of a process.

    :ivar seen: what Ironic last showed it of a node, by the node's uuid.
    :ivar about: the instance that it is for.
    :ivar on_wire: it stands for a request that is on its way.
    """

    def __init__(self, work: Work, process: Process, hub: greenlet.greenlet) -> None:
        super().__init__(work, hub)
        self.process = process
        self.ticket = 0
        self.seen: dict[str, dict[str, Any]] = {}
        self.about: str | None = None
        self.on_wire = False


class Scheduler:
    """Runs tasks until none is left or a time has come.

    :param move: called with each step of the clock, in seconds.
    :ivar now: seconds since the beginning.
    """

    def __init__(self, rng: random.Random, move: Callable[[float], None]) -> None:
        self.now = 0.0
        self._move = move
        self._rng = rng
        self._queue: list[tuple[float, float, int, Task, int]] = []
        self._count = 0
        self._hub = greenlet.getcurrent()
        self._outside = Process("outside")

    def clock(self) -> float:
        """The product's monotonic clock."""
        return 1000.0 + self.now

    @property
    def task(self) -> Task:
        """The one that runs."""
        task = greenlet.getcurrent()
        assert isinstance(task, Task), "only tasks wait"
        return task

    def spawn(self, work: Work, process: Process | None = None, about: str | None = None) -> Task:
        """Start a task; it runs when its turn comes."""
        process = process or self._outside

        def run() -> None:
            try:
                process.check()
                work()
            except Crash:
                if not process.dead:
                    raise
            finally:
                process.tasks.pop(task, None)

        task = Task(run, process, self._hub)
        task.about = about
        process.tasks[task] = None
        self.wake(task)
        return task

    def wake(self, task: Task, after: float = 0.0) -> None:
        """Have a task go on; a later call replaces an earlier one."""
        task.ticket += 1
        self._count += 1
        entry = (self.now + after, self._rng.random(), self._count, task, task.ticket)
        heapq.heappush(self._queue, entry)

    def park(self, seconds: float | None = None) -> None:
        """Stop the running task until it is woken, or so many seconds are over."""
        task = self.task
        task.process.check()
        task.ticket += 1
        if seconds is not None:
            self.wake(task, max(seconds, 0.0))
        self._hub.switch()
        task.process.check()

    def sleep(self, seconds: float) -> None:
        """Let time pass for the running task."""
        self.park(seconds)

    def sleep_while_stopped(self) -> None:
        """Wait until the running task's process goes on."""
        if self.now < self.task.process.stopped_until:
            self.sleep(0.0)

    def kill(self, process: Process) -> None:
        """End a process where it stands; its tasks run no line of the product any more."""
        process.dead = True
        running = greenlet.getcurrent()
        for task in list(process.tasks):
            if task is not running:
                self.wake(task)

    def run(self, until: float) -> None:
        """Run what is due until then."""
        while self._queue and self._queue[0][0] <= until:
            when, turn, count, task, ticket = heapq.heappop(self._queue)
            if ticket != task.ticket or task.dead:
                continue
            process = task.process
            if when < process.stopped_until and not (task.on_wire or process.dead):
                later = (process.stopped_until, turn, count, task, ticket)
                heapq.heappush(self._queue, later)
                continue
            self._pass(when)
            task.switch()
        self._pass(until)

    def _pass(self, when: float) -> None:
        if when > self.now:
            self._move(when - self.now)
            self.now = when

    def close(self) -> None:
        """End all tasks."""
        for entry in self._queue:
            entry[3].process.dead = True
        while self._queue:
            task = heapq.heappop(self._queue)[3]
            if not task.dead:
                task.switch()


class _Lock:
    """Held by nobody while others run: that would be a stall, or worse, in threads."""

    reentrant = False

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.owner: greenlet.greenlet | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True) -> bool:
        me = greenlet.getcurrent()
        if self.owner is None or (self.reentrant and self.owner is me):
            self.owner = me
            self._depth += 1
            return True
        if self.owner.dead:
            # Its process died.
            self.owner = me
            return True
        if blocking:
            raise AssertionError("a lock is held while others run")
        return False

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            self.owner = None

    def locked(self) -> bool:
        return self.owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _RLock(_Lock):
    reentrant = True


class _Condition:
    def __init__(self, scheduler: Scheduler, lock: _Lock | None = None) -> None:
        self._scheduler = scheduler
        self._lock = lock or _RLock(scheduler)
        self._waiting: list[Task] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> None:
        task = self._scheduler.task
        self._waiting.append(task)
        self._lock.release()
        try:
            self._scheduler.park(timeout)
        finally:
            if task in self._waiting:
                self._waiting.remove(task)
            self._lock.acquire(blocking=not task.process.dead)

    def wait_for(self, predicate: Callable[[], bool]) -> None:
        while not predicate():
            self.wait()

    def notify(self, count: int = 1) -> None:
        for task in self._waiting[:count]:
            self._waiting.remove(task)
            self._scheduler.wake(task)

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class _Event:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        for task in self._waiting:
            self._scheduler.wake(task)
        self._waiting.clear()

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            self._waiting.append(self._scheduler.task)
            self._scheduler.park(timeout)
        return self._set


class _Future:
    def __init__(self, scheduler: Scheduler) -> None:
        self._done = _Event(scheduler)
        self._result: Any = None
        self._error: BaseException | None = None

    def set_result(self, result: Any) -> None:
        self._result = result
        self._done.set()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._done.set()

    def cancel(self) -> None:
        self.set_exception(_Cancelled())

    def result(self) -> Any:
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result


class _Cancelled(Exception):
    pass


class _Thread:
    def __init__(self, scheduler: Scheduler, target: Work, **_: object) -> None:
        self._scheduler = scheduler
        self._target = target

    def start(self) -> None:
        self._task = self._scheduler.spawn(self._target, self._scheduler.task.process)

    def is_alive(self) -> bool:
        return not self._task.dead

    def join(self, timeout: float) -> None:
        """As if it took all of that time."""
        self._scheduler.sleep(timeout)


def threading_of(scheduler: Scheduler) -> types.SimpleNamespace:
    """The substitute for :mod:`threading` in the product's modules."""
    return types.SimpleNamespace(
        Lock=lambda: _Lock(scheduler),
        RLock=lambda: _RLock(scheduler),
        Condition=lambda lock=None: _Condition(scheduler, lock),
        Event=lambda: _Event(scheduler),
        Thread=lambda **options: _Thread(scheduler, **options),
    )


def futures_of(scheduler: Scheduler) -> types.SimpleNamespace:
    """The substitute for :mod:`concurrent.futures`."""

    class Future(_Future):
        def __init__(self) -> None:
            super().__init__(scheduler)

        def __class_getitem__(cls, _: object) -> type:
            return cls

    return types.SimpleNamespace(Future=Future, CancelledError=_Cancelled)
