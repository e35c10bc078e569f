# SPDX-License-Identifier: Apache-2.0

"""What the signals ask of a compute service's process.

SIGTERM and SIGINT ask it to end in order, and a second one ends it at once;
SIGHUP asks it to read its files again.  A handler only puts a note into a queue
that the main thread waits on, so a signal is never dealt with in the middle of
something.

This is plain :mod:`signal` and not cotyledon, nor oslo.service, whose threading
backend is cotyledon.  Both run a service in a child process and start it again
whenever it ends, and that is wrong here: a process whose host name another one
has taken over must stay down, or the two would take it from each other for
ever, and a wrong configuration must be one line and an exit code and not an
endless series of children.  Starting a service again is what systemd is for.

Only the main thread may enter it and wait; any thread may :meth:`Signals.fail`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self

Note = signal.Signals | Exception
"""SIGTERM, SIGINT: the process is to end in order.  SIGHUP: the files are to be read again.
An error: the service can't go on."""

_LONGEST_SLEEP = 1.0
"""Seconds; a signal that comes just before the thread falls asleep does not wake it."""


class Stopped(BaseException):
    """A signal came while nothing had begun that would have to be ended in order."""


class Signals:
    """A context manager that holds the signals' handlers.

    :param leave: ends the process without any further ado.
    """

    def __init__(self, leave: Callable[[int], Any] = os._exit) -> None:
        self._leave = leave
        # Its put() may interrupt itself, which is what a handler needs.
        self._notes: queue.SimpleQueue[Note] = queue.SimpleQueue()
        self._stopping = False
        self._interrupting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._before[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for signum, before in self._before.items():
            signal.signal(signum, before)
        self._before.clear()

    def wait(self, timeout: float | None = None) -> Note | None:
        """Wait for what comes next.

        :returns: ``None`` when ``timeout`` seconds have passed.
        """
        while True:
            try:
                return self._notes.get(timeout=_LONGEST_SLEEP if timeout is None else timeout)
            except queue.Empty:
                if timeout is not None:
                    return None

    def fail(self, error: Exception) -> None:
        """Let the main thread know that the service can't go on."""
        self._notes.put(error)

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """Within this block, SIGTERM and SIGINT cut off whatever is being done.

        :raises Stopped: such a signal came.
        """
        self._interrupting = True
        try:
            yield
        finally:
            self._interrupting = False

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        note = signal.Signals(signum)
        if note is not signal.SIGHUP:
            if self._stopping:
                self._leave(128 + signum)
                return
            self._stopping = True
            if self._interrupting:
                raise Stopped
        self._notes.put(note)
