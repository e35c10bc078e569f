# SPDX-License-Identifier: Apache-2.0

"""``cases.toml`` is true: every case of Nova's is there once, with the right verdict."""

import re
import unittest
from pathlib import Path

import pytest
from nova import conf as nova_conf

from tests.nova.upstream import listed, loading

DOCS = Path(__file__).parents[3] / "doc" / "source"
OPTIONS = ("api_max_retries", "api_retry_interval")


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, str], loading.Case]:
    """All of Nova's cases."""
    return {(case.owner, case.name): case for case in loading.all_cases()}


@pytest.fixture(scope="module")
def the_list() -> listed.Listed:
    return listed.read()


def outcome(case: loading.Case) -> unittest.TestResult:
    """Run a case, in the class that defines it or the first that inherits it."""
    kind, method = case.classes[0]
    result = unittest.TestResult()
    loading.test_case(kind, {case.name: method})(case.name).run(result)
    return result


def passes(case: loading.Case) -> bool:
    """Whether it passes, and was not skipped."""
    result = outcome(case)
    return result.testsRun == 1 and result.wasSuccessful() and not result.skipped


def test_every_case_is_in_the_list_once(the_list: listed.Listed, known) -> None:
    assert the_list.everything() == set(known)
    assert the_list.twice() == []


def test_a_case_that_is_left_out_would_not_pass(the_list: listed.Listed, known) -> None:
    options = {name: nova_conf.CONF.ironic[name] for name in OPTIONS}
    for name, reason in the_list.left_out.items():
        passing = {case for case in reason.cases if passes(known[case])}
        wrong = passing ^ (reason.cases if reason.passes else set())
        assert not wrong, f"not.{name}: these are better off elsewhere: {sorted(wrong)}"
    assert options == {name: nova_conf.CONF.ironic[name] for name in OPTIONS}


def test_each_difference_has_its_row(the_list: listed.Listed) -> None:
    table = "".join(page.read_text() for page in DOCS.glob("nova/differences*.rst"))
    for name, reason in the_list.left_out.items():
        assert reason.why, name
        if reason.row is not None:
            assert f"* - {reason.row}\n" in table, f"not.{name}"


def test_the_documentation_tells_how_many_run(the_list: listed.Listed, known) -> None:
    text = " ".join((DOCS / "contributor" / "testing_nova_and_ironic.rst").read_text().split())
    told = re.search(r"Of its (\d+) cases (\d+) run", text)
    assert told is not None
    sizes = {case: len(each.classes) for case, each in known.items()}
    running = sum(sizes[case] for case in the_list.runs)
    assert (int(told[1]), int(told[2])) == (sum(sizes.values()), running)
