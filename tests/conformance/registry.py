# SPDX-License-Identifier: Apache-2.0

"""The list of all conformance checks.

A check is a function of an :class:`~tests.conformance.subject.IronicUnderTest`.
Its name is the sentence in its docstring.  It sends requests; each is recorded
and compared between the two Ironics, so a check only has to state the status
codes that it expects, and what it is really about.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.conformance.subject import IronicUnderTest

Pace = str
QUICK: Pace = "quick"
"""A node completes every task before anybody can look."""
SLOW: Pace = "slow"
"""Hardware can be held, so that what is on its way can be looked at."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    :ivar name: what must be the case, as a sentence.
    :ivar area: the module that it is in.
    :ivar run: asks the Ironic that it is given.
    :ivar pace: how quick that Ironic's hardware has to be.
    """

    name: str
    area: str
    run: Callable[[IronicUnderTest], None]
    pace: Pace

    @property
    def identity(self) -> str:
        """Unique, and stable as long as the name is."""
        return f"{self.area}: {self.name}"


CHECKS: list[Check] = []


def _register(function: Callable[..., None], name: str, pace: Pace, *arguments: object) -> None:
    area = function.__module__.rpartition(".")[2]
    check = Check(name, area, lambda ironic: function(ironic, *arguments), pace)
    if check.identity in {known.identity for known in CHECKS}:
        raise ValueError(f"two checks are called {check.identity!r}")
    CHECKS.append(check)


def _sentence(function: Callable[..., None]) -> str:
    if not function.__doc__:
        raise ValueError(f"check {function.__name__} has no sentence that says what it checks")
    return function.__doc__.strip().rstrip(".")


def check(function: Callable[[IronicUnderTest], None]) -> Callable[[IronicUnderTest], None]:
    """Register a check that needs no more than a quick Ironic."""
    _register(function, _sentence(function), QUICK)
    return function


def slow_check(function: Callable[[IronicUnderTest], None]) -> Callable[[IronicUnderTest], None]:
    """Register a check that looks at what is on its way."""
    _register(function, _sentence(function), SLOW)
    return function


def check_each(
    *cases: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a check for each case, which replaces ``{}`` in the sentence.

    A tuple is passed as several arguments; the first goes into the sentence.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for case in cases:
            arguments: Sequence[object] = case if isinstance(case, tuple) else (case,)
            name = _sentence(function).format(arguments[0])
            _register(function, name, QUICK, *arguments)
        return function

    return decorate
