# SPDX-License-Identifier: Apache-2.0

"""When to look at a node that somebody waits for, and how long a look may take.

Pauses grow, with jitter.  Pure arithmetic of how often was looked; the random number
generator comes in.
"""

from __future__ import annotations

import dataclasses
import random

SHORTEST_INTERVAL = 0.05
"""Seconds between two looks, whatever was configured: never a busy loop."""

SHORTEST_TIMEOUT = 1.0
"""Seconds that a look is waited for at least."""

FIRST_TIMEOUT = 2.0
"""Seconds that a look is waited for when it isn't known how long it usually takes."""

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
    """When to look.

    :param interval: seconds; all pauses are shares or multiples of it.
    :param rng: the source of jitter.
    """

    interval: float
    rng: random.Random

    @property
    def together(self) -> float:
        """Who is due within so many seconds is served at once."""
        return self._floored * _TOGETHER

    def pause(self, polls: int, patience: float, *, served: int = 1, late: float = 0.0) -> float:
        """Seconds until the next look after so many, of one pace.

        :param patience: the longest pause in intervals, what the next look itself takes
            included.
        :param served: how many nodes one request shows; so much sooner can the next
            one come.
        :param late: seconds from when this look was due to its answer; the next one will
            be as late.
        """
        share = _FIRST_LOOK
        if polls:
            share = min(_STEP * polls, 1.0) * patience
        if served > 1:
            # Of those who share, none waits for long, and a few cost no more than one.
            densest = min(_FIRST_LOOK * _GROWTH ** min(polls, 10), _SHARED)
            share = min(max(share / served, densest), share)
        pause = self._jittered(self._floored * share)
        longest = self._floored * patience - late
        return max(min(pause, longest), pause * _LEAST_SHARE, SHORTEST_INTERVAL)

    def backoff(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        grown = min(_GROWTH ** min(failures - 1, 10), _LARGEST_BACKOFF)
        return max(self._jittered(self._floored * grown), SHORTEST_INTERVAL)

    @staticmethod
    def timeout(failures: int, usual: float | None) -> float:
        """Seconds that a look is waited for after so many failures.

        A request that hangs must not hold up the end of a wait, so they are few; they
        grow, because an Ironic that has become slow must be heard in the end.

        :param usual: the seconds that such a look takes, if that is known.
        """
        first = FIRST_TIMEOUT if usual is None else max(SHORTEST_TIMEOUT, 5 * usual)
        return float(first * _GROWTH ** min(failures, 10))

    @property
    def _floored(self) -> float:
        return max(self.interval, SHORTEST_INTERVAL)

    def _jittered(self, seconds: float) -> float:
        return seconds * self.rng.uniform(1 - _JITTER, 1)
