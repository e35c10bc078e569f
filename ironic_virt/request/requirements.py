# SPDX-License-Identifier: Apache-2.0

"""The operators of extra specs: ``>= 2``, ``<or> uefi <or> bios``, ``s== 1.10``.

They are Nova's, and the additional ones of oslo.utils' ``specs_matcher`` (``<``, ``>``,
``<range-in>``).  That module isn't used: it parses each requirement every time by a grammar of
pyparsing, which costs more than all the rest of a request; of a requirement without an operator
it compares only the first word, where Nova compares the whole; and its ``<all-in>`` fails for a
value that is not a list literal.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence

Requirement = Callable[[str], bool]

_NUMBERS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s>=": operator.ge,
    "s>": operator.gt,
    "s<=": operator.le,
    "s<": operator.lt,
    "<in>": operator.contains,
}
_OPERATORS = {*_NUMBERS, *_TEXTS, "<or>", "<all-in>", "<range-in>"}


def matches(value: str, requirement: str) -> bool:
    """Whether a value fulfils a requirement.

    A requirement that doesn't start with an operator is fulfilled by the same text.
    A comparison of numbers is not fulfilled where one isn't a number, and no
    operator is without its operand.
    """
    return compiled(requirement)(value)


def is_text(requirement: str) -> bool:
    """Whether a requirement has no operator, so that only the same text fulfils it."""
    return not _OPERATORS.intersection(requirement.split()[:1])


@functools.lru_cache(maxsize=1024)
def compiled(requirement: str) -> Requirement:
    """The requirement as a function of the value; see :func:`matches`."""
    name, *words = requirement.split() or [""]
    if name == "<or>":
        # Every second word repeats the operator.
        return frozenset(words[::2]).__contains__
    if name == "<all-in>":
        return _all_in(words)
    if name == "<range-in>":
        return _range_in(words)
    if name in _NUMBERS:
        return _number(_NUMBERS[name], words)
    if name in _TEXTS:
        compare, operand = _TEXTS[name], words[0] if words else None
        return lambda value: operand is not None and compare(value, operand)
    return requirement.__eq__


def _never(value: str) -> bool:
    return False


def _all_in(words: Sequence[str]) -> Requirement:
    if not words:
        return _never
    return lambda value: all(word in value for word in words)


def _number(compare: Callable[[float, float], bool], words: Sequence[str]) -> Requirement:
    operand = _float(words[0]) if words else None
    if operand is None:
        return _never

    def fulfilled(value: str) -> bool:
        number = _float(value)
        return number is not None and compare(number, operand)

    return fulfilled


def _range_in(words: Sequence[str]) -> Requirement:
    if len(words) != 4 or words[0] not in "[(" or words[3] not in "])":
        return _never
    lower = _number(operator.ge if words[0] == "[" else operator.gt, words[1:2])
    upper = _number(operator.le if words[3] == "]" else operator.lt, words[2:3])
    return lambda value: lower(value) and upper(value)


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
