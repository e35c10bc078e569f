# SPDX-License-Identifier: Apache-2.0

"""What of a plan was begun and done: a file beside the plan, which a run adds lines to.

A node is written down before it is touched, and the line is on the disk before the request is
sent.  So a run that was killed leaves no change that the journal does not name, and the next
one goes on.  One process at a time holds it.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from oslo_concurrency import lockutils

from ironic_virt.fleet.plans.plan import PlanRefused

BEGUN, DONE, UNDOING, UNDONE = "begun", "done", "undoing", "undone"


class Journal:
    """The state of each node that was begun; see :func:`opened`."""

    def __init__(
        self, file: IO[str], states: dict[str, str], now: Callable[[], datetime.datetime]
    ) -> None:
        self._file = file
        self._states = states
        self._now = now

    def state(self, node: str) -> str | None:
        """What was last written of a node; ``None``: nothing."""
        return self._states.get(node)

    def touched(self) -> list[str]:
        """The nodes for which something may have been changed and was not taken back."""
        return [node for node, state in self._states.items() if state != UNDONE]

    def write(self, nodes: Iterable[str], state: str) -> None:
        """Write the state of nodes, and return when it is on the disk."""
        at = self._now().isoformat(timespec="seconds")
        for node in nodes:
            self._states[node] = state
            self._file.write(json.dumps({"node": node, "state": state, "at": at}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def path_of(plan: Path) -> Path:
    """Where a plan's journal is."""
    return plan.with_name(f"{plan.name}.journal")


@contextlib.contextmanager
def opened(
    plan: Path,
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
) -> Iterator[Journal]:
    """The journal of a plan, for this process alone.

    :param plan: the plan's file.
    :raises PlanRefused: another process has it, or the plan was changed since it was begun.
    """
    path = path_of(plan)
    lock = lockutils.external_lock(f"{path.name}.lock", lock_path=str(path.parent or "."))
    if not lock.acquire(blocking=False):
        raise PlanRefused(f"another process is at work on {plan}")
    try:
        digest = hashlib.sha256(plan.read_bytes()).hexdigest()
        known, states, length = _read(path)
        if known is not None and known != digest:
            raise PlanRefused(
                f"{plan} was changed after it was begun. Make a new plan, or restore the file; "
                f"{path} says what was done"
            )
        with path.open("a", encoding="utf-8") as file:
            # A line that was cut off would make the next one unreadable, too.
            file.truncate(length)
            if known is None:
                file.write(json.dumps({"plan": digest}) + "\n")
            yield Journal(file, states, now)
    finally:
        lock.release()


def _read(path: Path) -> tuple[str | None, dict[str, str], int]:
    """The plan's digest, the states, and how many bytes of the file are whole lines."""
    digest: str | None = None
    states: dict[str, str] = {}
    length = 0
    if not path.exists():
        return None, states, 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            try:
                entry = json.loads(line)
                if "plan" in entry:
                    digest = str(entry["plan"])
                else:
                    states[str(entry["node"])] = str(entry["state"])
            except (LookupError, RecursionError, TypeError, ValueError):
                raise PlanRefused(f"{path} is no journal") from None
            length += len(line)
    return digest, states, length
