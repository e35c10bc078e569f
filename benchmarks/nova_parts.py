# SPDX-License-Identifier: Apache-2.0

"""What goes where while threads work: time by the part of the work that it is in.

Parts nest, and time is the innermost one's: what a driver asks of a database is
the database's.  Each thread has its own nesting and its own sums, without a lock,
since what is watched takes microseconds.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any


class _Sums:
    """Of one part, in one thread."""

    __slots__ = ("cpu", "entered", "wall")

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self.entered = 0


class _Nesting:
    """The parts that a thread is in, the innermost last, and its sums so far."""

    __slots__ = ("cpu", "inside", "sums", "wall")

    def __init__(self) -> None:
        self.inside: list[_Sums] = []
        self.sums: dict[str, _Sums] = {}
        self.wall = self.cpu = 0.0


class Parts:
    """Adds up by part; time outside any part is in none.

    :param wall: a clock in seconds.
    :param processor: the thread's processor time in seconds.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.perf_counter,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self._wall, self._processor = wall, processor
        self._local = threading.local()
        self._threads: list[_Nesting] = []

    def taken(self) -> dict[str, dict[str, float]]:
        """The sums since the last call, by part: ``wall``, ``cpu`` and how often ``entered``.

        No thread may be inside a part.
        """
        found: dict[str, dict[str, float]] = {}
        for thread in list(self._threads):
            sums, thread.sums = thread.sums, {}
            for part, sum_ in sums.items():
                total = found.setdefault(part, {"wall": 0.0, "cpu": 0.0, "entered": 0.0})
                total["wall"] += sum_.wall
                total["cpu"] += sum_.cpu
                total["entered"] += sum_.entered
        return found

    def wrapped(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """A function whose calls are work on a part; from within that part nothing changes."""
        wall, processor = self._wall, self._processor

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            thread = self._thread()
            sums = thread.sums.get(part) or thread.sums.setdefault(part, _Sums())
            parts = thread.inside
            if parts and parts[-1] is sums:
                return function(*args, **kwargs)
            sums.entered += 1
            began, used = wall(), processor()
            if parts:
                parts[-1].wall += began - thread.wall
                parts[-1].cpu += used - thread.cpu
            parts.append(sums)
            thread.wall, thread.cpu = began, used
            try:
                return function(*args, **kwargs)
            finally:
                used, ended = processor(), wall()
                sums.wall += ended - thread.wall
                sums.cpu += used - thread.cpu
                thread.wall, thread.cpu = ended, used
                parts.pop()

        return inside

    def _thread(self) -> _Nesting:
        try:
            found: _Nesting = self._local.nesting
        except AttributeError:
            found = self._local.nesting = _Nesting()
            self._threads.append(found)
        return found

    def wrap_methods(self, owner: type, part: str, names: Iterable[str]) -> None:
        """Let methods that a class itself defines be work on a part, for good.

        :param names: of its attributes; those that are not methods stay as they are.
        """
        for name in names:
            found = vars(owner)[name]
            if isinstance(found, classmethod | staticmethod):
                setattr(owner, name, type(found)(self.wrapped(found.__func__, part)))
            elif inspect.isfunction(found):
                setattr(owner, name, self.wrapped(found, part))
