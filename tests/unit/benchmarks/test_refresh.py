# SPDX-License-Identifier: Apache-2.0

"""What the refreshes of a period come to."""

from __future__ import annotations

from benchmarks import refresh


def one(amount: float) -> dict[str, float]:
    return dict.fromkeys(refresh.WHAT, amount)


def test_a_period_is_its_full_list_the_typical_other_refresh_and_the_sum_of_all() -> None:
    figures = refresh.over_a_period([one(100), *[one(2)] * 4, one(50), *[one(2)] * 4])
    assert figures["full_bytes"] == 100
    assert figures["delta_bytes"] == 2
    assert figures["period_bytes"] == 100 + 50 + 8 * 2
    assert figures.keys() <= refresh.UNITS.keys()
