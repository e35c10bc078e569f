# SPDX-License-Identifier: Apache-2.0

"""Clocks that a test moves: one that threads can wait on, and one that stands still at will."""

import threading
import time
from collections.abc import Callable, Iterable

from ironic_virt.testing.fake_ironic import RealClock

PATIENCE = 60.0
"""Real seconds after which a thread that should have come is given up."""

_SLEEP_OUT = 10 * PATIENCE
"""Real seconds after which a thread that nobody wakes ends: longer than any test takes."""


_GLANCE = 0.0005
"""Real seconds between two looks at whether the threads are asleep."""


class VirtualClock:
    """A monotonic clock; its ``pause`` is the watcher's, for one thread at a condition."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._sleepers: dict[threading.Condition, tuple[threading.Thread, float | None]] = {}
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def pause(self, condition: threading.Condition, seconds: float | None) -> None:
        """Sleep until notified; the passing of time notifies."""
        until = None if seconds is None else self.now + seconds
        with self._lock:
            self._sleepers[condition] = threading.current_thread(), until
        if not condition.wait(_SLEEP_OUT):
            raise AssertionError("nobody woke this thread")
        with self._lock:
            self._sleepers.pop(condition, None)

    def asleep(self) -> set[threading.Thread]:
        """Who sleeps on this clock, and is not about to wake."""
        with self._lock:
            return {
                thread
                for condition, (thread, _) in self._sleepers.items()
                # Whoever notifies empties this; the thread may run much later.
                if condition._waiters  # type: ignore[attr-defined]
            }

    def wait_for_sleepers(self, count: int) -> None:
        """Return when so many threads are asleep on this clock."""
        _wait_for(lambda: len(self.asleep()) >= count, f"not {count} threads sleep")

    def wait_until_asleep(self, name: str) -> None:
        """Return when one thread of this name is left, and is asleep on this clock."""

        def is_asleep() -> bool:
            left = [thread for thread in threading.enumerate() if thread.name == name]
            return len(left) == 1 and left[0] in self.asleep()

        _wait_for(is_asleep, f"the thread {name} does not sleep")

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake whoever is due."""
        self.now += seconds
        with self._lock:
            due = [
                condition
                for condition, (_, until) in self._sleepers.items()
                if until is not None and until <= self.now
            ]
            for condition in due:
                del self._sleepers[condition]
        for condition in due:
            with condition:
                condition.notify_all()

    def pass_by(
        self,
        step: float,
        until: Callable[[], bool],
        threads: Callable[[], Iterable[threading.Thread]],
    ) -> None:
        """Let time pass, a step at a time, until something is the case.

        Each step waits until all these threads are asleep, however slowly they run: what
        they do at a time on this clock, they have done before the clock goes on.
        """
        given_up = time.monotonic() + PATIENCE
        while not until():
            if all(thread in self.asleep() or not thread.is_alive() for thread in threads()):
                self.advance(step)
            else:
                time.sleep(_GLANCE)
            assert time.monotonic() < given_up, "it never comes"


class StoppableClock(RealClock):
    """Real time for a fake Ironic, which a test can stop: then nothing that it began ends."""

    def __init__(self) -> None:
        super().__init__()
        # In one piece, as others read it at any time.
        self._stopped: tuple[float | None, float] = (None, 0.0)

    def now(self) -> float:
        since, lost = self._stopped
        return (super().now() if since is None else since) - lost

    def stop(self) -> None:
        """Have time stand still."""
        self._stopped = super().now(), self._stopped[1]

    def go_on(self) -> None:
        """Have it pass again, from where it stood."""
        since, lost = self._stopped
        assert since is not None
        self._stopped = None, lost + super().now() - since


def _wait_for(what: Callable[[], bool], otherwise: str) -> None:
    given_up = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < given_up, otherwise
        time.sleep(_GLANCE)
