# SPDX-License-Identifier: Apache-2.0

"""What a service is carrying out just now: one task an instance at a time.

Tasks run in threads of their own.  What the records say meanwhile reaches them
through here: that their instance is to be deleted, or is not this host's any
more.  Thread-safe; nothing is called with the lock held.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping

from ironic_virt import exceptions
from ironic_virt.compute.states import TaskState


@dataclasses.dataclass(slots=True)
class _Task:
    task: TaskState
    node: str | None
    superseded_by: str | None = None
    lost: bool = False


class InFlight:
    """The tasks that are being carried out."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tasks: dict[str, _Task] = {}
        self._ended: set[str] = set()

    # -- for who begins and ends them -----------------------------------------

    def looking(self) -> None:
        """Take note that the records are about to be read.

        An instance whose task ends after this can't begin another one before the
        records were read again: what was read may be older than that end.
        """
        with self._changed:
            self._ended.clear()

    def begin(self, instance: str, task: TaskState, node: str | None) -> bool:
        """Take note that a task begins.

        :returns: ``False`` if it must not: the instance has one, or had one when
            the records were read.
        """
        with self._changed:
            if instance in self._tasks or instance in self._ended:
                return False
            self._tasks[instance] = _Task(task, node)
            return True

    def end(self, instance: str) -> None:
        """Take note that an instance's task has ended."""
        with self._changed:
            del self._tasks[instance]
            self._ended.add(instance)
            self._changed.notify_all()

    def compare(self, wanted: Mapping[str, str]) -> None:
        """Let the tasks know what the records want now.

        :param wanted: task states by instance uuid, of all instances of this host
            of which anything is wanted, read since :meth:`looking`.
        """
        with self._changed:
            for uuid, running in self._tasks.items():
                now = wanted.get(uuid)
                running.lost = now is None
                running.superseded_by = None if now in (None, running.task) else now

    def count(self, *tasks: TaskState) -> int:
        """How many of these tasks are being carried out."""
        with self._changed:
            return sum(running.task in tasks for running in self._tasks.values())

    def wait(self, timeout: float) -> list[str]:
        """Wait until nothing is being carried out any more.

        :returns: the instances that still have a task after ``timeout`` seconds.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._tasks, timeout)
            return sorted(self._tasks)

    # -- for those who are asked by a task ------------------------------------

    def abort_reason(self, instance: str) -> str | None:
        """Why the instance's task is not wanted any more; ``None`` while it is.

        :raises WaitCancelled: it must be left as it is, because it is not this
            host's affair any more.
        """
        with self._changed:
            running = self._tasks.get(instance)
            if running is None:
                return None
            if running.lost:
                raise exceptions.WaitCancelled(
                    running.node,
                    instance,
                    "the records don't ask this service for it any more; it was left as it is",
                )
            if running.superseded_by is not None:
                return f"the instance is {running.superseded_by}"
            return None
