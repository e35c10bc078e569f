# SPDX-License-Identifier: Apache-2.0

"""When something that could not be done is worth another try.

Waits double from one try to the next.  What is kept here is kept in memory: after
a restart everything is tried at once.  Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

FIRST_SECONDS = 5.0
LONGEST_SECONDS = 60.0


Key = tuple[str, str]
"""An instance's uuid, and the task."""


class Retries:
    """Keeps when the turn of each thing comes again.

    :param clock: a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._delays: dict[Key, float] = {}
        self._due: dict[Key, float] = {}

    def put_off(self, key: Key) -> tuple[float, bool]:
        """Put something off.

        :returns: for how many seconds, and whether for the first time.
        """
        with self._lock:
            former = self._delays.get(key)
            delay = FIRST_SECONDS if former is None else min(2 * former, LONGEST_SECONDS)
            self._delays[key] = delay
            self._due[key] = self._clock() + delay
            return delay, former is None

    def is_due(self, key: Key) -> bool:
        """Whether its turn has come."""
        return self._due.get(key, 0.0) <= self._clock()

    def forget(self, key: Key) -> None:
        """Start from the beginning with it."""
        with self._lock:
            self._delays.pop(key, None)
            self._due.pop(key, None)

    def keep_only(self, keys: Collection[Key]) -> None:
        """Forget all others."""
        with self._lock:
            for gone in self._delays.keys() - set(keys):
                del self._delays[gone]
                del self._due[gone]
