# SPDX-License-Identifier: Apache-2.0

"""Ask each verb of Nova's API of a server in each state, with both drivers.

    python -m benchmarks.verbs [--states NAME ...] [--verbs NAME ...] [--table FILE] [--check]

The table has a row for each verb and a column for each state; other cells stay as they are.
With --check the table stays as it is, and the exit status is 1 if it is no longer true.
"""

from __future__ import annotations

import argparse
import csv
import functools
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from nova import monkey_patch

from tests.nova import figures

TABLE = Path(__file__).parents[2] / "doc" / "source" / "nova" / "verbs.csv"
Answers = dict[tuple[str, str], Any]
Cells = dict[tuple[str, str], str]
"""By verb and state."""


def ask(driver: str, state: str, verbs: Collection[str]) -> Answers:
    """Ask verbs in a state, in their own deployment; the answers by verb and state."""
    from benchmarks.verbs import sweep

    world, answers = sweep.Sweep("runTest"), {}
    world.setUp()
    try:
        world.prepare(driver)
        make = functools.partial(sweep.STATES[state], world)
        for verb, answer in world.ask_all(make, verbs, is_owner=state == "locked"):
            answers[verb, state] = answer
            print(f"{driver}, {state}, {verb}: {answer}", flush=True)
        return answers
    finally:
        world.doCleanups()


def cells_of(ours: Answers, in_tree: Answers) -> Cells:
    """What the table says of each verb in each state; in-tree's answer follows if it differs."""
    cells = {}
    for key, answer in ours.items():
        shown = dict.fromkeys((answer.shown, (in_tree.get(key) or answer).shown))
        cells[key] = " / ".join(shown)
    return cells


def read(table: Path) -> Cells:
    """Read the cells of a table."""
    with table.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    return {(row["Verb"], state): row[state] for row in rows for state in list(row)[1:]}


def write(table: Path, cells: Cells, verbs: Collection[str], states: Collection[str]) -> None:
    """Write a table of cells."""
    with table.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["Verb", *states])
        for verb in verbs:
            writer.writerow([verb, *(cells.get((verb, state), "") for state in states)])


def main() -> int:
    """Do what the command line says."""
    monkey_patch.patch()
    from benchmarks.verbs.requests import VERBS
    from benchmarks.verbs.sweep import IN_POOL, STATES

    parser = argparse.ArgumentParser(prog="python -m benchmarks.verbs", description=__doc__)
    parser.add_argument("--states", nargs="*", default=list(STATES), choices=list(STATES))
    parser.add_argument("--verbs", nargs="*", default=list(VERBS), choices=list(VERBS))
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--check", action="store_true", help="compare, and leave the table")
    args = parser.parse_args()
    answers: dict[str, Answers] = {figures.OURS: {}, figures.IN_TREE: {}}
    for state in args.states:
        for driver, of in answers.items():
            if driver == figures.OURS or state != IN_POOL:
                of |= ask(driver, state, args.verbs)
    unclean = Counter(
        {driver: sum(a.is_unclean for a in of.values()) for driver, of in answers.items()}
    )
    print(
        f"verbs: {len(answers[figures.OURS])} answers, {unclean[figures.OURS]} with a trace; "
        f"in-tree: {len(answers[figures.IN_TREE])}, {unclean[figures.IN_TREE]}"
    )
    cells = cells_of(*answers.values())
    former = read(args.table) if args.table.exists() else {}
    differences = {key for key, cell in cells.items() if former.get(key) != cell}
    for verb, state in sorted(differences):
        cell = former.get((verb, state), "")
        print(f"{verb}, {state}: {cells[verb, state]}; in the table: {cell}")
    if not args.check:
        write(args.table, former | cells, list(VERBS), list(STATES))
    return args.check and bool(differences)


if __name__ == "__main__":
    sys.exit(main())
