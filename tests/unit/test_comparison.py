# SPDX-License-Identifier: Apache-2.0

"""What the conformance checks take for a difference between two Ironics, and what not."""

from typing import Any

import pytest

from tests.conformance.comparison import differences
from tests.conformance.normalise import Normaliser

A = "11111111-1111-4111-8111-111111111111"
B = "22222222-2222-4222-8222-222222222222"


def exchange(**fields: Any) -> dict[str, Any]:
    return {"request": "GET / at 1.1", "status": 200, "body": {}, **fields}


@pytest.mark.parametrize(
    ("fake", "real", "same"),
    [
        ({"at": "2026-01-02T03:04:05+00:00"}, {"at": "1999-11-22T10:00:00.1234+00:00"}, True),
        (f"http://fake:1/v1/nodes/{A}", f"http://real:2/v1/nodes/{B}", True),
        ([A, A, B], [B, B, A], True),
        ([A, A, B], [A, B, B], False),
        ({"a": A, "b": B}, {"b": A, "a": B}, True),
        ("one of (b, a) only", "one of (a, b) only", True),
        ("one of b, a only", "one of a, b only", False),
    ],
)
def test_identifiers_times_addresses_and_order_are_no_difference(fake, real, same) -> None:
    one, other = Normaliser("http://fake:1"), Normaliser("http://real:2")
    assert (one.value(fake) == other.value(real)) is same


def test_other_headers_than_those_of_http_itself_count() -> None:
    clean = Normaliser("http://here").headers(
        {"Server": "x", "Date": "y", "Location": "/z", "X-Any": "1"}
    )
    assert clean == {"location": "/z", "x-any": "1"}


@pytest.mark.parametrize(
    "other", [{"status": 202}, {"body": {"a": None}}, {"body": []}, {"headers": {"x": "1"}}]
)
def test_any_other_answer_is_shown_with_its_request(other: dict[str, Any]) -> None:
    assert differences([exchange(), exchange()], [exchange(), exchange()]) == ""
    shown = differences([exchange(), exchange()], [exchange(), exchange(**other)])
    assert shown.startswith("GET / at 1.1:\n--- fake\n+++ real\n")
    assert "\n+" in shown
