# SPDX-License-Identifier: Apache-2.0

"""Take nodes from any state to a sound one, and say which were not brought there.

    python -m tests.any_state [--triples N] [--seed N] [--world N] [--jobs N] [--driver in-tree]

The exit status is 1 if anything unsafe was found.
"""

import argparse
import collections
import functools
import itertools
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from nova import monkey_patch

from tests.nova import figures

_SHOWN = 40


def judged(numbered: tuple[int, list[Any]], driver: str) -> tuple[list[Any], Any, float]:
    """How the nodes of one world have ended, and what it took."""
    from tests.any_state.world import World

    number, drawn = numbered
    began, world = time.process_time(), World("runTest")
    world.setUp()
    try:
        world.say = functools.partial(print, flush=True)
        world.stage(drawn, number, driver)
        return world.judge(), world.seconds, time.process_time() - began
    finally:
        world.doCleanups()


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.any_state", description=__doc__)
    parser.add_argument("--triples", type=int, default=10_000, help="how many (10,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument("--world", type=int, default=1000, help="nodes in one world (1,000)")
    parser.add_argument("--jobs", type=int, default=2, help="worlds at a time (2)")
    parser.add_argument("--driver", default=figures.OURS, choices=(figures.OURS, figures.IN_TREE))
    args = parser.parse_args()
    # Nova refuses native threads if anything has imported eventlet before this.
    monkey_patch.patch()
    from tests.any_state import triples

    began = time.monotonic()
    drawn = triples.draw(args.triples, args.seed)
    worlds = list(enumerate(iter(lambda: list(itertools.islice(drawn, args.world)), [])))
    run = functools.partial(judged, driver=args.driver)
    outcomes, cpu = [], 0.0
    steps: collections.Counter[str] = collections.Counter()
    for some, seconds, used in _results(run, worlds, args.jobs):
        outcomes += some
        steps.update(seconds)
        cpu += used
        print(f"{len(outcomes)} triples, {cpu:.0f} s of processor time", flush=True)
    unsafe = [one for one in outcomes if one.unsafe]
    for one in unsafe[:_SHOWN]:
        print(f"UNSAFE {one.staged.triple}")
        for line in one.unsafe:
            print(f"    {line}")
    left = collections.Counter(name for one in outcomes for name in one.names)
    print(
        f"Steps, in s of processor time: { {name: round(used) for name, used in steps.items()} }"
    )
    print(f"Left, by name: {dict(left.most_common())}")
    print(
        f"any state: {len(outcomes)} triples, {len(unsafe)} unsafe, "
        f"{sum(bool(one.names) for one in outcomes)} left to a person, "
        f"{time.monotonic() - began:.0f} s ({cpu:.0f} s of processor time)"
    )
    return bool(unsafe)


def _results(run: Callable[[Any], Any], worlds: list[Any], jobs: int) -> Iterator[Any]:
    if jobs < 2 or len(worlds) < 2:
        yield from map(run, worlds)
        return
    with multiprocessing.get_context("spawn").Pool(
        jobs, monkey_patch.patch, maxtasksperchild=1
    ) as pool:
        yield from pool.imap(run, worlds)


if __name__ == "__main__":
    sys.exit(main())
