# SPDX-License-Identifier: Apache-2.0

"""The operators of extra specs."""

import itertools

import pytest
from oslo_utils import specs_matcher

from ironic_virt.request import requirements


@pytest.mark.parametrize(
    ("value", "requirement", "expected"),
    [
        # The same text, whole.
        ("uefi", "uefi", True),
        ("uefi", "bios", False),
        ("1.0", "1", False),
        ("two words", "two words", True),
        ("two", "two words", False),
        ("", "", True),
        ("uefi", "", False),
        # Numbers, as in oslo.utils if they are.
        ("many", ">= 2", False),
        ("2", ">= many", False),
        ("many", "!= 2", False),
        # Parts and lists.
        ("aes mmx sse", "<all-in> aes mmx", True),
        ("['aes', 'mmx']", "<all-in> aes mmx", True),
        ("aes", "<all-in> aes mmx", False),
        ("<or>", "<or> bios <or> uefi", False),
        ("10", "<range-in> [ 10 20 ]", True),
        ("10", "<range-in> ( 10 20 ]", False),
        ("20", "<range-in> ( 10 20 ]", True),
        ("20", "<range-in> ( 10 20 )", False),
        ("x", "<range-in> [ 10 20 ]", False),
        ("15", "<range-in> 10 20", False),
        ("15", "<range-in> [ 10 x ]", False),
        # An operator without its operand.
        ("", "==", False),
        ("==", "==", False),
        ("", "<or>", False),
        ("x", "<in>", False),
        ("x", "<all-in>", False),
        ("x", "s==", False),
        # No operator that we know: a text.
        ("=~ x", "=~ x", True),
        ("x", "=~ x", False),
    ],
)
def test_a_value_fulfils_a_requirement_or_not(value, requirement, expected) -> None:
    assert requirements.matches(value, requirement) is expected


# oslo.utils calls pyparsing by its former names.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:oslo_utils")

NUMBERS = [*map(str, range(-5, 6)), "9", "10", "0.5", "2.0", "-1.5"]
WORDS = ["a", "b", "ab", "uefi", "10", "9", "2.1", "2.1.0"]


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        # "=" is at least, as it always was.
        *((operator, NUMBERS) for operator in ("=", "==", "!=", ">=", "<=", ">", "<")),
        *((operator, WORDS) for operator in ("s==", "s!=", "s>=", "s>", "s<=", "s<", "<in>")),
        ("<or>", WORDS),
    ],
)
def test_values_compare_as_in_oslo_utils(operator: str, words: list[str]) -> None:
    for value, operand in itertools.product(words, repeat=2):
        requirement = f"{operator} {operand}"
        assert requirements.matches(value, requirement) == specs_matcher.match(value, requirement)


def test_alternatives_are_those_of_oslo_utils() -> None:
    for value, *choices in itertools.product(WORDS, repeat=4):
        requirement = " ".join(f"<or> {choice}" for choice in choices)
        assert requirements.matches(value, requirement) == (value in choices)
        assert specs_matcher.match(value, requirement) == (value in choices)
