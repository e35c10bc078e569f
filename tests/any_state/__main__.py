# SPDX-License-Identifier: Apache-2.0

"""Take nodes from any state to a sound one, and say which were not brought there.

    python -m tests.any_state [--triples N] [--seed N] [--world N] [--jobs N] [--real]
        [--in-tree N | --driver in-tree]

The exit status is 1 if anything unsafe was found.
"""

import argparse
import collections
import functools
import itertools
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from nova import monkey_patch

from tests import any_state
from tests.nova import figures

_SHOWN = 40


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.any_state", description=__doc__)
    parser.add_argument("--triples", type=int, default=10_000, help="how many (10,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument("--world", type=int, default=1000, help="nodes in one world (1,000)")
    parser.add_argument("--jobs", type=int, default=2, help="worlds at a time (2)")
    parser.add_argument("--real", action="store_true", help="over the real Ironic")
    parser.add_argument("--driver", default=figures.OURS, choices=(figures.OURS, figures.IN_TREE))
    parser.add_argument("--in-tree", type=int, default=0, help="how many Nova's own takes, too")
    args = parser.parse_args()
    # Nova refuses native threads if anything has imported eventlet before this.
    monkey_patch.patch()
    from nova import exception

    beside = ""
    if args.in_tree:
        try:
            beside, _ = _take(args, figures.IN_TREE, args.in_tree)
        except exception.NovaException as exc:
            beside = f"any state, in-tree: {args.in_tree} triples, no start succeeds: {exc}"
    line, has_failed = _take(args, args.driver, args.triples)
    print(beside)
    print(line)
    return has_failed


def _take(args: argparse.Namespace, driver: str, count: int) -> tuple[str, bool]:
    """Take nodes through everything: a line of figures, and whether anything was unsafe."""
    from tests.any_state import real, triples

    began = time.monotonic()
    drawn = triples.draw(count, args.seed)
    worlds = list(enumerate(iter(lambda: list(itertools.islice(drawn, args.world)), [])))
    run = functools.partial(real.judged, driver=driver, real=args.real)
    outcomes, cpu = [], 0.0
    steps: collections.Counter[str] = collections.Counter()
    for some, seconds, used in _results(run, worlds, args.jobs):
        outcomes += some
        steps.update(seconds)
        cpu += used
        print(f"{driver}: {len(outcomes)} triples, {cpu:.0f} s of processor time", flush=True)
    unsafe = [one for one in outcomes if one.unsafe]
    for one in unsafe[:_SHOWN] if driver == args.driver else ():
        print(f"UNSAFE {one.staged.triple}")
        for line in one.unsafe:
            print(f"    {line}")
    left = collections.Counter(name for one in outcomes for name in one.names)
    by_step = {name: round(used) for name, used in steps.items()}
    failed = by_step.pop("failed starts")
    print(f"{driver}: in s of processor time {by_step}; left, by name: {dict(left.most_common())}")
    to_a_person = sum(bool(one.names) for one in outcomes)
    return (
        f"any state{', in-tree' if driver == figures.IN_TREE else ''}: {len(outcomes)} triples, "
        f"{len(unsafe)} unsafe, {to_a_person} left to a person, "
        f"{failed} starts failed, "
        f"{time.monotonic() - began:.0f} s ({cpu:.0f} s of processor time)"
    ), bool(unsafe)


def _results(run: Callable[[Any], Any], worlds: list[Any], jobs: int) -> Iterator[Any]:
    if jobs < 2 or len(worlds) < 2:
        yield from map(run, worlds)
        return
    context = multiprocessing.get_context("spawn")
    cores = context.SimpleQueue()
    for core in itertools.islice(itertools.cycle(sorted(os.sched_getaffinity(0))), jobs):
        cores.put(core)
    with context.Pool(jobs, any_state.begin, [cores]) as pool:
        yield from pool.imap(run, worlds)


if __name__ == "__main__":
    sys.exit(main())
