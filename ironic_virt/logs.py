# SPDX-License-Identifier: Apache-2.0

"""Helpers for log lines: log a thing once, repeat an outage every few minutes, cut long text.

The classes remember what was logged and when; their callers write the lines.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Hashable

from ironic_virt import exceptions

MOST_LOGGED = 100_000
"""How many things are remembered: one for each node of the largest fleets."""

REMIND_AFTER = 300.0
"""Seconds after which an outage that lasts is logged again."""

LONGEST = 500
"""Characters of a text that others have written."""

LONGEST_REASON = 4000
"""Of what a conductor says of a failure, which may hold the output of a command."""

# What moves the cursor, ends a line, or turns the direction of what follows.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]+"
)

# What SQLAlchemy and databases append to the first line of an error: the statement and its
# values, which may be secret.
_SQL = re.compile(r"\s*(?:\bLINE \d+: |\bDETAIL: |\[SQL: ).*", re.DOTALL)


class LogOnce:
    """What was logged, so that it is logged once; the oldest is forgotten beyond a number.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Hashes, because what is logged may be long.
        self._logged: dict[int, None] = {}

    def is_news(self, item: Hashable) -> bool:
        """Record that something is logged now; ``False``: it was logged before."""
        key = hash(item)
        with self._lock:
            if key in self._logged:
                return False
            if len(self._logged) >= MOST_LOGGED:
                del self._logged[next(iter(self._logged))]
            self._logged[key] = None
        return True


class OutageTimer:
    """When to say that something fails: at first, then every few minutes, and at its end.

    Thread-safe.

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
        self._logged_at = 0.0

    def failed(self) -> float | None:
        """Take note of a failure.

        :returns: for how many seconds it has failed, if that is to be logged now; 0: it is
            the first failure.
        """
        with self._lock:
            current_time = self._failed_at = self._clock()
            if self._since is None:
                self._since = current_time
            elif current_time - self._logged_at < REMIND_AFTER:
                return None
            self._logged_at = current_time
            return current_time - self._since

    def worked(self) -> float | None:
        """Take note of a success.

        :returns: for how many seconds it had failed, if that is over now.
        """
        if self._since is None:
            return None
        with self._lock:
            current_time = self._clock()
            if self._since is None or current_time - self._failed_at < self._settle:
                return None
            since, self._since = self._since, None
            return current_time - since


def one_line(text: str, longest: int = LONGEST) -> str:
    """A text as one line of a bounded length, without control characters and SQL.

    :param longest: in characters.
    """
    if "[SQL: " in text:
        text = _SQL.sub(" (SQL left out)", text, count=1)
    cut = text[: longest * 2]
    words = _CONTROL.sub(" ", cut).strip()
    if len(words) <= longest and len(cut) == len(text):
        return words
    end = f"... ({len(text)} characters)"
    return words[: longest - len(end)].rstrip() + end


def reason(text: str | None) -> str | None:
    """What a conductor says of a failure, as one line."""
    return None if text is None else one_line(text, LONGEST_REASON)


def log_errors_once(name: str = "ironic_virt") -> None:
    """Keep oslo.log from adding an error to lines that say it already.

    oslo.log ends each warning that is written while an error is handled with that error.
    Our lines name their error themselves; a traceback still brings its own.

    :param name: the parent of the loggers to change.
    """
    logger = logging.getLogger(name)
    if not isinstance(logger.parent, _Between):
        logger.parent = _Between(name)


def error_text(error: Exception) -> str:
    """An error for a log line: its text, or its kind where a traceback follows."""
    is_ours = isinstance(error, exceptions.IronicVirtError)
    return str(error) if is_ours else type(error).__name__


class _Between(logging.Logger):
    """Stands between a logger and the root, out of the sight of those who configure loggers."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.parent = logging.getLogger()
        self.propagate = False
        self.addHandler(_WithoutErrorSummary())


class _WithoutErrorSummary(logging.Handler):
    """Hands lines to the root's handlers where oslo.log sees no error being handled."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a line to the handlers of the root logger."""
        try:
            # oslo.log appends the error that was raised last, but leaves out a ValueError.
            raise ValueError
        except ValueError:
            logging.getLogger().callHandlers(record)
