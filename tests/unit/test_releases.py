# SPDX-License-Identifier: Apache-2.0

"""What came of a release is counted, and written into the table."""

import csv
import datetime
from pathlib import Path

import pytest

from tests.releases import catalogue, record, scenarios

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


def test_the_table_keeps_the_row_of_a_release_that_failed_now(tmp_path: Path) -> None:
    table = tmp_path / "releases.csv"
    known = catalogue.releases()
    newest, oldest = known["2026.2"], known["2024.1"]
    before, today = datetime.date(2026, 1, 1), datetime.date(2026, 2, 2)
    record.write(table, [record.Result(newest, "threads", scenarios=1)], before)
    results = [
        record.Result(newest, "threads", scenarios=2, failed=["t::bad"]),
        record.Result(newest, "eventlet", scenarios=3, skipped={"too old": 1}),
        record.Result(oldest, "eventlet", scenarios=4, again=["t::bad"]),
    ]
    record.write(table, results, today)
    with table.open(newline="") as file:
        rows = [
            (row["Release"], row["Threading"], row["Scenarios"], row["Date"])
            for row in csv.DictReader(file)
        ]
    assert rows == [
        ("2024.1", "eventlet", "4 passed, 1 in any part at a second try", "2026-02-02"),
        ("2026.2", "threads", "1 passed", "2026-01-01"),
        ("2026.2", "eventlet", "3 passed, 1 not for it", "2026-02-02"),
    ]
