# SPDX-License-Identifier: Apache-2.0

"""What is recorded in ``benchmarks/results``, and shown in the documentation."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from benchmarks import cli, nova, plots, registry, results, table

PAGES = pathlib.Path(__file__).parents[3] / "doc" / "source" / "contributor"
DOCUMENTED = "".join(page.read_text() for page in PAGES.glob("benchmarks*.rst"))

RECORDED = {name: one for name, one in registry.BENCHMARKS.items() if one.recorded}

each = pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)


def content(recorded: registry.Benchmark) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((cli.RECORDED / f"{recorded.name}.json").read_text())
    return found


@each
def test_what_is_recorded_does_what_is_required(recorded: registry.Benchmark) -> None:
    assert not results.shortfalls(content(recorded), recorded.required, recorded.limits)


@each
def test_the_medians_are_those_of_the_rounds(recorded: registry.Benchmark) -> None:
    found = content(recorded)
    outcome = results.Outcome(
        recorded.name,
        ours=found["rounds"]["ours"],
        peer=found["rounds"]["peer"],
        tuned=found["rounds"].get("tuned", ()),
        pools=found["rounds"].get("pools", ()),
        units=found["units"],
        setting=found["setting"],
    )
    summary = outcome.summary()
    for side in summary.keys() - {"benchmark"}:
        assert summary[side] == pytest.approx(found[side], rel=0.01)
    assert len(found["rounds"]["ours"]) >= cli.FEWEST_ROUNDS


@each
def test_the_table_in_the_documentation_is_that_of_the_record(
    recorded: registry.Benchmark,
) -> None:
    rows = table.rows(content(recorded), recorded.required, recorded.limits)
    assert (cli.RECORDED / f"{recorded.name}.csv").read_text() == table.as_csv(rows)
    assert f"results/{recorded.name}.csv" in DOCUMENTED


@each
def test_each_plot_is_there_and_in_the_documentation(recorded: registry.Benchmark) -> None:
    assert recorded.plots
    for plot in recorded.plots:
        assert (cli.RECORDED / f"{plot.name}.svg").stat().st_size > 1000
        assert f"results/{plot.name}.svg" in DOCUMENTED


def test_the_overview_is_drawn_when_all_of_its_benchmarks_are_recorded(
    tmp_path: pathlib.Path,
) -> None:
    overview = tmp_path / "overview.svg"
    round_ = dict.fromkeys(nova.UNITS, 1.0)
    for name in registry.RELEASES:
        assert not overview.exists()
        outcome = results.Outcome(name, [round_], [round_], nova.UNITS, {}, pools=[round_])
        results.write(results.record(outcome), tmp_path)
        assert cli.main([name, "--redraw", "--results", str(tmp_path)]) == 0
    assert overview.exists()
    drawn = {side for side in plots.SIDES if plots._COLOURS[side].lower() in overview.read_text()}
    assert drawn == {"ours", "peer", "pools"}
