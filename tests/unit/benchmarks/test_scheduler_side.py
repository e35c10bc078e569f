# SPDX-License-Identifier: Apache-2.0

"""Our side of the benchmark ``scheduler`` does what it says."""

from __future__ import annotations

from benchmarks import scheduler_sides


def test_each_request_fits_the_nodes_of_its_kind_and_no_others() -> None:
    side = scheduler_sides.Ours(nodes=240, picks=24)
    assert side.fitting() == [20] * scheduler_sides.KINDS


def test_what_a_round_has_picked_is_free_again_after_it() -> None:
    side = scheduler_sides.Ours(nodes=24, picks=100)
    figures = side.picks()
    assert figures.keys() == {"pick", "wall"}
    assert side.fitting() == [2] * scheduler_sides.KINDS
