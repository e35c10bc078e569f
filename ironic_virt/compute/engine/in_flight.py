# SPDX-License-Identifier: Apache-2.0

"""What a service is carrying out just now: one task an instance at a time.

Each task has a separate thread.  Only a limited number of tasks work at once: a task that waits
for Ironic gives its place up until it continues.  Tasks learn here what changes in the records
meanwhile: that their instance is to be deleted, or is not this host's any more.  Thread-safe.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping

from ironic_virt import exceptions
from ironic_virt.compute.db.records import PendingTask

MOST_WAITING = 1000
"""The limit of tasks that have begun and not ended; each has a thread."""


class InFlight:
    """The tasks that are being carried out.

    :param limit: how many tasks work at a time.
    :param may_act: says whether this process may still act for the host.
    """

    def __init__(self, limit: int, may_act: Callable[[], bool] = lambda: True) -> None:
        self._limit = limit
        self._may_act = may_act
        self._changed = threading.Condition()
        self._running: dict[str, PendingTask] = {}
        self._requested: Mapping[str, str] = {}
        self._working = self._resuming = 0
        self._stopping = False

    # -- for the code that begins and ends tasks ------------------------------

    def begin(self, task: PendingTask) -> bool:
        """Take note that a task begins.

        :returns: ``False`` if its instance has one already, or there are too many.
        """
        with self._changed:
            if task.uuid in self._running or len(self._running) >= MOST_WAITING:
                return False
            self._running[task.uuid] = task
            return True

    def end(self, instance: str) -> None:
        """Take note that an instance's task has ended."""
        with self._changed:
            del self._running[instance]
            self._changed.notify_all()

    def compare(self, requested: Mapping[str, str]) -> None:
        """Let the tasks know what the records want now.

        :param requested: task states by instance uuid, for all instances of this host that have
            a task.
        """
        self._requested = requested

    def stop(self) -> None:
        """Let waiting tasks go on at once, without a limit, so that they end."""
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

    # -- for the tasks --------------------------------------------------------

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Wait for a place, and hold it while the block runs."""
        self._take_place(resumes=False)
        try:
            yield
        finally:
            self._give_up()

    @contextlib.contextmanager
    def waiting(self, instance: str | None) -> Iterator[None]:
        """Give the place of an instance's task up while the block runs."""
        if instance not in self._running:
            yield
            return
        self._give_up()
        try:
            yield
        finally:
            self._take_place(resumes=True)

    def _take_place(self, *, resumes: bool) -> None:
        with self._changed:
            self._resuming += resumes
            # Those that have waited go on before others begin.
            self._changed.wait_for(
                lambda: (
                    self._stopping
                    or (self._working < self._limit and (resumes or not self._resuming))
                )
            )
            self._resuming -= resumes
            self._working += 1
            self._changed.notify_all()

    def _give_up(self) -> None:
        with self._changed:
            self._working -= 1
            self._changed.notify_all()

    def abort_reason(self, instance: str) -> str | None:
        """Why the instance's task is not wanted any more; ``None`` while it is.

        :raises WaitCancelled: it must be left as it is, because it is not this
            process's affair any more.
        """
        running, requested = self._running.get(instance), self._requested.get(instance)
        if running is None:
            return None
        if requested is not None and self._may_act():
            return None if requested == running.task_state else f"the server is {requested}"
        reason = (
            "the records no longer ask this service for the task; it was left as it is"
            if requested is None
            else "this service could not report for so long that it counts as down; the task was "
            "left as it is"
        )
        raise exceptions.WaitCancelled(running.node, instance, reason)
