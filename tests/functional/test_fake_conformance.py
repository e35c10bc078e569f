# SPDX-License-Identifier: Apache-2.0

"""The fake Ironic passes the checks of the conformance suite, which says what Ironic does.

``make conformance`` compares its answers with those of a real one; here each check's own
expectations do.
"""

import contextlib

import pytest

from ironic_virt.testing.fake_ironic.settings import MAX_VERSION

# So that an assert in a check shows what it compared.
pytest.register_assert_rewrite("tests.conformance.checks")

import tests.conformance.checks  # noqa: F401, E402 - registers them
from tests.conformance.registry import CHECKS  # noqa: E402
from tests.conformance.subject import IronicUnderTest, Subject  # noqa: E402
from tests.conformance.subjects import fake_subject  # noqa: E402

NEWEST = ".".join(map(str, MAX_VERSION))


@pytest.mark.parametrize("area", sorted({check.area for check in CHECKS}))
def test_the_fake_ironic_passes_the_checks_of(area: str) -> None:
    failed = []
    with contextlib.ExitStack() as stack:
        subjects: dict[str, Subject] = {}
        for check in (check for check in CHECKS if check.area == area):
            if check.pace not in subjects:
                subjects[check.pace] = stack.enter_context(fake_subject(check.pace, NEWEST))
            try:
                check.run(IronicUnderTest(subjects[check.pace]))
            except AssertionError as error:
                failed.append(f"{check.name}: {error}")
    assert failed == []
