# SPDX-License-Identifier: Apache-2.0

"""What came of a release is counted."""

from pathlib import Path

import pytest

from tests.releases import scenarios

CASES = {
    "good": "",
    "bad": "<failure/>",
    "unready": "<error/>",
    "not_here": '<skipped message="too old"/>',
}


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """One test of each outcome."""
    cases = "".join(
        f'<testcase classname="t" name="{name}">{what}</testcase>' for name, what in CASES.items()
    )
    path = tmp_path / "nova-threads-0.xml"
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return path


def test_a_failure_in_a_passed_run_has_passed_at_its_second_try(report: Path) -> None:
    again = scenarios.read(report, 0)
    assert (again.passed, again.again, again.failed) == (3, ["t::bad", "t::unready"], [])
    assert again.skipped == {"too old": 1}
    failed = scenarios.read(report, 1)
    assert (failed.passed, failed.again, failed.failed) == (1, [], ["t::bad", "t::unready"])


@pytest.mark.parametrize(("status", "failures"), [(0, 0), (1, 1), (5, 0), (-6, 1)])
def test_a_run_fails_as_pytest_does_whatever_its_tests_did(report, status, failures) -> None:
    report.write_text('<testsuites><testcase classname="t" name="good"/></testsuites>')
    assert len(scenarios.read(report, status).failed) == failures
    report.unlink()
    assert len(scenarios.read(report, status).failed) == 1
