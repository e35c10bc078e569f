# SPDX-License-Identifier: Apache-2.0

"""Which changes of a plan were begun and done: a file next to the plan, which a run appends to.

Before a node is touched, a line with its state is on the disk.  So a killed run leaves no change
that the journal does not name, and the next run goes on.  One process at a time holds it.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

import msgspec
from oslo_concurrency import lockutils

from ironic_virt.fleet.plans.plan import PlanRefused

BEGUN, DONE, UNDOING, UNDONE = "begun", "done", "undoing", "undone"
_utc_now = functools.partial(datetime.datetime.now, datetime.UTC)

Before = tuple[str | None, str | None]
"""A node's shard and the host of its record before the plan, as that says."""


class _Header(msgspec.Struct):
    plan: str


class _Entry(msgspec.Struct):
    node: str
    state: str
    at: str
    before: Before


class Journal:
    """The state of each node of a plan that was begun; :func:`opened` makes one to write to."""

    def __init__(self, plan: Path, now: Callable[[], datetime.datetime] = _utc_now) -> None:
        self._now = now
        self._states: dict[str, str] = {}
        self._before: dict[str, Before] = {}
        self._header = _Header(hashlib.sha256(plan.read_bytes()).hexdigest())
        self.file: IO[str] | None = None
        self.length = 0
        """How many bytes of it are whole lines."""
        path = path_of(plan)
        content = path.read_bytes() if path.exists() else b""
        try:
            for line in content.splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    break
                if self.is_begun:
                    self._take(msgspec.json.decode(line, type=_Entry))
                elif msgspec.json.decode(line, type=_Header) != self._header:
                    raise PlanRefused(
                        f"{plan} was changed after it was begun. Restore the file, or make a new "
                        f"plan; {path} says what was done"
                    )
                self.length += len(line)
        except (msgspec.DecodeError, RecursionError, ValueError):
            raise PlanRefused(f"{path} is not a journal") from None

    @property
    def is_begun(self) -> bool:
        """Whether anything was ever written."""
        return self.length > 0

    def touched(self) -> dict[str, Before]:
        """The nodes that may be changed and were not taken back, as they were before."""
        states = self._states.items()
        return {node: self._before[node] for node, state in states if state != UNDONE}

    def unended(self) -> set[str]:
        """The nodes whose last change was begun, but not recorded as done."""
        return {node for node, state in self._states.items() if state in (BEGUN, UNDOING)}

    def _take(self, entry: _Entry) -> None:
        # A node that is begun again may be half-way: its first state counts.
        if self._states.get(entry.node, UNDONE) == UNDONE:
            self._before[entry.node] = entry.before
        self._states[entry.node] = entry.state

    def write(self, nodes: Mapping[str, Before], state: str) -> None:
        """Write the state of nodes, and what they were before; return when it is on the disk."""
        assert self.file is not None
        at = self._now().isoformat(timespec="seconds")
        entries = [_Entry(node, state, at, before) for node, before in nodes.items()]
        for line in entries if self.is_begun else (self._header, *entries):
            self.length += self.file.write(msgspec.json.encode(line).decode() + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        for entry in entries:
            self._take(entry)


def path_of(plan: Path) -> Path:
    """Where a plan's journal is."""
    return plan.with_name(f"{plan.name}.journal")


@contextlib.contextmanager
def opened(plan: Path, now: Callable[[], datetime.datetime] = _utc_now) -> Iterator[Journal]:
    """The journal of a plan, for this process alone, or :class:`PlanRefused`."""
    path = path_of(plan)
    lock = lockutils.external_lock(f"{path.name}.lock", lock_path=str(path.parent or "."))
    if not lock.acquire(blocking=False):
        raise PlanRefused(f"another process is working on {plan}")
    try:
        journal = Journal(plan, now)
        with path.open("a", encoding="utf-8") as journal.file:
            # An incomplete line would make the next one unreadable, too.
            journal.file.truncate(journal.length)
            yield journal
    finally:
        lock.release()
