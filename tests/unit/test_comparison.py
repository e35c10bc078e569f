# SPDX-License-Identifier: Apache-2.0

"""What the conformance checks say of a difference between two Ironics."""

from typing import Any

import pytest

from tests.conformance.comparison import differences


def exchange(**fields: Any) -> dict[str, Any]:
    return {"request": "GET / at 1.1", "status": 200, "body": {}, **fields}


@pytest.mark.parametrize(
    "other", [{"status": 202}, {"body": {"a": None}}, {"body": []}, {"headers": {"x": "1"}}]
)
def test_any_other_answer_is_shown_with_its_request(other: dict[str, Any]) -> None:
    assert differences([exchange(), exchange()], [exchange(), exchange()]) == ""
    shown = differences([exchange(), exchange()], [exchange(), exchange(**other)])
    assert shown.startswith("GET / at 1.1:\n--- fake\n+++ real\n")
    assert "\n+" in shown
