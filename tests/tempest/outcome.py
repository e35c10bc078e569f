# SPDX-License-Identifier: Apache-2.0

"""What became of the tests, and what of it is a surprise."""

import fnmatch
import unittest
from collections.abc import Iterable, Iterator
from typing import Any

SUITE = "ironic_tempest_plugin.tests.api."


class Outcome(unittest.TestResult):
    """What became of each test, by its name below :data:`SUITE`.

    :ivar passed: those that passed.
    :ivar broken: those that did not, with what they said.
    """

    def __init__(self) -> None:
        super().__init__()
        self.passed: set[str] = set()
        self.broken: dict[str, str] = {}

    def addSuccess(self, test: Any) -> None:  # noqa: N802 (unittest's names)
        self.passed.add(name(test))

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self.broken[name(test)] = self._exc_info_to_string(err, test)  # type: ignore[attr-defined]

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self.addFailure(test, err)


def name(test: unittest.TestCase) -> str:
    # Its tags come behind it; what fails before any test of a class is named otherwise.
    return test.id().partition("[")[0].replace(SUITE, "")


def surprises(outcome: Outcome, expected: Iterable[str]) -> Iterator[str]:
    """What is not as it is expected, a line each.

    :param expected: what does not pass, as patterns of names.
    """
    known: set[str] = set()
    for pattern in expected:
        known.update(fnmatch.filter(outcome.broken, pattern))
        for name in fnmatch.filter(outcome.passed, pattern):
            yield f"passes, and is listed as {pattern}: {name}"
        if not fnmatch.filter({*outcome.passed, *outcome.broken}, pattern):
            yield f"is listed, and is no test: {pattern}"
    for name in sorted(outcome.broken.keys() - known):
        yield f"does not pass: {name}\n{outcome.broken[name]}"
