# SPDX-License-Identifier: Apache-2.0

"""What is recorded in ``benchmarks/results``, and shown in the documentation."""

import json
import pathlib
from typing import Any

import pytest

from benchmarks import cli, registry, results, table

PAGES = pathlib.Path(__file__).parents[2] / "doc" / "source" / "contributor"
DOCUMENTED = "".join(page.read_text() for page in PAGES.glob("benchmarks*.rst"))

RECORDED = {name: one for name, one in registry.BENCHMARKS.items() if one.recorded}

each = pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)


def content(recorded: registry.Benchmark) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((cli.RECORDED / f"{recorded.name}.json").read_text())
    return found


@each
def test_a_record_does_what_is_required_by_its_medians(recorded) -> None:
    record = content(recorded)
    assert not results.shortfalls(record, recorded.required, recorded.limits)
    outcome = results.Outcome(
        recorded.name,
        ours=record["rounds"]["ours"],
        peer=record["rounds"]["peer"],
        tuned=record["rounds"].get("tuned", ()),
        pools=record["rounds"].get("pools", ()),
        units=record["units"],
        setting=record["setting"],
    )
    summary = outcome.summary()
    for side in summary.keys() - {"benchmark"}:
        assert summary[side] == pytest.approx(record[side], rel=0.01)
    assert len(record["rounds"]["ours"]) >= cli.FEWEST_ROUNDS


@each
def test_the_documentation_shows_the_records_table_and_plots(recorded) -> None:
    rows = table.rows(content(recorded), recorded.required, recorded.limits)
    assert (cli.RECORDED / f"{recorded.name}.csv").read_text() == table.as_csv(rows)
    assert f"results/{recorded.name}.csv" in DOCUMENTED
    assert recorded.plots
    for plot in recorded.plots:
        assert (cli.RECORDED / f"{plot.name}.svg").stat().st_size > 1000
        assert f"results/{plot.name}.svg" in DOCUMENTED
