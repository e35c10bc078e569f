# SPDX-License-Identifier: Apache-2.0

"""The list of what does not pass on the fake Ironic is held against what happens."""

import unittest

import pytest

from tests.tempest.outcome import SUITE, Outcome, surprises


class Named(unittest.TestCase):
    def __init__(self, name: str, does: str = "pass_") -> None:
        super().__init__(does)
        self._name = name

    def id(self) -> str:
        return f"{SUITE}{self._name}[id-1]"

    def pass_(self) -> None:
        """Pass."""

    def fail_(self) -> None:
        raise AssertionError("broken")


@pytest.fixture
def outcome():
    outcome = Outcome()
    unittest.TestSuite([Named("a.one"), Named("a.two", "fail_"), Named("b.one", "fail_")]).run(
        outcome
    )
    return outcome


def test_nothing_is_a_surprise_if_just_the_listed_tests_do_not_pass(outcome) -> None:
    assert not list(surprises(outcome, ["a.two", "b.*"]))


@pytest.mark.parametrize(
    ("listed", "surprise"),
    [
        (["a.two"], "does not pass: b.one"),
        (["a.*", "b.*"], "passes, and is listed as a.*: a.one"),
        (["a.two", "b.*", "c.*"], "is listed, and is no test: c.*"),
    ],
)
def test_each_difference_from_the_list_is_a_surprise(outcome, listed, surprise) -> None:
    (line,) = surprises(outcome, listed)
    assert line.splitlines()[0] == surprise
