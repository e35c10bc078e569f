# SPDX-License-Identifier: Apache-2.0

"""When to say that something fails: at the first failure, then every few minutes, and at its end.

It keeps the times; the caller writes the lines.  Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

REMIND_AFTER = 300.0
"""Seconds after which an outage that lasts is told again."""


class Outage:
    """Something that is tried again and again, and fails for a while.

    :param settle: seconds without a failure before a success counts as the end.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self, *, settle: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settle = settle
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._failed_at = 0.0
        self._told_at = 0.0

    def failed(self) -> float | None:
        """Take note of a failure.

        :returns: for how many seconds it has failed, if that is to be told now; 0: it is
            the first failure.
        """
        with self._lock:
            now = self._failed_at = self._clock()
            if self._since is None:
                self._since = now
            elif now - self._told_at < REMIND_AFTER:
                return None
            self._told_at = now
            return now - self._since

    def worked(self) -> float | None:
        """Take note of a success.

        :returns: for how many seconds it had failed, if that is over now.
        """
        if self._since is None:
            return None
        with self._lock:
            now = self._clock()
            if self._since is None or now - self._failed_at < self._settle:
                return None
            since, self._since = self._since, None
            return now - since
