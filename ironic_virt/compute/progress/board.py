# SPDX-License-Identifier: Apache-2.0

"""How far each instance is in the action that is going on.

A :class:`Board` is written by the threads that act and by the driver's own
(through ``VirtAPI.report_progress``), and read by the display; one lock around
it.  It knows nothing of how it is shown.
"""

from __future__ import annotations

import dataclasses
import enum
import threading
import time
from collections.abc import Callable, Iterable, Mapping


class Outcome(enum.Enum):
    """Whether a track has ended, and how."""

    GOING_ON = "going on"
    DONE = "done"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True)
class Track:
    """One instance or node on its way through an action.

    :ivar key: its uuid.
    :ivar name: as people call it.
    :ivar where: the node's name, for an instance.
    :ivar step: what the driver last said it was doing.
    :ivar detail: Ironic's provision state then, where it said one.
    :ivar started: on the board's clock, in seconds.
    :ivar ended: the same; ``None`` while it goes on.
    """

    key: str
    name: str
    where: str
    started: float
    step: str = "waiting"
    detail: str = ""
    ended: float | None = None
    outcome: Outcome = Outcome.GOING_ON

    def seconds(self, now: float) -> float:
        """How long it has taken until ``now``, or until it ended."""
        return (now if self.ended is None else self.ended) - self.started


Listener = Callable[[Track], None]


class Board:
    """The tracks of the action that is going on.  Thread-safe.

    :param clock: monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._tracks: dict[str, Track] = {}
        self._listener: Listener | None = None

    def begin(self, names: Mapping[str, tuple[str, str]]) -> None:
        """Wipe the board and begin tracks.

        :param names: by key, the name and the node's name.
        """
        now = self.clock()
        with self._lock:
            self._tracks = {
                key: Track(key, name, where, now) for key, (name, where) in names.items()
            }

    def listen(self, listener: Listener | None) -> None:
        """Have each change told to ``listener``, one at a time; ``None`` ends that."""
        with self._lock:
            self._listener = listener

    def report(self, key: str, step: str, detail: str = "", *, where: str | None = None) -> None:
        """Note what is being done; of unknown tracks and of ended ones nothing is noted.

        :param where: the node's name, if that is another one now.
        """
        moved = {} if where is None else {"where": where}
        self._change(key, step=step, detail=detail, **moved)

    def finish(self, key: str, step: str) -> None:
        """End a track well."""
        self._change(key, step=step, detail="", ended=self.clock(), outcome=Outcome.DONE)

    def fail(self, key: str, reason: str) -> None:
        """End a track badly."""
        self._change(key, step="failed", detail=reason, ended=self.clock(), outcome=Outcome.FAILED)

    def tracks(self) -> tuple[Track, ...]:
        """All tracks as they are now."""
        with self._lock:
            return tuple(self._tracks.values())

    def _change(self, key: str, **changes: object) -> None:
        with self._lock:
            before = self._tracks.get(key)
            if before is None or before.outcome is not Outcome.GOING_ON:
                return
            track = dataclasses.replace(before, **changes)  # type: ignore[arg-type]
            if track == before:
                return
            self._tracks[key] = track
            if self._listener is not None:
                self._listener(track)


def going_on(tracks: Iterable[Track]) -> int:
    """How many have not ended."""
    return sum(track.outcome is Outcome.GOING_ON for track in tracks)
