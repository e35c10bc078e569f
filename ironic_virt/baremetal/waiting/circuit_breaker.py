# SPDX-License-Identifier: Apache-2.0

"""What it means that a look failed: wait on, leave Ironic alone for a while, or give up.

One failure says little: a request may hang where others are answered, and one of
several API servers may refuse what the next one takes.  Only failures in a row, with
no answer in between, say that Ironic itself is in trouble; only refusals over some time
that waiting won't mend it.

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
"""So many looks must fail in a row before Ironic counts as in trouble, or as refusing."""

ALIVE_FOR = 10.0
"""Seconds after an answer for which looks that hang don't say that Ironic is in trouble."""

PATIENT_FOR = 3
"""While Ironic answers others, so many failures of one look are taken for chance."""

REFUSED_FOR = 60.0
"""Seconds for which Ironic must refuse before a wait is given up.

Keystone that restarts, a key that is rotated and an API server that is upgraded take less.
"""

_REFUSALS = (exceptions.MicroversionNotSupported, exceptions.IronicUnauthorized)
_SERVER_IN_TROUBLE = (exceptions.IronicUnreachable, exceptions.IronicUnavailable)


class CircuitBreaker:
    """The troubles of a poll.

    :ivar held_until: nothing is asked before that.
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
        """Whether Ironic answers none, as far as known."""
        return self._holds > 0

    def answered(self) -> None:
        """Take note that a look was answered."""
        self._answered_at = self._clock()
        self._in_a_row = self._holds = 0
        self._refused_since = None
        self.held_until = float("-inf")

    def failed(self, request: PollRequest, waiters: Sequence[Waiter], error: Exception) -> bool:
        """Take note that a look failed.

        :param waiters: those whom it was for.
        :returns: whether nothing should be asked for a while.
        """
        now = self._clock()
        for waiter in waiters:
            waiter.failures += 1
            waiter.last_error = str(error)
            if not isinstance(error, _REFUSALS):
                waiter.refused_since = None
            elif waiter.refused_since is None:
                waiter.refused_since = now
        # A look that hung may be one of few, when few wait.
        hung = (
            isinstance(error, exceptions.IronicUnreachable)
            and now - request.began >= request.timeout
        )
        alive_until = self._answered_at + (ALIVE_FOR if hung else 0.0)
        if not self._is_of_all(error) or request.began < alive_until:
            return False
        self._in_a_row += 1
        if not isinstance(error, exceptions.IronicUnauthorized):
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = now
        if now < self.held_until or (self._in_a_row < IN_A_ROW and not self._holds):
            return False
        self._holds += 1
        self.held_until = now + self.pause(request, self._holds, error)
        return True

    def pause(self, request: PollRequest, failures: int, error: Exception) -> float:
        """Seconds to wait after so many failures in a row; what the last one took counts."""
        taken = self._clock() - request.began
        if isinstance(error, _SERVER_IN_TROUBLE):
            failures = self.weighed(failures)
        pause = self._intervals.backoff(failures) if failures else self._intervals.pause(0, 1.0)
        return max(pause - taken, SHORTEST_INTERVAL)

    def weighed(self, failures: int) -> int:
        """So many failures in a row, as heavy as they weigh.

        While others are answered, the first few are taken for chance: a request that has
        hung is then more likely to be answered at once than later.
        """
        is_alive = self._in_a_row < IN_A_ROW and self._answered_at > float("-inf")
        return max(failures - PATIENT_FOR, 0) if is_alive else failures

    @staticmethod
    def _is_of_all(error: Exception) -> bool:
        """Whether any other request might meet with the same."""
        # 403 is about what was asked for.
        refused = isinstance(error, exceptions.IronicUnauthorized) and error.status != 403
        return refused or isinstance(error, _SERVER_IN_TROUBLE)

    # -- giving up ------------------------------------------------------------

    def given_up(
        self, waiters: Sequence[Waiter], everybody: Sequence[Waiter], error: Exception
    ) -> list[Waiter]:
        """Those who need not wait any longer."""
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
        """Say that a look failed, at first and every few minutes."""
        kind = (type(error).__name__, getattr(error, "status", None))
        lasted = self._outages.setdefault(kind, OutageTimer(clock=self._clock)).failed()
        if lasted is None:
            LOG.debug("Ironic could again not be asked for %s: %s", request.what, error)
            return
        LOG.log(
            logging.ERROR if isinstance(error, _REFUSALS) else logging.WARNING,
            "Ironic could not be asked for %s, which %d wait for%s; asking again in %.1f s "
            "and then at longer intervals: %s",
            request.what,
            count,
            f", for {lasted:.0f} s now" if lasted else "",
            pause,
            error,
        )

    @staticmethod
    def log_end(request: PollRequest, count: int, error: Exception) -> None:
        """Say that waits end."""
        LOG.error(
            "%d waits end, because Ironic can't be asked for %s: %s",
            count,
            request.what,
            logs.said(error),
            exc_info=not isinstance(error, exceptions.IronicVirtError),
        )

    def log_recovery(self) -> None:
        """Say that Ironic answers for everybody again, if it was said that it did not."""
        told, self._outages = self._outages, {}
        lasted = [seconds for outage in told.values() if (seconds := outage.worked()) is not None]
        if lasted:
            LOG.info("Ironic answers for every node that is waited for, after %.0f s", max(lasted))

    @property
    def has_logged(self) -> bool:
        """Whether there is a recovery to be told of."""
        return bool(self._outages)
