# SPDX-License-Identifier: Apache-2.0

"""What the doctor may find: tables of checks, and the finding itself.

A check is one row of a table: its code, how bad it is, what mends it, and a function that yields
the objects of which it is so, each with what is wrong.
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
    """Wrong, and harmless for now."""


T = TypeVar("T")
CRITICAL, ERROR, WARNING = Severity
Problem = tuple[str, str] | tuple[str, str, dict[str, str]]
"""An object, what is wrong with it, and the names that the fix and a correction need."""
Problems = Iterable[Problem]
Table = dict[str, tuple[Severity, str, Callable[[Deployment], Problems]]]
"""By code: how bad it is, the fix, and what looks for it.  ``{name}`` in a fix is one of the
problem's names; ``{about}`` is the object."""


def each(
    things: Callable[[Deployment], Iterable[tuple[str, T]]],
    wrong: Callable[[Deployment, T], str | None],
) -> Callable[[Deployment], Problems]:
    """A check that looks at one thing at a time; ``wrong`` says what is wrong with it."""
    return lambda fleet: (
        (name, words) for name, one in things(fleet) if (words := wrong(fleet, one))
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One problem: a node, a server, a provider or a service, and what is wrong with it."""

    code: str
    severity: Severity
    fix: str
    about: str
    words: str
    facts: dict[str, str] = dataclasses.field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.code}: {self.about}: {self.words}"

    @property
    def mend(self) -> str:
        """The command or the act that mends it, with the object's names in it."""
        return self.fix.format(about=self.about, **self.facts)
