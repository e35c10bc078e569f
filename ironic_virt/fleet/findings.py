# SPDX-License-Identifier: Apache-2.0

"""What the doctor may find: a registry of kinds, and the finding itself.

A kind says what is wrong, what it means, what mends it and how to provoke it; the
documentation's table is made from it.  A check is a function that yields the objects of which
it is so.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator

from ironic_virt.fleet.deployment import Deployment


class Severity(enum.Enum):
    """How bad a finding is; the worst first."""

    CRITICAL = "critical"
    """Two owners, or hardware that may be given away twice."""
    ERROR = "error"
    """A node or a server that can't be used, or that nobody looks after."""
    WARNING = "warning"
    """Wrong, and harmless for now."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding.

    :ivar code: its name on the command line.
    :ivar meaning: what it means for the operator.
    :ivar mend: the command or the act that mends it; ``{name}`` stands for what the finding
        says of its object.
    :ivar provoke: how to bring it about.
    """

    code: str
    severity: Severity
    meaning: str
    mend: str
    provoke: str


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One object of which a kind of finding holds.

    :ivar about: the object: a node, a server, a provider or a service.
    :ivar words: what is wrong with it.
    :ivar mend: the kind's, with the object's names in it.
    :ivar facts: what a correction needs to know.
    """

    kind: Kind
    about: str
    words: str
    mend: str
    facts: dict[str, str] = dataclasses.field(default_factory=dict, hash=False)


Check = Callable[[Deployment], Iterable[Finding]]
Found = Callable[..., Finding]
_Body = Callable[[Deployment, Found], Iterator[Finding]]

_CHECKS: dict[str, tuple[Kind, Check]] = {}


def check(
    code: str, severity: Severity, *, meaning: str, mend: str, provoke: str
) -> Callable[[_Body], Check]:
    """Register a check under a code; its function is given what makes a finding of it."""

    def registered(body: _Body) -> Check:
        kind = Kind(code, severity, meaning, mend, provoke)

        def found(about: str, words: str, **facts: str) -> Finding:
            return Finding(kind, about, words, mend.format(about=about, **facts), facts)

        def run(deployment: Deployment) -> Iterable[Finding]:
            return body(deployment, found)

        if code in _CHECKS:
            raise ValueError(f"two checks have the code {code}")
        _CHECKS[code] = kind, run
        return run

    return registered


def kinds() -> list[Kind]:
    """All kinds that are registered, in the order of their modules."""
    return [kind for kind, _ in _CHECKS.values()]


def run(deployment: Deployment, codes: Iterable[str] = ()) -> list[Finding]:
    """All findings; the worst first, and otherwise in the order of the checks.

    :param codes: only of these kinds.
    :raises KeyError: there is no such kind.
    """
    chosen = list(codes) or list(_CHECKS)
    found = [one for code in chosen for one in _CHECKS[code][1](deployment)]
    order = list(Severity)
    return sorted(found, key=lambda one: order.index(one.kind.severity))
