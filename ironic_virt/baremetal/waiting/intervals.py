# SPDX-License-Identifier: Apache-2.0

"""The pauses between polls of a node, and the timeout of each.

Pauses grow, with jitter.  Pure arithmetic; the random number generator is passed in.
"""

from __future__ import annotations

import dataclasses
import random

SHORTEST_INTERVAL = 0.05
"""At least so many seconds pass between two polls; no option makes a busy loop."""

SHORTEST_TIMEOUT = 1.0
"""The shortest timeout of a poll, in seconds."""

FIRST_TIMEOUT = 2.0
"""The timeout of a poll, in seconds, while its usual duration is not known."""

_FIRST_LOOK = 0.25
_STEP = 0.3
_GROWTH = 1.5
_SHARED = 0.75
_JITTER = 0.2
_LEAST_SHARE = 0.5
_TOGETHER = 0.125
_LARGEST_BACKOFF = 5


@dataclasses.dataclass(frozen=True)
class PollIntervals:
    """When to poll.

    :param interval: seconds; all pauses are shares or multiples of it.
    :param rng: the source of jitter.
    """

    interval: float
    rng: random.Random

    @property
    def together(self) -> float:
        """Waiters that are due within this time, in seconds, are served together."""
        return self._floored * _TOGETHER

    def pause(self, polls: int, patience: float, *, served: int = 1, late: float = 0.0) -> float:
        """Seconds until the next poll.

        :param polls: how many were made since there was last a reason to poll soon.
        :param patience: the longest pause in intervals, the duration of the next poll
            included.
        :param served: how many nodes one request shows; the pause shrinks with it.
        :param late: seconds from when the last poll was due to its answer; the next one
            will be as late.
        """
        share = _FIRST_LOOK
        if polls:
            share = min(_STEP * polls, 1.0) * patience
        if served > 1:
            # Nodes that share a request wait less, and a few cost no more than one.
            densest = min(_FIRST_LOOK * _GROWTH ** min(polls, 10), _SHARED)
            share = min(max(share / served, densest), share)
        pause = self._jittered(self._floored * share)
        longest = self._floored * patience - late
        return max(min(pause, longest), pause * _LEAST_SHARE, SHORTEST_INTERVAL)

    def backoff(self, failures: int) -> float:
        """Seconds to wait after a number of failures in a row."""
        grown = min(_GROWTH ** min(failures - 1, 10), _LARGEST_BACKOFF)
        return max(self._jittered(self._floored * grown), SHORTEST_INTERVAL)

    @staticmethod
    def timeout(failures: int, usual: float | None) -> float:
        """The timeout of a poll in seconds, after a number of failures.

        It is short, so that a request that hangs does not delay the end of a wait.  It
        grows, so that an Ironic that has become slow can answer in the end.

        :param usual: the seconds that such a poll takes, if that is known.
        """
        first = FIRST_TIMEOUT if usual is None else max(SHORTEST_TIMEOUT, 5 * usual)
        return float(first * _GROWTH ** min(failures, 10))

    @property
    def _floored(self) -> float:
        return max(self.interval, SHORTEST_INTERVAL)

    def _jittered(self, seconds: float) -> float:
        return seconds * self.rng.uniform(1 - _JITTER, 1)
