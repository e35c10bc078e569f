# SPDX-License-Identifier: Apache-2.0

"""The log of requests that a fake Ironic got, for tests to read."""

import dataclasses
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One request and how it was answered.

    :ivar query: the query string as it was sent.
    :ivar version: the API version that was asked for, "" if none.
    :ivar body: the JSON body that was sent, or None.
    :ivar status: the status of the answer, even if a fault kept it from the client; 0 if the
        request was not carried out.
    :ivar fault: the kind of fault that struck, if one did.
    :ivar when: seconds since the epoch on the fake Ironic's clock.
    """

    method: str
    path: str
    query: str
    version: str
    body: Any
    status: int
    fault: str | None
    when: float


class Journal:
    """Requests in the order in which they were answered; safe to read any time.

    :ivar listener: called with each entry, if set.
    """

    def __init__(self, size: int | None = None) -> None:
        self._entries: deque[Entry] = deque(maxlen=size)
        self._lock = threading.Lock()
        self.listener: Callable[[Entry], None] | None = None

    def add(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)
        if self.listener is not None:
            self.listener(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        with self._lock:
            return iter(list(self._entries))

    def __getitem__(self, index: int) -> Entry:
        return self._entries[index]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def matching(self, method: str = ".*", path: str = "") -> list[Entry]:
        """Entries whose method and path match these regular expressions."""
        return [
            entry
            for entry in self
            if re.fullmatch(method, entry.method) and re.search(path, entry.path)
        ]

    def mutating(self) -> list[Entry]:
        """Entries that were meant to change something."""
        return [entry for entry in self if entry.method not in ("GET", "HEAD")]
