# SPDX-License-Identifier: Apache-2.0

"""Ctrl-C, SIGTERM and SIGHUP: the first ends in order, the second at once.

The first signal only sets a flag, which the main thread looks at wherever it
waits.  So nothing is ever cut off between taking something (a directory, a
process) and noting that it has to be given back.

Only the main thread may use it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from types import FrameType, TracebackType
from typing import Any, Self

from ironic_virt import exceptions

# How late a signal may be noticed, in seconds.
_LOOK = 0.05


class DemoFailed(exceptions.IronicVirtError):
    """The demo can't go on; the message is one line for the user."""


class Interrupted(BaseException):
    """A signal asked the demo to end.

    No :class:`Exception`, so that nothing on the way mistakes it for a failure.

    :ivar signum: the signal's number.
    """

    def __init__(self, signum: int) -> None:
        self.signum = signum
        super().__init__(signum)

    @property
    def exit_code(self) -> int:
        """As shells report a program that a signal ended."""
        return 128 + self.signum


class Interrupts:
    """A context manager that holds the signals' handlers.

    :param note: is called once, by the main thread, when it turns to cleaning up.
    :param leave: ends the process without any further ado.
    """

    def __init__(
        self,
        note: Callable[[], None] = lambda: None,
        *,
        leave: Callable[[int], Any] = os._exit,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._note = note
        self._leave = leave
        self._sleep = sleep
        self._clock = clock
        self._signum: int | None = None
        self._noted = False
        self._cut_short = False
        self._before: dict[int, Any] = {}
        self._at_once: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            before = signal.getsignal(signum)
            # Whoever ignores SIGHUP (nohup) wants us to outlive the terminal.
            if signum != signal.SIGHUP or before is not signal.SIG_IGN:
                self._before[signum] = before
                signal.signal(signum, self._handle)
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

    def before_leaving(self, action: Callable[[], None]) -> None:
        """Have ``action`` done also when a second signal ends the process at once.

        It is called from a signal's handler: it must be short and wait for nothing.
        """
        self._at_once.append(action)

    def check(self) -> None:
        """Raise if a signal has come.

        :raises Interrupted: with the signal.
        """
        if self._signum is None:
            return
        if not self._noted:
            self._noted = True
            self._note()
        raise Interrupted(self._signum)

    def sleep(self, seconds: float) -> None:
        """Sleep, unless a signal comes.

        :raises Interrupted: as soon as one has.
        """
        end = self._clock() + seconds
        while True:
            self.check()
            left = end - self._clock()
            if left <= 0:
                return
            self._sleep(min(left, _LOOK))

    def wait(self, futures: Collection[concurrent.futures.Future[Any]]) -> None:
        """Wait until all are done or one has failed, and raise its error.

        :raises Interrupted: a signal came first.
        """
        while True:
            self.check()
            done, running = concurrent.futures.wait(
                futures, timeout=_LOOK, return_when=concurrent.futures.FIRST_EXCEPTION
            )
            for future in done:
                future.result()
            if not running:
                return

    @contextlib.contextmanager
    def cutting_short(self) -> Iterator[None]:
        """Within this block a signal interrupts at once whatever is being done.

        Only for what leaves nothing behind wherever it is cut off.

        :raises Interrupted: a signal came.
        """
        self.check()
        self._cut_short = True
        try:
            yield
        except Interrupted:
            self.check()
        finally:
            self._cut_short = False

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        # No locks here: the thread that this interrupts may hold any of them.
        if self._signum is not None:
            for action in self._at_once:
                with contextlib.suppress(Exception):
                    action()
            self._leave(128 + signum)
            return
        self._signum = signum
        if self._cut_short:
            raise Interrupted(signum)
