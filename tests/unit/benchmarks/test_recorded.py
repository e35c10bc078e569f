# SPDX-License-Identifier: Apache-2.0

"""What is recorded in ``benchmarks/results``, and shown in the documentation."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from benchmarks import cli, registry, results, table

DOCUMENT = pathlib.Path(__file__).parents[3] / "doc" / "source" / "contributor" / "benchmarks.rst"

RECORDED = {name: one for name, one in registry.BENCHMARKS.items() if one.recorded}

pytestmark = pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)


def content(recorded: registry.Benchmark) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((cli.RECORDED / f"{recorded.name}.json").read_text())
    return found


def test_what_is_recorded_does_what_is_required(recorded: registry.Benchmark) -> None:
    assert not results.shortfalls(content(recorded), recorded.required, recorded.limits)


def test_the_medians_are_those_of_the_rounds(recorded: registry.Benchmark) -> None:
    found = content(recorded)
    outcome = results.Outcome(
        recorded.name,
        ours=found["rounds"]["ours"],
        peer=found["rounds"]["peer"],
        tuned=found["rounds"].get("tuned", ()),
        units=found["units"],
        setting=found["setting"],
    )
    summary = outcome.summary()
    for side in summary.keys() - {"benchmark"}:
        assert summary[side] == pytest.approx(found[side], rel=0.01)
    assert len(found["rounds"]["ours"]) >= cli.FEWEST_ROUNDS


def test_the_table_in_the_documentation_is_that_of_the_record(
    recorded: registry.Benchmark,
) -> None:
    rows = table.rows(content(recorded), recorded.required, recorded.limits)
    assert (cli.RECORDED / f"{recorded.name}.csv").read_text() == table.as_csv(rows)
    assert f"results/{recorded.name}.csv" in DOCUMENT.read_text()


def test_each_plot_is_there_and_in_the_documentation(recorded: registry.Benchmark) -> None:
    assert recorded.plots
    for plot in recorded.plots:
        for suffix in ("png", "svg"):
            assert (cli.RECORDED / f"{plot.name}.{suffix}").stat().st_size > 1000
        assert f"results/{plot.name}.svg" in DOCUMENT.read_text()
