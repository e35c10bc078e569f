# SPDX-License-Identifier: Apache-2.0

"""The command line: which benchmarks run, how often, and how the run ends.

Progress goes to standard error.  On standard output each benchmark ends with
one line of JSON.  Exit codes: 0 all were run and did what is required, 1 one
fell short or failed, 2 it was asked for wrongly.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import traceback
from collections.abc import Sequence

from benchmarks import registry, results

FEWEST_ROUNDS = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks that are named, or all.

    :returns: the exit code.
    """
    arguments = _parser().parse_args(argv)
    if arguments.list:
        for benchmark in registry.BENCHMARKS.values():
            print(f"{benchmark.name:<12} {benchmark.summary}")
        return 0
    names = arguments.name or list(registry.BENCHMARKS)
    outcomes = [_run(registry.BENCHMARKS[name], arguments) for name in names]
    return 0 if all(outcomes) else 1


def _run(benchmark: registry.Benchmark, arguments: argparse.Namespace) -> bool:
    progress(f"{benchmark.name}: {benchmark.summary}")
    try:
        outcome = benchmark.run(arguments.rounds, progress)
    except Exception:  # The others are to run all the same.
        progress(f"{benchmark.name}: failed\n{traceback.format_exc()}")
        return False
    results.write(outcome, arguments.results)
    shortfalls = results.shortfalls(outcome, benchmark.required)
    for shortfall in shortfalls:
        progress(f"{benchmark.name}: {shortfall}")
    print(results.line(outcome), flush=True)
    return not shortfalls


def progress(text: str) -> None:
    """Say something to whoever waits."""
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure ironic_virt against what it replaces.",
        epilog="Benchmarks: " + ", ".join(registry.BENCHMARKS) + ". 'make bench' runs all of them "
        "in an environment that has the peers.",
    )
    parser.add_argument("name", nargs="*", type=_name, help="a benchmark; none: all")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and end")
    parser.add_argument(
        "--rounds", type=_rounds, default=FEWEST_ROUNDS, help="rounds of each side (%(default)s)"
    )
    parser.add_argument(
        "--results",
        type=pathlib.Path,
        default=pathlib.Path(__file__).with_name("results"),
        metavar="DIRECTORY",
        help="where NAME.json is written (%(default)s)",
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
