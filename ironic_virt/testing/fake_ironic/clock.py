# SPDX-License-Identifier: Apache-2.0

"""The two clocks a fake Ironic can run on.

A clock only tells the time: nothing here sleeps, and nothing runs by itself.
The fake Ironic asks the clock at each request what has become due since the
last one, so a test on a :class:`VirtualClock` is fully deterministic.
"""

import datetime
import time
from typing import Protocol

__all__ = ["Clock", "RealClock", "VirtualClock", "timestamp"]

_START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).timestamp()


class Clock(Protocol):
    """Anything that tells the time in seconds since the epoch."""

    def now(self) -> float: ...


class RealClock:
    """The wall clock, kept from running backwards."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()


class VirtualClock:
    """A clock that moves only by :meth:`advance`.

    :param start: its first time, in seconds since the epoch.
    """

    def __init__(self, start: float = _START) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move on by ``seconds``; time never goes back.

        :raises ValueError: if ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError(f"A clock can't go back by {-seconds} seconds")
        self._now += seconds


def timestamp(moment: float) -> str:
    """``moment`` as Ironic on MariaDB shows it: whole seconds, with offset."""
    when = datetime.datetime.fromtimestamp(int(moment), datetime.UTC)
    return when.isoformat()
