# SPDX-License-Identifier: Apache-2.0

"""The command line: which benchmarks run, how often, and how the run ends.

Progress goes to standard error, and so does the table that a run ends with unless
``--table`` is given.  On standard output each benchmark ends with one line of JSON.
Exit codes: 0 all were run and did what is required, 1 one fell short or failed,
2 it was asked for wrongly.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import ironic, plots, registry, results, table

FEWEST_ROUNDS = 3
FEWEST_NODES = 4
RECORDED = pathlib.Path(__file__).with_name("results")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks that are named, or all.

    :returns: the exit code.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.quick and (arguments.redraw or arguments.rounds):
        parser.error("--quick goes with neither --redraw nor --rounds")
    if arguments.quick and arguments.results and arguments.results.resolve() == RECORDED:
        parser.error("--quick measures too little to be recorded")
    if arguments.list:
        for benchmark in registry.BENCHMARKS.values():
            print(f"{benchmark.name:<12} {benchmark.summary}")
        return 0
    chosen = _chosen(parser, arguments)
    more = {} if arguments.nodes is None else {"nodes": arguments.nodes}
    rows: list[table.Row] = []
    well = True
    with ironic.kept() if arguments.quick else contextlib.nullcontext():
        for benchmark in chosen:
            if arguments.redraw:
                _redraw(benchmark, arguments.results or RECORDED)
            elif arguments.quick:
                well = _quick(benchmark, arguments.results, rows, more) and well
            else:
                well = _run(benchmark, arguments, rows, more) and well
    if rows:
        print(table.text(rows), file=sys.stdout if arguments.table else sys.stderr, flush=True)
    return 0 if well else 1


def _chosen(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace
) -> list[registry.Benchmark]:
    """The benchmarks to run; each must take the options given, or the run ends."""
    unnamed = (name for name, benchmark in registry.BENCHMARKS.items() if not benchmark.by_name)
    names = list(arguments.name or unnamed)
    if arguments.node_selection is not None:
        if names != ["nova"]:
            parser.error("--node-selection goes with 'nova' alone")
        names = [registry.NODE_SELECTION[arguments.node_selection]]
    chosen = [registry.BENCHMARKS[name] for name in names]
    if arguments.nodes is not None:
        recorded = not arguments.quick and (arguments.results or RECORDED).resolve() == RECORDED
        for benchmark in chosen:
            usual = benchmark.takes.get("nodes")
            if usual is None:
                parser.error(f"{benchmark.name} takes no --nodes")
            if recorded and arguments.nodes != usual:
                parser.error(f"only {usual} nodes of {benchmark.name} are recorded: say --results")
    return chosen


def _run(
    benchmark: registry.Benchmark,
    arguments: argparse.Namespace,
    rows: list[table.Row],
    more: Mapping[str, Any],
) -> bool:
    progress(f"{benchmark.name}: {benchmark.summary}")
    try:
        outcome = benchmark.run(arguments.rounds, progress, **more)
        content = results.record(outcome)
        if benchmark.recorded or arguments.results:
            _keep(benchmark, content, arguments.results or RECORDED)
    except Exception:  # The others are to run all the same.
        _tell_of_failure(benchmark)
        return False
    shortfalls = results.shortfalls(content, benchmark.required, benchmark.limits)
    for shortfall in shortfalls:
        progress(f"{benchmark.name}: {shortfall}")
    rows += table.rows(content, benchmark.required, benchmark.limits)
    print(results.line(outcome), flush=True)
    return not shortfalls


def _quick(
    benchmark: registry.Benchmark,
    directory: pathlib.Path | None,
    rows: list[table.Row],
    more: Mapping[str, Any],
) -> bool:
    progress(f"{benchmark.name}: {benchmark.summary}; but quickly: the figures mean nothing")
    try:
        outcome = benchmark.quick(progress, **more)
        content = results.record(outcome)
        if directory is not None:
            _keep(benchmark, content, directory)
    except Exception:
        _tell_of_failure(benchmark)
        return False
    rows += table.rows(content, {}, {})
    print(results.line(outcome), flush=True)
    return True


def _tell_of_failure(benchmark: registry.Benchmark) -> None:
    text = traceback.format_exc()
    progress(f"{benchmark.name}: failed\n{text}")
    if "ModuleNotFoundError" in text:
        progress("The peers are in the environment of 'make bench': ironic-virt[bench]")


def _keep(benchmark: registry.Benchmark, content: dict[str, Any], directory: pathlib.Path) -> None:
    """Write the record, and what is made of it."""
    results.write(content, directory)
    lines = table.rows(content, benchmark.required, benchmark.limits)
    path = directory / f"{benchmark.name}.csv"
    path.write_text(table.as_csv(lines))
    for plot in benchmark.plots:
        plots.draw(plot, content, directory)
    if benchmark.name in registry.RELEASES:
        _draw_overview(directory)


def _draw_overview(directory: pathlib.Path) -> None:
    """Draw the releases of Nova side by side, once all are recorded."""
    paths = {name: directory / f"{name}.json" for name in registry.RELEASES}
    if not all(path.exists() for path in paths.values()):
        return
    content: dict[str, dict[str, Any]] = {side: {} for side in ("ours", "peer", "pools", "units")}
    for name, path in paths.items():
        recorded = json.loads(path.read_text())
        for side, figures in content.items():
            measured = recorded.get(side, {}).items()
            figures |= {registry.of_release(figure, name): value for figure, value in measured}
    plots.draw(registry.OVERVIEW, content, directory)


def _redraw(benchmark: registry.Benchmark, directory: pathlib.Path) -> None:
    path = directory / f"{benchmark.name}.json"
    if not path.exists():
        progress(f"{benchmark.name}: nothing is recorded in {path}")
        return
    _keep(benchmark, json.loads(path.read_text()), directory)


def progress(text: str) -> None:
    """Say something to whoever waits."""
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure ironic_virt against what it replaces.",
        epilog="Benchmarks: " + ", ".join(registry.BENCHMARKS) + ". 'make bench' runs them "
        "in an environment that has the peers.",
    )
    parser.add_argument(
        "name", nargs="*", type=_name, help="a benchmark; none: all but those with another Nova"
    )
    parser.add_argument("--list", action="store_true", help="list the benchmarks and end")
    parser.add_argument(
        "--rounds", type=_rounds, help="rounds of each side (default: each benchmark's own number)"
    )
    parser.add_argument(
        "--nodes",
        type=_nodes,
        help="of those with a whole Nova: how many nodes (--quick: 8 by default)",
    )
    parser.add_argument(
        "--node-selection",
        choices=tuple(registry.NODE_SELECTION),
        help="of nova: who picks a server's node, the value of [ironic] node_selection "
        "(default: scheduler)",
    )
    parser.add_argument(
        "--results",
        type=pathlib.Path,
        metavar="DIRECTORY",
        help=f"where NAME.json, NAME.csv and the plots are written (default: {RECORDED})",
    )
    parser.add_argument("--table", action="store_true", help="print the table on standard output")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="see that they can be run: measure little, once, require nothing, and write nothing "
        "unless --results says where",
    )
    parser.add_argument(
        "--redraw",
        action="store_true",
        help="measure nothing; make plots and NAME.csv anew from what was recorded",
    )
    return parser


def _name(text: str) -> str:
    if text not in registry.BENCHMARKS:
        raise argparse.ArgumentTypeError(
            f"no benchmark {text!r}; there are: {', '.join(registry.BENCHMARKS)}"
        )
    return text


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < FEWEST_ROUNDS:
        raise argparse.ArgumentTypeError(f"a median wants at least {FEWEST_ROUNDS} rounds")
    return rounds


def _nodes(text: str) -> int:
    nodes = int(text)
    if nodes < FEWEST_NODES:
        raise argparse.ArgumentTypeError(f"at least {FEWEST_NODES} nodes are needed")
    return nodes
