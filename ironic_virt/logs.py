# SPDX-License-Identifier: Apache-2.0

"""Lines of the log that repeat nothing: what was told before, and an error in its own line."""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable

from ironic_virt import exceptions

MOST_TOLD = 100_000
"""So many things are remembered, a node each in the largest fleets."""


class Told:
    """What was told, so that it is told once; beyond a number, what is oldest is forgotten.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Hashes, because what is told may be long.
        self._told: dict[int, None] = {}

    def is_news(self, what: Hashable) -> bool:
        """Take note that something is told now; ``False``: it was told before."""
        key = hash(what)
        with self._lock:
            if key in self._told:
                return False
            if len(self._told) >= MOST_TOLD:
                del self._told[next(iter(self._told))]
            self._told[key] = None
        return True


def tell_errors_once(name: str = "ironic_virt") -> None:
    """Keep oslo.log from adding an error to lines that say it already.

    oslo.log ends each warning that is written while an error is handled with that error.
    Our lines name their error themselves; a traceback still brings its own.

    :param name: the logger above those that are meant.
    """
    logger = logging.getLogger(name)
    if not isinstance(logger.parent, _Between):
        logger.parent = _Between(name)


def said(error: Exception) -> str:
    """What a line says of an error: its text, or its kind where its traceback follows."""
    is_ours = isinstance(error, exceptions.IronicVirtError)
    return str(error) if is_ours else type(error).__name__


class _Between(logging.Logger):
    """Stands between a logger and the root; who configures or watches loggers does not see it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.parent = logging.getLogger()
        self.propagate = False
        self.addHandler(_Unsummed())


class _Unsummed(logging.Handler):
    """Hands lines to the root's handlers where oslo.log sees no error being handled."""

    def emit(self, record: logging.LogRecord) -> None:
        """See :class:`logging.Handler`."""
        try:
            # Of the errors that are being handled oslo.log takes the last one, but not this kind.
            raise ValueError
        except ValueError:
            logging.getLogger().callHandlers(record)
