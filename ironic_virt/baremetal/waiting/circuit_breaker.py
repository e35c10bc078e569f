# SPDX-License-Identifier: Apache-2.0

"""What to do when a poll has failed: wait on, pause all polls, or give up.

One failure means little: a request may hang while others are answered, and one of
several API servers may refuse what the next one accepts.  Only failures in a row, without
an answer in between, mean that Ironic itself is down: then one poll at a time checks
whether it is back.  Only refusals over some time mean that waiting will not help.

Not thread-safe: the poll's lock guards it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.baremetal.waiting.intervals import SHORTEST_INTERVAL, PollIntervals
from ironic_virt.baremetal.waiting.waiters import PollRequest, Waiter
from ironic_virt.logs import OutageTimer

LOG = logging.getLogger(__name__)

IN_A_ROW = 3
"""Polls that must fail in a row before Ironic counts as down, or as refusing."""

ALIVE_FOR = 10.0
"""Seconds after an answer during which a poll that hangs does not mean that Ironic is down."""

PATIENT_FOR = 3
"""How many failures of one poll are ignored while Ironic answers other polls."""

REFUSED_FOR = 60.0
"""Seconds for which Ironic must refuse before a wait is given up.

A restart of Keystone, the rotation of a key or the upgrade of an API server takes less.
"""

_REFUSALS = (exceptions.MicroversionNotSupported, exceptions.IronicUnauthorized)
_SERVER_IN_TROUBLE = (exceptions.IronicUnreachable, exceptions.IronicUnavailable)


class CircuitBreaker:
    """Decides when to poll after failures.

    :ivar held_until: no poll is made before that.
    """

    def __init__(self, intervals: PollIntervals, clock: Callable[[], float]) -> None:
        self.held_until = float("-inf")
        self._intervals = intervals
        self._clock = clock
        self._answered_at = float("-inf")
        self._in_a_row = 0
        self._holds = 0
        self._refused_since: float | None = None
        self._outages: dict[tuple[str, int | None], OutageTimer] = {}

    @property
    def lasts(self) -> bool:
        """Whether Ironic is down, as far as known."""
        return self._holds > 0

    def answered(self) -> None:
        """Record that a poll was answered."""
        self._answered_at = self._clock()
        self._in_a_row = self._holds = 0
        self._refused_since = None
        self.held_until = float("-inf")

    def failed(self, request: PollRequest, waiters: Sequence[Waiter], error: Exception) -> bool:
        """Record that a poll failed.

        :param waiters: the waiters that it was for.
        :returns: whether to make no polls for a while.
        """
        current_time = self._clock()
        for waiter in waiters:
            waiter.failures += 1
            waiter.last_error = str(error)
            if not isinstance(error, _REFUSALS):
                waiter.refused_since = None
            elif waiter.refused_since is None:
                waiter.refused_since = current_time
        # With few waiters, a poll that hung may have been the only one at that time.
        hung = (
            isinstance(error, exceptions.IronicUnreachable)
            and current_time - request.began >= request.timeout
        )
        alive_until = self._answered_at + (ALIVE_FOR if hung else 0.0)
        if not self._may_hit_any(error) or request.began < alive_until:
            return False
        self._in_a_row += 1
        if not isinstance(error, exceptions.IronicUnauthorized):
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = current_time
        if current_time < self.held_until or (self._in_a_row < IN_A_ROW and not self._holds):
            return False
        self._holds += 1
        self.held_until = current_time + self.pause(request, self._holds, error)
        return True

    def pause(self, request: PollRequest, failures: int, error: Exception) -> float:
        """Seconds to wait after failures in a row, less what the last one took."""
        taken = self._clock() - request.began
        if isinstance(error, _SERVER_IN_TROUBLE):
            failures = self.weighed(failures)
        pause = self._intervals.backoff(failures) if failures else self._intervals.pause(0, 1.0)
        return max(pause - taken, SHORTEST_INTERVAL)

    def weighed(self, failures: int) -> int:
        """The failures in a row that count.

        While Ironic answers other polls, the first few are ignored: a request that hung by
        chance is answered when it is repeated, and waiting would gain nothing.
        """
        is_alive = self._in_a_row < IN_A_ROW and self._answered_at > float("-inf")
        return max(failures - PATIENT_FOR, 0) if is_alive else failures

    @staticmethod
    def _may_hit_any(error: Exception) -> bool:
        """Whether any other request might fail in the same way."""
        # 403 is about what was asked for.
        refused = isinstance(error, exceptions.IronicUnauthorized) and error.status != 403
        return refused or isinstance(error, _SERVER_IN_TROUBLE)

    # -- giving up ------------------------------------------------------------

    def given_up(
        self, waiters: Sequence[Waiter], everybody: Sequence[Waiter], error: Exception
    ) -> list[Waiter]:
        """The waiters whose waits end."""
        if not isinstance(error, exceptions.IronicError):
            return list(waiters)
        if not isinstance(error, _REFUSALS):
            return []
        if self._holds and self._is_long(self._refused_since):
            return list(everybody)
        return [
            waiter
            for waiter in waiters
            if waiter.failures >= IN_A_ROW and self._is_long(waiter.refused_since)
        ]

    def _is_long(self, since: float | None) -> bool:
        return since is not None and self._clock() - since >= REFUSED_FOR

    # -- the log; without the lock --------------------------------------------

    def log_failure(
        self, request: PollRequest, count: int, pause: float, error: Exception
    ) -> None:
        """Log that a poll failed, at first and every few minutes."""
        kind = (type(error).__name__, getattr(error, "status", None))
        lasted = self._outages.setdefault(kind, OutageTimer(clock=self._clock)).failed()
        if lasted is None:
            LOG.debug("The request for %s failed again: %s", request.what, error)
            return
        LOG.log(
            logging.ERROR if isinstance(error, _REFUSALS) else logging.WARNING,
            "[wait-disturbed] The request for %s, for which %d wait, has failed%s; it is "
            "repeated in %.1f s and then at longer intervals: %s",
            request.what,
            count,
            f" for {lasted:.0f} s" if lasted else "",
            pause,
            error,
        )

    @staticmethod
    def log_end(request: PollRequest, count: int, error: Exception) -> None:
        """Log that waits end."""
        LOG.error(
            "[wait-disturbed] %d waits end, because the request for %s fails: %s",
            count,
            request.what,
            logs.error_text(error),
            exc_info=None if isinstance(error, exceptions.IronicVirtError) else error,
        )

    def log_recovery(self) -> None:
        """Log that Ironic answers all polls again, if a failure was logged."""
        outages, self._outages = self._outages, {}
        lasted = [
            seconds for outage in outages.values() if (seconds := outage.worked()) is not None
        ]
        if lasted:
            LOG.info(
                "Ironic answers all requests for awaited nodes again, after %.0f s", max(lasted)
            )

    @property
    def has_logged(self) -> bool:
        """Whether a failure was logged, so that a recovery is worth a line."""
        return bool(self._outages)
