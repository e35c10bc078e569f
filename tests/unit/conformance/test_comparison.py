# SPDX-License-Identifier: Apache-2.0

"""What counts as a difference between the two Ironics, and what does not."""

from typing import Any

import pytest

from tests.conformance.comparison import differences
from tests.conformance.normalise import Normaliser

A = "11111111-1111-4111-8111-111111111111"
B = "22222222-2222-4222-8222-222222222222"


def exchange(**fields: Any) -> dict[str, Any]:
    return {"request": "GET / at 1.1", "status": 200, "body": {}, **fields}


def test_identifiers_times_and_addresses_are_no_difference():
    fake, real = Normaliser("http://fake:1"), Normaliser("http://real:2")
    assert fake.value(
        {"uuid": A, "at": "2026-01-02T03:04:05+00:00", "href": f"http://fake:1/v1/nodes/{A}"}
    ) == real.value(
        {"uuid": B, "at": "1999-11-22T10:00:00.1234+00:00", "href": f"http://real:2/v1/nodes/{B}"}
    )


def test_which_identifiers_are_the_same_is_a_difference():
    fake, real = Normaliser("http://here"), Normaliser("http://here")
    assert fake.value([A, A, B]) != real.value([A, B, B])
    assert fake.value(A) == real.value(A) == "<uuid 1>"


def test_the_order_of_members_is_no_difference():
    fake, real = Normaliser("http://here"), Normaliser("http://here")
    assert fake.value({"a": A, "b": B}) == real.value({"b": B, "a": A})


def test_the_order_of_names_out_of_a_set_is_no_difference():
    fake, real = Normaliser("http://here"), Normaliser("http://here")
    assert fake.text("one of (b, a) only") == real.text("one of (a, b) only")
    assert fake.text("one of b, a only") != real.text("one of a, b only")


def test_other_headers_than_those_of_http_itself_count():
    clean = Normaliser("http://here").headers(
        {"Server": "x", "Date": "y", "Location": "/z", "X-Any": "1"}
    )
    assert clean == {"location": "/z", "x-any": "1"}


def test_equal_answers_have_no_difference():
    assert differences([exchange(), exchange()], [exchange(), exchange()]) == ""


@pytest.mark.parametrize(
    "other", [{"status": 202}, {"body": {"a": None}}, {"body": []}, {"headers": {"x": "1"}}]
)
def test_any_other_answer_is_shown_with_its_request(other):
    shown = differences([exchange(), exchange()], [exchange(), exchange(**other)])
    assert shown.startswith("GET / at 1.1:\n--- fake\n+++ real\n")
    assert "\n+" in shown


def test_null_is_not_the_same_as_nothing():
    assert differences([exchange(body={"a": None})], [exchange(body={})]) != ""
