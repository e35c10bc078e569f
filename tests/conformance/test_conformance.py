# SPDX-License-Identifier: Apache-2.0

"""Runs every check on both Ironics and compares all that they answered."""

from typing import Any

import pytest

import tests.conformance.checks  # noqa: F401 - registers them
from tests.conformance import older
from tests.conformance.comparison import FAKE, REAL, differences
from tests.conformance.conftest import ASKED, DIFFERENT, NEWEST_OF_FAKE
from tests.conformance.registry import CHECKS, Check
from tests.conformance.subject import IronicUnderTest


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.identity)
def test_both_answer_alike(check: Check, subjects, record_property) -> None:
    is_older = {subject.newest for subject in subjects.values()} != {NEWEST_OF_FAKE}
    if is_older and (why := older.never_asked(check.identity)):
        pytest.skip(f"in earlier releases {why}")
    seen: dict[str, list[dict[str, Any]]] = {}
    errors: list[str] = []
    for name, subject in subjects.items():
        ironic = IronicUnderTest(subject)
        try:
            check.run(ironic)
        except AssertionError as error:
            errors.append(f"The {name} Ironic fails the check: {error}")
        seen[name] = ironic.recorder.exchanges
        record_property(ASKED, name)
    asked = {name: len(exchanges) for name, exchanges in seen.items()}
    if not errors and len(set(asked.values())) > 1:
        errors.append(f"Not as much was asked of both, and the rest is not compared: {asked}")
    difference = ""
    if len(seen) == 2:
        difference = differences(seen[FAKE], seen[REAL], is_older=is_older)
    if len(errors) == len(seen) == 2 and not difference and is_older:
        pytest.skip("this Ironic is too old for it")
    if (difference or errors) and is_older and (why := older.reason(check.identity)):
        pytest.skip(f"in earlier releases {why}")
    if difference or (len(seen) == 2 and errors):
        record_property(DIFFERENT, DIFFERENT)
    if difference:
        errors.append(f"The fake Ironic (-) does not answer like the real one (+):\n{difference}")
    if errors:
        pytest.fail("\n".join(errors), pytrace=False)
