# SPDX-License-Identifier: Apache-2.0

"""Tells once that something is wrong, and once that it is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Outage:
    """Whether something that is tried again and again fails.  Thread-safe.

    :param what: what is the case, without a full stop: "The records are out of reach".
    :param meanwhile: what happens as long as it lasts, a sentence.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self, what: str, meanwhile: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what = what
        self._meanwhile = meanwhile
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None

    @property
    def lasts(self) -> bool:
        """Whether it is so, as far as known."""
        return self._since is not None

    def failed(self, error: Exception) -> None:
        """Take note that it failed."""
        with self._lock:
            first = self._since is None
            if first:
                self._since = self._clock()
        if first:
            LOG.error("[database-unreachable] %s: %s. %s", self._what, error, self._meanwhile)
        else:
            LOG.debug("%s, still: %s", self._what, error)

    def worked(self) -> None:
        """Take note that it worked."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            LOG.info("%s: that is over after %.0f s", self._what, self._clock() - since)
