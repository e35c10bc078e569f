# SPDX-License-Identifier: Apache-2.0

"""Turns, medians, ratios, and how a run ends."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import cli, registry, results, rounds
from benchmarks.side import Side, SideFailed

ECHO = "tests.unit.benchmarks.echo_side:Echo"


def outcome(name: str = "example") -> results.Outcome:
    return results.Outcome(
        name,
        ours=[
            {"cpu": 1.0, "memory": 10.0},
            {"cpu": 3.0, "memory": 10.0},
            {"cpu": 2.0, "memory": 1},
        ],
        peer=[{"cpu": 100.0, "memory": 30.0}, {"cpu": 50.0, "memory": 20.0}] * 2,
        units={"cpu": "seconds", "memory": "bytes"},
        setting={"nodes": 3},
    )


# -- rounds -------------------------------------------------------------------------


def test_the_sides_take_turns_and_take_turns_at_beginning() -> None:
    order: list[str] = []

    def side(name: str) -> Callable[[], rounds.Figures]:
        return lambda: order.append(name) or {"at": float(len(order))}

    found = rounds.take_turns({"ours": side("o"), "peer": side("p")}, 3)
    assert "".join(order) == "oppoop"
    assert found["ours"] == [{"at": 1.0}, {"at": 4.0}, {"at": 5.0}]


def test_a_median_is_not_moved_by_one_bad_round() -> None:
    assert rounds.medians([{"s": 1.0}, {"s": 900.0}, {"s": 2.0}]) == {"s": 2.0}


def test_rounds_of_different_figures_are_joined_in_order() -> None:
    joined = rounds.joined([{"a": 1.0}, {"a": 2.0}], [{"b": 3.0}, {"b": 4.0}])
    assert joined == [{"a": 1.0, "b": 3.0}, {"a": 2.0, "b": 4.0}]


def test_rounds_that_are_missing_are_noticed() -> None:
    with pytest.raises(ValueError, match="shorter"):
        rounds.joined([{"a": 1.0}, {"a": 2.0}], [{"b": 3.0}])


# -- results ------------------------------------------------------------------------


def test_the_line_has_medians_and_the_peer_s_divided_by_ours() -> None:
    line = results.line(outcome())
    assert "\n" not in line
    assert json.loads(line) == {
        "benchmark": "example",
        "ours": {"cpu": 2.0, "memory": 10.0},
        "peer": {"cpu": 75.0, "memory": 25.0},
        "ratio": {"cpu": 37.5, "memory": 2.5},
    }


def test_further_sides_have_medians_rounds_and_ratios_of_their_own() -> None:
    further = dataclasses.replace(
        outcome(), tuned=[{"cpu": 5.0}, {"cpu": 4.0}, {"cpu": 4.0}], pools=[{"cpu": 0.5}]
    )
    found = results.record(further)
    # The tuned peer's divided by ours; the peer's divided by ours in pools.
    assert (found["tuned"], found["tuned_ratio"]) == ({"cpu": 4.0}, {"cpu": 2.0})
    assert (found["pools"], found["pools_ratio"]) == ({"cpu": 0.5}, {"cpu": 150.0})
    assert found["rounds"]["tuned"] == [{"cpu": 5.0}, {"cpu": 4.0}, {"cpu": 4.0}]
    without = results.record(outcome())
    assert found["ratio"] == without["ratio"]
    assert "tuned" not in without
    assert "tuned" not in without["rounds"]


@pytest.mark.parametrize(
    ("required", "names"),
    [
        ({}, []),
        ({"cpu": 37.5}, []),
        ({"cpu": 38}, ["cpu"]),
        ({"speed": 1, "memory": 3}, ["speed", "memory"]),
    ],
)
def test_a_ratio_that_falls_short_or_is_missing_is_named(
    required: dict[str, float], names: list[str]
) -> None:
    found = results.shortfalls(outcome().summary(), required)
    assert len(found) == len(names)
    for text, name in zip(found, names, strict=True):
        assert f"ratio {name} is" in text


@pytest.mark.parametrize(
    ("limits", "names"), [({"cpu": 2.0}, []), ({"cpu": 1.9, "speed": 5}, ["cpu", "speed"])]
)
def test_a_figure_of_ours_above_its_limit_or_missing_is_named(
    limits: dict[str, float], names: list[str]
) -> None:
    found = results.shortfalls(outcome().summary(), {}, limits)
    assert [text.split()[0] for text in found] == names


def test_a_curve_has_medians_at_each_point_and_stays_open_where_the_peer_was_not_measured() -> (
    None
):
    curve = dataclasses.replace(
        outcome(),
        along="nodes",
        points=[
            results.Point(10, ours=[{"cpu": 1.0}], peer=[{"cpu": 5.0}, {"cpu": 7.0}]),
            results.Point(20, ours=[{"cpu": 2.0}], peer=[]),
        ],
    )
    first, second = results.record(curve)["points"]
    assert (first["at"], first["peer"], first["ratio"]) == (10, {"cpu": 6.0}, {"cpu": 6.0})
    assert (second["ours"], second["peer"], second["ratio"]) == ({"cpu": 2.0}, {}, {})
    assert results.record(curve)["along"] == "nodes"


def test_the_file_has_every_round_and_where_it_was_run(tmp_path: pathlib.Path) -> None:
    path = results.write(results.record(outcome()), tmp_path / "results")
    assert path == tmp_path / "results" / "example.json"
    content = json.loads(path.read_text())
    assert content["ratio"] == {"cpu": 37.5, "memory": 2.5}
    assert len(content["rounds"]["ours"]) == 3
    assert content["setting"] == {"nodes": 3}
    assert content["host"]["cores"] == len(os.sched_getaffinity(0))


# -- sides --------------------------------------------------------------------------


def test_a_side_lives_in_a_process_of_its_own_and_keeps_its_state() -> None:
    with Side(ECHO, text="hello") as side:
        first, second = side.call("answer"), side.call("answer")
    assert (first["text"], first["calls"], second["calls"]) == ("hello", 1, 2)
    assert first["pid"] == second["pid"] != os.getpid()


def test_a_side_is_closed_at_the_end(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "echo.closed"
    with Side(ECHO, text=str(path)) as side:
        side.call("answer")
        assert not path.exists()
    assert path.exists()


def test_a_side_s_methods_take_arguments() -> None:
    with Side(ECHO, text="hello") as side:
        assert side.call("add", 1, {"number": 2}) == 3


@pytest.mark.parametrize(
    ("method", "words"), [("fail", "what went wrong"), ("leave", "had to go"), ("none", "no attr")]
)
def test_a_side_that_fails_says_why(method: str, words: str) -> None:
    with Side(ECHO, text="hello") as side, pytest.raises(SideFailed, match=words):
        side.call(method)


def test_a_side_that_can_not_be_made_says_why() -> None:
    with Side("no_such_module:X") as side, pytest.raises(SideFailed, match="no_such_module"):
        side.call("answer")


# -- the command line ---------------------------------------------------------------


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> dict[str, registry.Benchmark]:
    """Three benchmarks: one does what is required, one falls short, one fails."""
    runs: dict[str, Callable[[int, Any], results.Outcome]] = {
        "fast": lambda number, progress: outcome("fast"),
        "slow": lambda number, progress: outcome("slow"),
        "broken": lambda number, progress: (_ for _ in ()).throw(OSError("no such peer")),
    }
    required = {"fast": 30.0, "slow": 40.0, "broken": 0.0}
    found = {
        name: registry.Benchmark(name, f"the {name} one", f"{__name__}.{name}", {"cpu": least})
        for name, least in required.items()
    }
    for name, run in runs.items():
        module = type(sys)(f"{__name__}.{name}")
        module.run = run  # type: ignore[attr-defined]
        module.quick = functools.partial(run, 1)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"{__name__}.{name}", module)
    monkeypatch.setattr(registry, "BENCHMARKS", found)
    return found


@pytest.mark.usefixtures("benchmarks")
@pytest.mark.parametrize(
    ("names", "code", "ended"),
    [
        (["fast"], 0, ["fast"]),
        (["slow"], 1, ["slow"]),
        (["broken"], 1, []),
        (["broken", "fast"], 1, ["fast"]),
        ([], 1, ["fast", "slow"]),
    ],
)
def test_each_benchmark_ends_with_one_line_and_the_code_says_whether_all_is_well(
    names: list[str],
    code: int,
    ended: list[str],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main([*names, "--results", str(tmp_path)]) == code
    printed = capsys.readouterr()
    assert [json.loads(line)["benchmark"] for line in printed.out.splitlines()] == ended
    if "broken" in names:
        assert "no such peer" in printed.err
    if "slow" in names:
        assert "ratio cpu is 37.5, required is 40" in printed.err


@pytest.mark.usefixtures("benchmarks")
def test_a_run_ends_with_a_table_of_what_was_found_and_what_was_required(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["slow", "fast", "--results", str(tmp_path), "--table"])
    on_request = capsys.readouterr().out.splitlines()
    cli.main(["slow", "fast", "--results", str(tmp_path)])
    otherwise = capsys.readouterr()
    assert len(otherwise.out.splitlines()) == 2
    assert on_request[2].split()[:2] == ["Benchmark", "Figure"]
    assert on_request[2] in otherwise.err
    rows = [line.split() for line in on_request[4:]]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("slow", "cpu", "MISSED"),
        ("slow", "memory", "-"),
        ("fast", "cpu", "met"),
        ("fast", "memory", "-"),
    ]


@pytest.mark.usefixtures("benchmarks")
def test_a_quick_run_requires_nothing_and_writes_only_where_it_is_told(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "RECORDED", tmp_path / "recorded")
    assert cli.main(["slow", "--quick"]) == 0
    assert not list(tmp_path.iterdir())
    assert "MISSED" not in capsys.readouterr().err
    assert cli.main(["slow", "--quick", "--results", str(tmp_path / "here")]) == 0
    assert (tmp_path / "here" / "slow.json").exists()
    assert cli.main(["broken", "--quick"]) == 1


def test_whoever_lacks_the_peers_is_told_where_they_are(
    benchmarks: dict[str, registry.Benchmark],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    benchmarks["lost"] = registry.Benchmark("lost", "no peer", "no_such_module", {})
    assert cli.main(["lost", "--results", str(tmp_path)]) == 1
    assert "make bench" in capsys.readouterr().err


@pytest.mark.usefixtures("benchmarks")
def test_what_was_recorded_is_drawn_anew_without_measuring(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["slow", "--results", str(tmp_path)]) == 1
    table = (tmp_path / "slow.csv").read_text()
    record = (tmp_path / "slow.json").read_text()
    (tmp_path / "slow.csv").unlink()
    monkeypatch.setattr(registry.Benchmark, "run", None)
    assert cli.main(["--redraw", "--results", str(tmp_path)]) == 0
    assert (tmp_path / "slow.csv").read_text() == table
    assert (tmp_path / "slow.json").read_text() == record


@pytest.mark.usefixtures("benchmarks")
def test_the_list_names_all_and_runs_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["fast", "slow", "broken"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["--rounds", "2"],
        ["--rounds", "many"],
        ["--quick", "--rounds", "5"],
        ["--quick", "--redraw"],
        ["--quick", "--results", str(cli.RECORDED)],
    ],
)
def test_what_can_not_be_done_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("benchmark", registry.BENCHMARKS.values(), ids=registry.BENCHMARKS)
def test_a_registered_benchmark_can_be_run(benchmark: registry.Benchmark) -> None:
    module = importlib.import_module(benchmark.module)
    assert callable(module.run)
    assert callable(module.quick)
    assert benchmark.required or benchmark.limits
