# SPDX-License-Identifier: Apache-2.0

"""Simulate deployments, a seed each, and say which broke a law.

    python -m tests.simulation [--seeds N] [--seed N] [--first N] [--jobs N] [--for SECONDS]
    python -m tests.simulation --planted [--seeds N]

With ``--seed`` the history of that seed is printed whole.  The exit status is 1 if anything was
found; with ``--planted``, if a planted fault was not.
"""

import argparse
import collections
import functools
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from tests.simulation import planted
from tests.simulation.world import Outcome, simulate

_EVERY = 100
_SHOWN = 10
_HOURS = 0.5


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first one")
    parser.add_argument("--seed", type=int, help="replay this one, and print its history")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=int, default=cores, help=f"processes ({cores})")
    parser.add_argument("--for", type=float, dest="seconds", help="begin none after so many")
    parser.add_argument(
        "--hours", type=float, default=_HOURS, help="of faults in each seed, in halves (0.5)"
    )
    parser.add_argument("--planted", action="store_true", help="search for planted faults")
    args = parser.parse_args()
    # What is said at lower levels is for operators.
    logging.disable(logging.CRITICAL)
    if args.seed is not None:
        return _replay(args.seed, args.hours)
    if args.planted:
        return planted.table(args.seeds)
    return _search(args)


def _replay(seed: int, hours: float) -> int:
    outcome = simulate(seed, hours)
    print("\n".join(outcome.lines))
    print(f"seed {seed}, {outcome.layout}, history {outcome.digest}")
    return _say(outcome)


def _say(outcome: Outcome) -> int:
    for one in outcome.findings:
        print(f"seed {outcome.seed}, {outcome.layout}: {one}")
    return bool(outcome.findings)


def _search(args: argparse.Namespace) -> int:
    began = time.monotonic()
    faults: collections.Counter[str] = collections.Counter()
    seeds = requests = operations = 0
    simulated = 0.0
    failed = []
    for outcome in _outcomes(range(args.first, args.first + args.seeds), args.hours, args.jobs):
        seeds += 1
        requests += outcome.requests
        operations += outcome.operations
        simulated += outcome.seconds
        faults.update(outcome.faults)
        if outcome.findings:
            failed.append(outcome.seed)
            _say(outcome)
        passed = time.monotonic() - began
        if seeds % _EVERY == 0:
            print(
                f"{seeds} seeds, {simulated / 3600:.0f} h simulated in {passed:.0f} s", flush=True
            )
        if args.seconds is not None and passed > args.seconds:
            break
    passed = time.monotonic() - began
    kinds = ", ".join(f"{kind} {count}" for kind, count in faults.most_common())
    print(f"Faults: {kinds or 'none'}")
    found = "nothing found"
    if failed:
        shown = ", ".join(map(str, failed[:_SHOWN]))
        found = f"{len(failed)} FAILED: replay with make simulate SEED={failed[0]}"
        found += f' SIMULATE_ARGS="--hours {args.hours:g}"' if args.hours != _HOURS else ""
        found += f" (of {shown})"
    print(
        f"{seeds} seeds from {args.first} on, {simulated / 3600:.0f} h simulated in {passed:.0f} s"
        f" ({simulated / passed:,.0f} times as fast), {requests:,} requests, {operations:,}"
        f" operations in histories, {faults.total():,} faults: {found}"
    )
    return bool(failed)


def _outcomes(seeds: range, hours: float, jobs: int) -> Iterator[Outcome]:
    run = functools.partial(simulate, hours=hours)
    if jobs < 2:
        yield from map(run, seeds)
        return
    # Each seed gives the same run in any process.  A spawned process starts without the state of
    # this one.
    started = multiprocessing.get_context("spawn")
    with started.Pool(jobs, logging.disable, (logging.CRITICAL,)) as pool:
        yield from pool.imap(run, seeds, chunksize=4 if hours < 1 else 1)


if __name__ == "__main__":
    sys.exit(main())
