# SPDX-License-Identifier: Apache-2.0

"""Plots: that both sides, units and labels are there, and that a plot can be made again."""

from __future__ import annotations

import pathlib
from typing import Any

from benchmarks import plots
from benchmarks.plots import Panel, Plot

CURVE = Plot(
    "example",
    "Costs by size",
    (
        Panel(
            "Time",
            {"full": "full list", "steady": "in between"},
            only={"steady": "ours"},
        ),
    ),
    along="nodes",
    x="log",
)
BARS = Plot("bars", "Costs", (Panel("Time", {"full": "a full list"}),))


def point(at: float, ours: float, peer: float | None) -> dict[str, Any]:
    found = {"at": at, "ours": {"full": ours, "steady": ours / 10}, "peer": {}}
    if peer is not None:
        found["peer"] = {"full": peer, "steady": peer}
    return found


CONTENT = {
    "units": {"full": "seconds on the wall", "steady": "seconds on the wall"},
    "ours": {"full": 0.5},
    "peer": {"full": 50.0},
    "points": [point(100, 0.002, 0.2), point(1000, 0.02, 2.0), point(10_000, 0.2, None)],
}


def test_a_curve_names_sides_figures_axes_and_units(tmp_path: pathlib.Path) -> None:
    text = plots.draw(CURVE, CONTENT, tmp_path / "new").read_text()
    for words in (
        "Costs by size",
        "ironic_virt, full list",
        "ironic_virt, in between",
        "Nova's in-tree driver, full list",
        ">nodes<",
        ">seconds<",
        ">10,000<",
        "100 ms",
    ):
        assert words in text
    assert "Nova's in-tree driver, in between" not in text


def test_bars_carry_their_values(tmp_path: pathlib.Path) -> None:
    text = plots.draw(BARS, CONTENT, tmp_path).read_text()
    for words in ("a full list", "500 ms", "50 s", "ironic_virt", "Nova's in-tree driver"):
        assert words in text


def test_a_tuned_peer_is_drawn_where_it_was_measured(tmp_path: pathlib.Path) -> None:
    without = plots.draw(BARS, CONTENT, tmp_path).read_text()
    assert "in-tree driver, tuned" not in without
    text = plots.draw(BARS, CONTENT | {"tuned": {"full": 45.0}}, tmp_path).read_text()
    for words in ("Nova's in-tree driver, tuned", "500 ms", "50 s", "45 s"):
        assert words in text


def test_the_same_record_gives_the_same_file(tmp_path: pathlib.Path) -> None:
    first = plots.draw(CURVE, CONTENT, tmp_path / "first")
    second = plots.draw(CURVE, CONTENT, tmp_path / "second")
    assert first.read_bytes() == second.read_bytes()
