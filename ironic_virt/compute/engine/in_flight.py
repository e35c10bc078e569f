# SPDX-License-Identifier: Apache-2.0

"""What a service is carrying out just now: one task an instance at a time.

Tasks run in threads of their own, as many as there are.  A limit holds for those
that work; a task that waits for Ironic gives its place up until it goes on.  What the records
say meanwhile reaches tasks through here: that their instance is to be deleted, or is not this
host's any more.  Thread-safe; nothing is called with the lock held.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping

from ironic_virt import exceptions
from ironic_virt.compute.states import TaskState

MOST_WAITING = 1000
"""Tasks that are begun and not ended, each with a thread of its own."""


@dataclasses.dataclass(slots=True)
class _Running:
    task: TaskState
    node: str | None
    waits: bool = False
    resumes: bool = False
    superseded_by: str | None = None
    lost: bool = False


class InFlight:
    """The tasks that are being carried out.

    :param limit: how many tasks work at a time.
    :param may_act: says whether this process may still act for the host.
    """

    def __init__(self, limit: int, may_act: Callable[[], bool] = lambda: True) -> None:
        self._limit = limit
        self._may_act = may_act
        self._changed = threading.Condition()
        self._running: dict[str, _Running] = {}
        self._stopping = False
        self.on_room: Callable[[], None] = lambda: None
        """Called in a task's thread when another task may begin."""

    # -- for the code that begins and ends tasks ------------------------------

    def begin(self, instance: str, task: TaskState, node: str | None) -> bool:
        """Take note that a task begins.

        :returns: ``False`` if the instance has one already.
        """
        with self._changed:
            if instance in self._running:
                return False
            self._running[instance] = _Running(task, node)
            return True

    def has_room(self) -> bool:
        """Whether a task may begin: those that have waited go on first."""
        with self._changed:
            running = self._running.values()
            if len(running) >= MOST_WAITING or any(one.resumes for one in running):
                return False
            return self._has_room()

    def end(self, instance: str) -> None:
        """Take note that an instance's task has ended."""
        with self._changed:
            del self._running[instance]
            self._changed.notify_all()

    def compare(self, wanted: Mapping[str, str]) -> None:
        """Let the tasks know what the records want now.

        :param wanted: task states by instance uuid, of all instances of this host
            of which anything is wanted.
        """
        with self._changed:
            for uuid, running in self._running.items():
                now = wanted.get(uuid)
                running.lost = now is None
                running.superseded_by = None if now in (None, running.task) else now

    def count(self, *tasks: TaskState) -> int:
        """How many of these tasks work, and do not wait for Ironic."""
        with self._changed:
            return sum(one.task in tasks and not one.waits for one in self._running.values())

    def stop(self) -> None:
        """Let tasks that waited go on at once, whatever the limit: they end."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def wait(self, timeout: float) -> list[str]:
        """Wait until nothing is being carried out any more.

        :returns: the instances that still have a task after ``timeout`` seconds.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._running, timeout)
            return sorted(self._running)

    def _has_room(self) -> bool:
        return sum(not one.waits for one in self._running.values()) < self._limit

    # -- for the tasks --------------------------------------------------------

    @contextlib.contextmanager
    def waiting(self, instance: str | None) -> Iterator[None]:
        """Give the place of an instance's task up while the block runs."""
        with self._changed:
            running = self._running.get(instance or "")
            if running is not None:
                running.waits = True
                self._changed.notify_all()
        if running is None:
            yield
            return
        self.on_room()
        try:
            yield
        finally:
            with self._changed:
                running.resumes = True
                self._changed.wait_for(lambda: self._stopping or self._has_room())
                running.waits = running.resumes = False

    def abort_reason(self, instance: str) -> str | None:
        """Why the instance's task is not wanted any more; ``None`` while it is.

        :raises WaitCancelled: it must be left as it is, because it is not this
            process's affair any more.
        """
        with self._changed:
            running = self._running.get(instance)
            lost = running is not None and running.lost
        if running is None:
            return None
        if lost:
            raise exceptions.WaitCancelled(
                running.node,
                instance,
                "the records don't ask this service for it any more; it was left as it is",
            )
        if not self._may_act():
            raise exceptions.WaitCancelled(
                running.node,
                instance,
                "this service could not report for so long that it counts as down; the task was "
                "left as it is",
            )
        if running.superseded_by is not None:
            return f"the server is {running.superseded_by}"
        return None
