# SPDX-License-Identifier: Apache-2.0

"""What is due when: the fake Ironic's future.

Nothing runs in the background.  Each request first lets everything happen that
became due since the last one, in order and at its own time, so the order of
events never depends on who polls how often.
"""

import heapq
import itertools
from collections.abc import Callable


class Timeline:
    """A queue of actions, each with the moment it is due.

    Not thread-safe by itself; see :class:`~.store.Store`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._clock_now = now
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._counter = itertools.count()
        self._moment: float | None = None

    def now(self) -> float:
        """The time; while a due action runs, the time when it was due."""
        return self._clock_now() if self._moment is None else self._moment

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Let ``action`` happen ``seconds`` from now."""
        heapq.heappush(self._queue, (self.now() + seconds, next(self._counter), action))

    def catch_up(self) -> None:
        """Let everything happen that is due."""
        limit = self._clock_now()
        try:
            while self._queue and self._queue[0][0] <= limit:
                self._moment, _, action = heapq.heappop(self._queue)
                action()
        finally:
            self._moment = None

    def next_due(self) -> float | None:
        """When the next action is due, in seconds since the epoch, if any is."""
        return self._queue[0][0] if self._queue else None
