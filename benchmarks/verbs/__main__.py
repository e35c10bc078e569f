# SPDX-License-Identifier: Apache-2.0

"""Ask each verb of Nova's API of a server in each state, with both drivers.

    python -m benchmarks.verbs [--states NAME ...] [--verbs NAME ...] [--table FILE]

The table has a row for each verb and a column for each state; columns of other states stay as they
are.  The exit status is 1 if a verb that was refused or has failed left a trace with this driver.
"""

from __future__ import annotations

import argparse
import csv
import functools
import multiprocessing
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from nova import monkey_patch

from tests.nova import figures

TABLE = Path(__file__).parents[2] / "doc" / "source" / "nova" / "verbs.csv"
Answers = dict[tuple[str, str], Any]


def ask(driver: str, states: Collection[str], verbs: Collection[str]) -> tuple[str, Answers]:
    """Ask verbs in states; the answers by verb and state."""
    from benchmarks.verbs import sweep

    world, answers = sweep.Sweep("runTest"), {}
    world.setUp()
    try:
        world.prepare(driver)
        for state in states:
            if driver == figures.IN_TREE and state == sweep.IN_POOL:
                continue
            make = functools.partial(sweep.STATES[state], world)
            for verb, answer in world.ask_all(make, verbs, is_owner=state == "locked"):
                answers[verb, state] = answer
                print(f"{driver}, {state}, {verb}: {answer}", flush=True)
        return driver, answers
    finally:
        world.doCleanups()


def write(table: Path, ours: Answers, in_tree: Answers) -> None:
    """Write what was answered into the columns of the states."""
    rows: dict[str, dict[str, str]] = {}
    if table.exists():
        with table.open(newline="") as lines:
            rows = {row["Verb"]: row for row in csv.DictReader(lines)}
    others = {**ours, **in_tree}
    for (verb, state), answer in ours.items():
        other = others[verb, state].shown
        cell = answer.shown if other == answer.shown else f"{answer.shown}; in-tree: {other}"
        rows.setdefault(verb, {"Verb": verb})[state] = cell
    names = dict.fromkeys(name for row in rows.values() for name in row)
    with table.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())


def main() -> int:
    """Do what the command line says."""
    monkey_patch.patch()
    from benchmarks.verbs.requests import VERBS
    from benchmarks.verbs.sweep import STATES

    parser = argparse.ArgumentParser(prog="python -m benchmarks.verbs", description=__doc__)
    parser.add_argument("--states", nargs="*", default=list(STATES), choices=list(STATES))
    parser.add_argument("--verbs", nargs="*", default=list(VERBS), choices=list(VERBS))
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--jobs", type=int, default=2, help="drivers at a time (2)")
    args = parser.parse_args()
    run = functools.partial(ask, states=args.states, verbs=args.verbs)
    with multiprocessing.get_context("spawn").Pool(
        args.jobs, monkey_patch.patch, maxtasksperchild=1
    ) as pool:
        answers = dict(pool.imap(run, (figures.OURS, figures.IN_TREE)))
    write(args.table, answers[figures.OURS], answers[figures.IN_TREE])
    unclean = Counter(
        {driver: sum(a.is_unclean for a in of.values()) for driver, of in answers.items()}
    )
    print(
        f"verbs: {len(answers[figures.OURS])} answers, {unclean[figures.OURS]} with a trace; "
        f"in-tree: {len(answers[figures.IN_TREE])}, {unclean[figures.IN_TREE]}"
    )
    return bool(unclean[figures.OURS])


if __name__ == "__main__":
    sys.exit(main())
