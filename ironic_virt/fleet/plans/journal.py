# SPDX-License-Identifier: Apache-2.0

"""What of a plan was begun and done: a file beside the plan, which a run adds lines to.

A node is written down before it is touched, as it is then, and the line is on the disk before
the request is sent.  So a run that was killed leaves no change that the journal does not name,
and the next one goes on.  One process at a time holds it.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec
from oslo_concurrency import lockutils

from ironic_virt.fleet.plans.plan import PlanRefused

BEGUN, DONE, UNDOING, UNDONE = "begun", "done", "undoing", "undone"


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


Before = tuple[str | None, str | None]
"""A node's shard and the host of its record, before it was touched."""


class _Header(msgspec.Struct):
    plan: str


class _Entry(msgspec.Struct):
    node: str
    state: str
    at: str
    before: Before


class Journal:
    """The state of each node that was begun; see :func:`opened`."""

    def __init__(
        self,
        file: IO[str] | None,
        entries: Sequence[_Entry],
        now: Callable[[], datetime.datetime] = _now,
        header: _Header | None = None,
    ) -> None:
        self._file = file
        self._now = now
        self._states: dict[str, str] = {}
        self._before: dict[str, Before] = {}
        self._header = header
        for entry in entries:
            self._take(entry)

    @property
    def is_begun(self) -> bool:
        """Whether anything was ever written."""
        return self._header is None

    def touched(self) -> dict[str, Before]:
        """The nodes that may be changed and were not taken back, as they were before."""
        return {
            node: self._before[node] for node, state in self._states.items() if state != UNDONE
        }

    def _take(self, entry: _Entry) -> None:
        # A node that is begun again is half-way: what counts is how it was at first.
        if self._states.get(entry.node, UNDONE) == UNDONE:
            self._before[entry.node] = entry.before
        self._states[entry.node] = entry.state

    def write(self, nodes: Mapping[str, Before], state: str) -> None:
        """Write the state of nodes, and return when it is on the disk.

        :param nodes: as they are before the change.
        """
        assert self._file is not None
        at = self._now().isoformat(timespec="seconds")
        if self._header is not None:
            self._file.write(_line(self._header))
            self._header = None
        for node, before in nodes.items():
            self._take(entry := _Entry(node, state, at, before))
            self._file.write(_line(entry))
        self._file.flush()
        os.fsync(self._file.fileno())


def path_of(plan: Path) -> Path:
    """Where a plan's journal is."""
    return plan.with_name(f"{plan.name}.journal")


def seen(plan: Path) -> Journal:
    """The journal of a plan, to be looked at: nothing is written.

    :raises PlanRefused: the plan was changed since it was begun.
    """
    digest, entries, length = _read(plan)
    return Journal(None, entries, header=_Header(digest) if not length else None)


@contextlib.contextmanager
def opened(plan: Path, now: Callable[[], datetime.datetime] = _now) -> Iterator[Journal]:
    """The journal of a plan, for this process alone.

    :param plan: the plan's file.
    :raises PlanRefused: another process has it, or the plan was changed since it was begun.
    """
    path = path_of(plan)
    lock = lockutils.external_lock(f"{path.name}.lock", lock_path=str(path.parent or "."))
    if not lock.acquire(blocking=False):
        raise PlanRefused(f"another process is at work on {plan}")
    try:
        digest, entries, length = _read(plan)
        with path.open("a", encoding="utf-8") as file:
            # A line that was cut off would make the next one unreadable, too.
            file.truncate(length)
            yield Journal(file, entries, now, _Header(digest) if not length else None)
    finally:
        lock.release()


def _line(entry: msgspec.Struct) -> str:
    return msgspec.json.encode(entry).decode() + "\n"


def _read(plan: Path) -> tuple[str, list[_Entry], int]:
    """The plan's digest, the journal's entries, and how many bytes of it are whole lines."""
    path = path_of(plan)
    digest = hashlib.sha256(plan.read_bytes()).hexdigest()
    entries: list[_Entry] = []
    length = 0
    content = path.read_bytes() if path.exists() else b""
    try:
        for line in content.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            if length:
                entries.append(msgspec.json.decode(line, type=_Entry))
            elif msgspec.json.decode(line, type=_Header).plan != digest:
                raise PlanRefused(
                    f"{plan} was changed after it was begun. Make a new plan, or restore the "
                    f"file; {path} says what was done"
                )
            length += len(line)
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise PlanRefused(f"{path} is no journal") from None
    return digest, entries, length
