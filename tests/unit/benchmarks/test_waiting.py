# SPDX-License-Identifier: Apache-2.0

"""Whose a request is, and what is told of a wait."""

from __future__ import annotations

import pytest

from benchmarks import waiting
from ironic_virt.testing.fake_ironic.journal import Entry

NODE = "11111111-1111-4111-8111-111111111111"
INSTANCE = "22222222-2222-4222-8222-222222222222"
OTHER = "33333333-3333-4333-8333-333333333333"
OWNERS = {"ours-2": "ours-2", NODE: "ours-2", INSTANCE: "ours-2", OTHER: "peer-2"}


# -- whose a request is -------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "query", "owner"),
    [
        ("/v1/nodes", "fields=uuid&shard=ours-2&provision_state=deploying", "ours-2"),
        (f"/v1/nodes/{NODE}", "fields=uuid,name", "ours-2"),
        ("/v1/nodes", f"fields=uuid%2Ctraits&instance_uuid={INSTANCE}", "ours-2"),
        (f"/v1/nodes/{OTHER}/states", "", "peer-2"),
        ("/v1/nodes", f"marker={NODE}&shard=ours-2", "ours-2"),
        ("/v1/nodes", f"marker={OTHER}&shard=ours-2", None),
        ("/v1/nodes", "provision_state=deploying", None),
        ("/v1", "", None),
    ],
)
def test_a_request_is_that_side_s_whose_shard_node_or_instance_it_names(
    path: str, query: str, owner: str | None
) -> None:
    assert waiting.whose(path, query, OWNERS) == owner


def test_what_is_nobody_s_is_kept_and_not_counted() -> None:
    tally = waiting.Tally(OWNERS)
    for path in (f"/v1/nodes/{NODE}", f"/v1/nodes/{NODE}", f"/v1/nodes/{OTHER}", "/v1/drivers"):
        tally.add(Entry("GET", path, "limit=1", "1.82", None, 200, None, 0.0))
    assert dict(tally.counts) == {"ours-2": 2, "peer-2": 1}
    assert tally.strays == ["GET /v1/drivers?limit=1"]


def test_what_changes_something_is_kept_also_from_before_the_counting() -> None:
    tally = waiting.Tally(OWNERS)
    for method, path in (("GET", "/v1"), ("PATCH", f"/v1/nodes/{NODE}")):
        tally.add(Entry(method, path, "", "1.82", None, 200, None, 0.0))
    tally.begin()
    tally.add(Entry("GET", f"/v1/nodes/{NODE}", "", "1.82", None, 200, None, 0.0))
    assert dict(tally.counts) == {"ours-2": 1}
    assert not tally.strays
    assert tally.changes == [f"PATCH /v1/nodes/{NODE}?"]


# -- what is told -------------------------------------------------------------------


def test_the_figures_are_the_total_the_median_and_what_all_but_a_few_are_below() -> None:
    delays = [float(number) for number in range(1, 101)]
    assert waiting.figures(321, delays[::-1]) == {
        "requests": 321.0,
        "delay": 50.5,
        "delay_95": 95.0,
    }
    assert set(waiting.figures(321, delays)) == set(waiting.UNITS)
