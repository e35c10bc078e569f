# SPDX-License-Identifier: Apache-2.0

"""Medians and ratios, and how a run ends.  The sides run in ``make bench``."""

import functools
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import cli, nova, nova_large, registry, results


def outcome(name: str = "example") -> results.Outcome:
    return results.Outcome(
        name,
        ours=[{"cpu": seconds, "memory": 10.0} for seconds in (1.0, 900.0, 2.0)],
        peer=[{"cpu": 100.0, "memory": 30.0}, {"cpu": 50.0, "memory": 20.0}] * 2,
        units={"cpu": "seconds", "memory": "bytes"},
        setting={"nodes": 3},
    )


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three benchmarks: one does what is required, one falls short, one fails."""
    runs: dict[str, Callable[[int, Any], results.Outcome]] = {
        "fast": lambda number, progress: outcome("fast"),
        "slow": lambda number, progress: outcome("slow"),
        "broken": lambda number, progress: (_ for _ in ()).throw(OSError("no such peer")),
    }
    made = {}
    for name, least in {"fast": 30.0, "slow": 40.0, "broken": 0.0}.items():
        module = type(sys)(f"{__name__}.{name}")
        module.run = runs[name]  # type: ignore[attr-defined]
        module.quick = functools.partial(runs[name], 1)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        made[name] = registry.Benchmark(name, f"the {name} one", module.__name__, {"cpu": least})
    monkeypatch.setattr(registry, "BENCHMARKS", made)


@pytest.mark.usefixtures("benchmarks")
@pytest.mark.parametrize(
    ("line", "code", "ended"),
    [
        ("fast", 0, ["fast"]),
        ("slow", 1, ["slow"]),
        ("slow --quick", 0, ["slow"]),
        ("broken fast", 1, ["fast"]),
        ("broken --quick", 1, []),
        ("", 1, ["fast", "slow"]),
    ],
)
def test_each_benchmark_ends_with_one_line_and_an_exit_code(line, code, ended, tmp_path, capsys):
    assert cli.main([*line.split(), "--results", str(tmp_path)]) == code
    printed = capsys.readouterr()
    assert [json.loads(line)["benchmark"] for line in printed.out.splitlines()] == ended
    assert {path.stem for path in tmp_path.glob("*.json")} == set(ended)
    assert ("no such peer" in printed.err) is ("broken" in line or not line)
    assert ("ratio cpu is 37.5, required is 40" in printed.err) is (line in ("slow", ""))


@pytest.mark.parametrize("benchmark", registry.BENCHMARKS.values(), ids=registry.BENCHMARKS)
def test_a_registered_benchmark_can_be_run(benchmark: registry.Benchmark) -> None:
    module = importlib.import_module(benchmark.module)
    assert callable(module.run)
    assert callable(module.quick)
    assert benchmark.required or benchmark.limits


@pytest.mark.parametrize(
    ("name", "units"),
    [
        *((name, nova.UNITS) for name in (*registry.RELEASES, "nova-ironic")),
        ("nova-33-large", nova_large.UNITS),
    ],
)
def test_whatever_is_required_or_drawn_is_measured(name: str, units: dict[str, str]) -> None:
    benchmark = registry.BENCHMARKS[name]
    drawn = {name for plot in benchmark.plots for panel in plot.panels for name in panel.figures}
    assert {*benchmark.required, *benchmark.limits, *drawn} <= units.keys()


def test_sides_that_differ_or_saw_nothing_have_no_figures() -> None:
    for offered in ({}, {"CUSTOM_A": 2}, {"CUSTOM_A": 1, "CUSTOM_B": 1}):
        with pytest.raises(AssertionError, match="what is free"):
            nova.compare("ours", offered, {"CUSTOM_A": 1})
    nova.compare("ours", {"CUSTOM_A": 1, "CUSTOM_B": 0}, {"CUSTOM_A": 1})
