# SPDX-License-Identifier: Apache-2.0

"""What the doctor may find: tables of checks, and the finding itself.

A check is a function that yields the objects with a problem, each with what is wrong.  Its
decorator gives it a code, a severity and a suggested fix.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable
from typing import TypeVar

from ironic_virt.fleet.deployment import Deployment


class Severity(enum.Enum):
    """How bad a finding is; the worst first."""

    CRITICAL = "critical"
    """Two owners, or hardware that may be given away twice."""
    ERROR = "error"
    """A node or a server that can't be used, or that nobody looks after."""
    WARNING = "warning"
    """Wrong, but harmless for now."""


T = TypeVar("T")
CRITICAL, ERROR, WARNING = Severity
Problems = Iterable[tuple[str, str] | tuple[str, str, dict[str, str]]]
"""Objects, what is wrong with them, and the facts that the fix and a correction need."""
Find = Callable[[Deployment], Problems]
Table = dict[str, tuple[Severity, str, Find]]
"""By code: the severity, the fix and the check."""


def check(table: Table, code: str, severity: Severity, fix: str) -> Callable[[Find], Find]:
    """Enter the decorated check into a table.

    :param fix: what to do; ``{about}`` stands for the object, another name for that fact.
    """

    def enter(find: Find) -> Find:
        table[code] = (severity, fix, find)
        return find

    return enter


def each(
    things: Callable[[Deployment], Iterable[tuple[str, T]]],
) -> Callable[[Callable[[Deployment, T], str | None]], Find]:
    """Make a check of a function that says what is wrong with one thing."""
    return lambda wrong: (
        lambda fleet: (
            (name, words) for name, thing in things(fleet) if (words := wrong(fleet, thing))
        )
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One problem: a node, a server, a provider or a service, and what is wrong with it.

    :ivar name: the name that Ironic has for the node, if it is one and has one.
    """

    code: str
    severity: Severity
    fix: str
    about: str
    words: str
    facts: dict[str, str] = dataclasses.field(default_factory=dict, hash=False)
    name: str | None = None

    def __str__(self) -> str:
        name = f" ({self.name})" if self.name else ""
        return f"{self.code}: {self.about}{name}: {self.words}"
