# SPDX-License-Identifier: Apache-2.0

"""A clock that only the test moves, and that threads can wait on."""

from __future__ import annotations

import threading

PATIENCE = 20.0
"""Real seconds after which a thread that should have come is given up."""

_SLEEP_OUT = 10 * PATIENCE
"""Real seconds after which a thread that nobody wakes ends: longer than any test takes."""


class VirtualClock:
    """A monotonic clock; its ``pause`` is the watcher's."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._sleepers: dict[threading.Condition, float | None] = {}
        self._names: dict[threading.Condition, str] = {}
        self._changed = threading.Condition()

    def __call__(self) -> float:
        return self.now

    def pause(self, condition: threading.Condition, seconds: float | None) -> None:
        """Sleep until notified; the passing of time notifies."""
        with self._changed:
            self._sleepers[condition] = None if seconds is None else self.now + seconds
            self._names[condition] = threading.current_thread().name
            self._changed.notify_all()
        if not condition.wait(_SLEEP_OUT):
            raise AssertionError("nobody woke this thread")
        with self._changed:
            self._sleepers.pop(condition, None)
            self._names.pop(condition, None)

    def wait_for_sleepers(self, count: int) -> None:
        """Return when so many threads are asleep on this clock."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._sleepers) >= count, PATIENCE):
                raise AssertionError(f"{len(self._sleepers)} threads sleep, not {count}")

    def wait_until_asleep(self, thread: str) -> None:
        """Return when the thread of this name is asleep on this clock."""
        with self._changed:
            if not self._changed.wait_for(lambda: thread in self._names.values(), PATIENCE):
                raise AssertionError(f"the thread {thread} does not sleep")

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake whoever is due."""
        self.now += seconds
        with self._changed:
            due = [
                condition
                for condition, until in self._sleepers.items()
                if until is not None and until <= self.now
            ]
            for condition in due:
                del self._sleepers[condition]
                del self._names[condition]
        for condition in due:
            with condition:
                condition.notify_all()
