# SPDX-License-Identifier: Apache-2.0

"""What a process says of itself beside the lease, for people and for the other processes."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import socket
from collections.abc import Iterable
from importlib import metadata
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """One process, as of its last note.

    :ivar active: it holds the lease; else it waits.
    :ivar machine: where it runs, which is not the host name of the service.
    :ivar since: when it became what it is, in UTC.
    :ivar foreign_reports: see :attr:`.Lease.foreign_reports`.
    """

    active: bool
    machine: str
    pid: int
    since: str
    version: str
    foreign_reports: int = 0

    @classmethod
    def of_this_process(cls, *, active: bool) -> Note:
        """That of this process, which has just become what it is."""
        now = datetime.datetime.now(datetime.UTC)
        return cls(
            active,
            socket.gethostname(),
            os.getpid(),
            f"{now:%Y-%m-%d %H:%M:%S}",
            metadata.version("ironic-virt"),
        )

    def __str__(self) -> str:
        return (
            f"process {self.pid} on {self.machine}, version {self.version}, since {self.since} UTC"
        )

    def dump(self) -> str:
        """It as text for a backend."""
        return json.dumps(dataclasses.asdict(self))


def load(texts: Iterable[bytes | str]) -> list[Note]:
    """Notes from a backend; those that can't be read are left out.

    :returns: those of active processes first, the newest of them before all.
    """
    names = {field.name for field in dataclasses.fields(Note)}
    notes = []
    for text in texts:
        try:
            fields: dict[str, Any] = json.loads(text)
            notes.append(Note(**{name: fields[name] for name in names & fields.keys()}))
        except (ValueError, TypeError, AttributeError):
            continue
    return sorted(notes, key=lambda note: (note.active, note.since), reverse=True)
