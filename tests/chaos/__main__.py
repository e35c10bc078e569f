# SPDX-License-Identifier: Apache-2.0

"""Run services on the real Ironic and a database in a storm, and say which laws were broken.

    python -m tests.chaos [--seed N] [--seeds N] [--for SECONDS] [--keep DIRECTORY]

The exit status is 1 if anything was found; with a planted fault, if nothing was.  A seed decides
who does what, not when it arrives: the same seed gives the same storm, and a history much like it.
"""

import argparse
import collections
import faulthandler
import os
import sys
import tempfile
import time
from pathlib import Path

from tests import databases, depth
from tests.chaos import planted
from tests.chaos.disk import NoDisk
from tests.chaos.world import Outcome, run
from tests.simulation.planted import FAULTS

LONGEST = 3600.0
"""Seconds after which a run that hangs is ended, in addition to the time of the faults."""


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--for", type=float, dest="seconds", default=120.0, help="of faults, each")
    parser.add_argument(
        "--settle",
        type=float,
        dest="bound",
        default=600.0,
        help="seconds in which all has to settle after the last fault (default: 600)",
    )
    parser.add_argument("--keep", type=Path, help="where histories and logs go")
    parser.add_argument(
        "--database",
        choices=(databases.MARIADB, databases.POSTGRESQL, databases.SQLITE),
        default=databases.MARIADB,
        help="of the services; SQLite's is on a disk that gets full (default: %(default)s)",
    )
    parser.add_argument(
        "--conductors",
        type=int,
        default=depth.choose(1, nightly=2),
        help="of Ironic's; with more than one, they die as services do (default: %(default)s)",
    )
    parser.add_argument(
        "--plant",
        choices=[one.name for one in FAULTS],
        metavar="FAULT",
        help="put a fault of tests/simulation/planted.py into the services, and end when it is"
        " found",
    )
    args = parser.parse_args()
    if args.plant:
        os.environ[planted.VARIABLE] = args.plant
    kept = args.keep or Path(tempfile.mkdtemp(prefix="ironic-virt-chaos-"))
    began = time.monotonic()
    told: collections.Counter[str] = collections.Counter()
    faults: collections.Counter[str] = collections.Counter()
    outcomes: list[Outcome] = []
    for seed in range(args.seed, args.seed + args.seeds):
        directory = kept / f"seed-{seed}"
        directory.mkdir(parents=True, exist_ok=True)
        # If any code hangs, a traceback shows where.
        faulthandler.dump_traceback_later(args.seconds + LONGEST, exit=True)
        try:
            outcome = run(
                *(seed, args.seconds, directory, args.database, args.bound, args.conductors)
            )
        except NoDisk as error:
            print(f"SKIPPED: {error}")
            return 0
        outcomes.append(outcome)
        told += outcome.told
        faults += outcome.faults
        for one in outcome.findings:
            print(f"seed {seed}, {outcome.layout}: {one}")
        print(
            f"seed {seed}, {outcome.layout}: settled {outcome.settled:.0f} s after"
            f" {outcome.seconds:.0f} s of faults",
            flush=True,
        )
        if args.plant and outcome.findings:
            break
    failed = [str(one.seed) for one in outcomes if one.findings]
    print("Faults: " + _counted(faults))
    print("Told: " + _counted(told))
    found = "nothing found"
    if failed:
        found = f"{len(failed)} FAILED: again with make chaos SEED={failed[0]} (of"
        found += f" {', '.join(failed)}; histories and logs in {kept})"
    print(
        f"{len(outcomes)} seeds from {args.seed} on in {time.monotonic() - began:.0f} s,"
        f" {told.total():,} requests of users, {sum(one.requests for one in outcomes):,} to"
        f" Ironic, {sum(one.operations for one in outcomes):,} operations in histories,"
        f" {faults.total():,} faults: {found}"
    )
    return bool(failed) != bool(args.plant)


def _counted(counter: collections.Counter[str]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counter.most_common()) or "none"


if __name__ == "__main__":
    sys.exit(main())
