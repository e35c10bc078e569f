# SPDX-License-Identifier: Apache-2.0

"""Says at the end how much was tried, and what the slowest of it took."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.fuzz import malformed

_FUZZED = "fuzzed"


@pytest.fixture(autouse=True)
def _counted(record_property: Callable[[str, Any], None]) -> Iterator[None]:
    malformed.FIGURES.clear()
    yield
    figures = malformed.FIGURES
    record_property(_FUZZED, (len(figures), max(figures, default=0.0)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the sum."""
    # Of the report of what comes after a test: the fixture adds to that one.
    found = [
        value
        for report in terminalreporter.getreports("")
        for name, value in report.user_properties
        if name == _FUZZED
    ]
    if found and malformed.EXAMPLES:
        answers, slowest = sum(count for count, _ in found), max(took for _, took in found)
        terminalreporter.write_line(
            f"fuzz: {answers} malformed answers and files, the slowest took {slowest:.3f} s"
            " of the processor"
        )
