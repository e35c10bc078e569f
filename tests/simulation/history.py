# SPDX-License-Identifier: Apache-2.0

"""Users' requests and answers, what Ironic had when, and whether any order explains it.

A server is a register (is it there, its image, its power, is it rescued) and a node is a lock.
Each is small, so that the search of Wing and Gong for a linearization ends soon: an operation
takes effect at one moment between its request and its end; one that failed may have had an
effect or not, then or, if its request was on its way, a while later; one that was refused never.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

State = Hashable
Step = Callable[[Any, "Operation"], Sequence[Any]]
"""Given a state and an operation: the states that it may lead to; none: it can't have been."""

LATE = 600.0
"""Seconds after its end in which a failed operation may still come to have its effect."""


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """Something that was asked for.

    :ivar of: the server that it is of.
    :ivar asked: when, in seconds; ``ended``: when its user got the answer.
    :ivar outcome: ``done``, ``failed`` (perhaps with an effect) or ``refused`` (without).
    """

    verb: str
    of: str
    asked: float
    ended: float
    outcome: str = "done"
    value: Any = None

    @property
    def until(self) -> float:
        """When its effect has come if it does at all."""
        return self.ended + LATE if self.outcome == "failed" else self.ended

    def __str__(self) -> str:
        value = "" if self.value is None else f" {self.value}"
        return f"{self.asked:.3f}-{self.ended:.3f} {self.verb}{value} of {self.of}: {self.outcome}"


def linearization(
    operations: Sequence[Operation], step: Step, initial: State
) -> list[Operation] | None:
    """An order in which one operation after the other explains what was seen.

    :returns: ``None``: there is none.
    """
    wanted = sorted(
        (one for one in operations if one.outcome != "refused"),
        key=lambda one: (one.asked, one.until, one.verb),
    )
    dead: set[tuple[int, State]] = set()

    def search(left: int, state: State) -> list[Operation] | None:
        if not any(left >> i & 1 and wanted[i].outcome == "done" for i in range(len(wanted))):
            return []
        if (left, state) in dead:
            return None
        # What ended before another one was asked for comes first.
        first_end = min(
            one.until for i, one in enumerate(wanted) if left >> i & 1 and one.outcome == "done"
        )
        for i, one in enumerate(wanted):
            if not left >> i & 1 or one.asked > first_end:
                continue
            if one.outcome != "done" and _too_late(one, i, left, wanted):
                continue
            for after in step(state, one):
                rest = search(left & ~(1 << i), after)
                if rest is not None:
                    return [one, *rest]
        dead.add((left, state))
        return None

    return search((1 << len(wanted)) - 1, initial)


def _too_late(one: Operation, index: int, left: int, wanted: Sequence[Operation]) -> bool:
    """Whether something that was asked for after its last moment has had its effect already."""
    return any(
        not left >> i & 1 and other.asked > one.until
        for i, other in enumerate(wanted)
        if i != index
    )


# -- a server -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    image: str | None = None
    power: str = "off"
    rescued: bool = False


ABSENT = Server()


def server_step(state: Server, one: Operation) -> Sequence[Server]:
    """What an operation makes of a server."""
    there = state.image is not None
    if one.verb == "look":
        agrees = all(getattr(state, name) == value for name, value in one.value.items())
        return [state] if agrees else []
    if one.verb == "create":
        return [] if there else [Server(one.value, "on")]
    if one.verb == "delete":
        return [ABSENT]
    if not there:
        return []
    if one.verb == "rebuild":
        # One that the records have as stopped is powered off again.
        return [Server(one.value, power) for power in ("on", "off")]
    if one.verb in ("start", "stop", "hand"):
        return [dataclasses.replace(state, power=one.value)]
    if one.verb in ("reboot", "hard_reboot"):
        return [dataclasses.replace(state, power="on")]
    assert one.verb in ("rescue", "unrescue"), one.verb
    # Ironic's fake hardware leaves the power alone.
    after = [Server(state.image, power, one.verb == "rescue") for power in ("on", state.power)]
    if one.verb == "rescue" and one.outcome == "failed":
        # An unrescue follows, which powers other hardware on.
        after.append(Server(state.image, "on"))
    return after


# -- a node -------------------------------------------------------------------


def node_step(holder: str | None, one: Operation) -> Sequence[str | None]:
    """What an operation makes of a node's holder."""
    if one.verb == "look":
        return [holder] if holder == one.value else []
    if one.verb == "acquire":
        return [one.of] if holder is None else []
    return [None] if holder in (None, one.of) else []


# -- all of it ----------------------------------------------------------------


class History:
    """The log of a run, line by line, and what the checkers need of it.

    :ivar operations: of each server, in the order in which they ended.
    :ivar nodes: the same of each node.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.operations: dict[str, list[Operation]] = {}
        self.nodes: dict[str, list[Operation]] = {}

    def add(self, when: float, line: str) -> None:
        """Log something."""
        self.lines.append(f"{when:10.3f} {line}")

    def ended(self, operation: Operation) -> None:
        """Take note of a user's answer, or of what Ironic was seen to have."""
        self.operations.setdefault(operation.of, []).append(operation)

    def held(self, node: str, operation: Operation) -> None:
        """Take note that a node was got, given back, or looked at."""
        self.nodes.setdefault(node, []).append(operation)

    @property
    def digest(self) -> str:
        """Return a digest of the lines: it is equal for two runs only if each line is."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    def unexplained(self) -> list[str]:
        """The servers and nodes for which there is no linearization, in sentences."""
        found = []
        for kind, all_of_it, step, initial in (
            ("server", self.operations, server_step, ABSENT),
            ("node", self.nodes, node_step, None),
        ):
            for name, operations in all_of_it.items():
                if linearization(operations, step, initial) is None:
                    told = "\n    ".join(map(str, operations))
                    found.append(f"no order explains the history of {kind} {name}:\n    {told}")
        return found
