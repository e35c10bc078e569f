# SPDX-License-Identifier: Apache-2.0

"""The operators of extra specs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
        # Numbers; "=" is at least, as it always was.
        ("2", "= 2", True),
        ("3", "= 2", True),
        ("1", "= 2", False),
        ("2.0", "== 2", True),
        ("3", "== 2", False),
        ("3", "!= 2", True),
        ("2", "!= 2", False),
        ("10", ">= 9", True),
        ("8", ">= 9", False),
        ("10", "<= 9", False),
        ("9", "<= 9", True),
        ("10", "> 9", True),
        ("9", "> 9", False),
        ("8", "< 9", True),
        ("9", "< 9", False),
        ("many", ">= 2", False),
        ("2", ">= many", False),
        ("many", "!= 2", False),
        # Texts.
        ("2.1.0", "s== 2.1.0", True),
        ("2.1", "s== 2.1.0", False),
        ("2.1", "s!= 2.1.0", True),
        ("b", "s> a", True),
        ("a", "s> a", False),
        ("a", "s>= a", True),
        ("10", "s< 9", True),
        ("9", "s< 9", False),
        ("9", "s<= 9", True),
        # Parts and lists.
        ("gcc-13", "<in> gcc", True),
        ("clang", "<in> gcc", False),
        ("aes mmx sse", "<all-in> aes mmx", True),
        ("['aes', 'mmx']", "<all-in> aes mmx", True),
        ("aes", "<all-in> aes mmx", False),
        ("uefi", "<or> bios <or> uefi", True),
        ("uefi", "<or> bios", False),
        ("bios", "<or> bios", True),
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
def test_a_value_fulfils_a_requirement_or_not(
    value: str, requirement: str, expected: bool
) -> None:
    assert requirements.matches(value, requirement) is expected


# oslo.utils calls pyparsing by its former names.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:oslo_utils")

NUMBERS = st.integers(-5, 5).map(str) | st.sampled_from(["0.5", "2.0", "-1.5"])
WORDS = st.sampled_from(["a", "b", "ab", "uefi", "10", "9"])


@given(
    operator=st.sampled_from(["=", "==", "!=", ">=", "<=", ">", "<"]),
    value=NUMBERS,
    operand=NUMBERS,
)
def test_numbers_compare_as_in_oslo_utils(operator: str, value: str, operand: str) -> None:
    requirement = f"{operator} {operand}"
    assert requirements.matches(value, requirement) == specs_matcher.match(value, requirement)


@given(
    operator=st.sampled_from(["s==", "s!=", "s>=", "s>", "s<=", "s<", "<in>"]),
    value=WORDS,
    operand=WORDS,
)
def test_texts_compare_as_in_oslo_utils(operator: str, value: str, operand: str) -> None:
    requirement = f"{operator} {operand}"
    assert requirements.matches(value, requirement) == specs_matcher.match(value, requirement)


@given(value=WORDS, choices=st.lists(WORDS, min_size=1, max_size=4))
def test_alternatives_are_those_of_oslo_utils(value: str, choices: list[str]) -> None:
    requirement = " ".join(f"<or> {choice}" for choice in choices)
    assert requirements.matches(value, requirement) == specs_matcher.match(value, requirement)
