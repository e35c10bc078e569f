# SPDX-License-Identifier: Apache-2.0

"""What processes say of themselves next to the lease, and what a backend says of all of them."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import socket
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import NamedTuple

import msgspec

_RUNNING = metadata.version("ironic-virt")  # Another one may be installed meanwhile.


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """One process, as of its last note.

    :ivar active: it holds the lease; else it waits.
    :ivar machine: where it runs, which is not the host name of the service.
    :ivar since: when it became what it is, in UTC.
    :ivar foreign_reports: see :attr:`.Lease.foreign_reports`.
    :ivar lacks: what its work needs and it does not reach; ``None``: it does not look.
    """

    active: bool
    machine: str
    pid: int
    since: str
    version: str
    foreign_reports: int = 0
    lacks: str | None = None

    @classmethod
    def of_this_process(cls, *, active: bool) -> Note:
        """That of this process, which has just become what it is."""
        since = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S}"
        return cls(active, socket.gethostname(), os.getpid(), since, _RUNNING)

    @property
    def could_serve(self) -> bool:
        """Whether it waits and reaches all that it needs."""
        return not self.active and self.lacks == ""

    def __str__(self) -> str:
        lacks = f", without {self.lacks}" if self.lacks else ""
        process = f"process {self.pid} on {self.machine}, version {self.version}"
        return f"{process}, since {self.since} UTC{lacks}"


def load_notes(texts: Iterable[bytes | str]) -> list[Note]:
    """Notes from a backend; those that can't be read are left out.

    :returns: those of active processes first, the newest of them before all.
    """
    notes = []
    for text in texts:
        with contextlib.suppress(msgspec.MsgspecError, ValueError):
            notes.append(msgspec.json.decode(text, type=Note))
    return sorted(notes, key=lambda note: (note.active, note.since), reverse=True)


class Look(NamedTuple):
    """What a backend says of a host name.

    :ivar age: seconds since the lease was renewed; ``None``: no process is active.
    :ivar notes: those of its processes, the active one first.  One that has ended is in them for
        some seconds more, and one of an older release is not.
    :ivar untold: why nothing is known; empty: it is known.
    """

    age: float | None = None
    notes: Sequence[Note] = ()
    untold: str = ""

    @property
    def foreign_reports(self) -> int:
        """How often the active process has seen one without the lease."""
        return max((note.foreign_reports for note in self.notes if note.active), default=0)

    def __str__(self) -> str:
        holder = next((str(note) for note in self.notes if note.active), "a process")
        waiting = sum(not note.active for note in self.notes)
        return (
            f"{holder} is active; it renewed its lease {self.age or 0:.0f} s ago, "
            f"and {waiting} {'waits' if waiting == 1 else 'wait'}"
        )
