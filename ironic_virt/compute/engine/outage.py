# SPDX-License-Identifier: Apache-2.0

"""Tells that something is wrong, at first and every few minutes, and that it is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from oslo_log import log as logging

from ironic_virt.logs import OutageTimer

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
        self._timer = OutageTimer(clock=clock)
        self.lasts = False
        """Whether it is so, as far as known."""

    def failed(self, error: Exception) -> None:
        """Take note that it failed."""
        self.lasts = True
        seconds = self._timer.failed()
        if seconds is None:
            LOG.debug("%s, still: %s", self._what, error)
            return
        lasting = f" for {seconds:.0f} s" if seconds else ""
        LOG.error(
            "[database-unreachable] %s%s: %s. %s", self._what, lasting, error, self._meanwhile
        )

    def worked(self) -> None:
        """Take note that it worked."""
        seconds = self._timer.worked()
        if seconds is not None:
            self.lasts = False
            LOG.info("%s: that is over after %.0f s", self._what, seconds)
