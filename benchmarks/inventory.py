# SPDX-License-Identifier: Apache-2.0

"""``inventory``: what it costs to keep 100,000 nodes, of many kinds, up to date.

Our inventory alone, over HTTP with a fake Ironic in a separate process, whose
clock passes a minute between two refreshes.  One node in four has
an instance, one in five has properties like no other's; there are some thousand
different sets of traits.

At each churn there is a refresh as most are, and one that also sweeps.  After the
last one, what the inventory shows is compared with what the fake Ironic has.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator

from benchmarks.registry import Progress
from benchmarks.results import Outcome
from benchmarks.rounds import Figures
from benchmarks.side import Side

NODES = 100_000
PAGE = 1000
"""The most nodes in an answer; a fleet that fits on few pages is never swept."""
MINUTE = 60.0
CHURNS = (0.0, 0.001, 0.01)
UNITS = (
    {
        "full_cpu": "seconds of processor time for a full list",
        "full_bytes": "bytes received for a full list",
        "memory": "bytes that the inventory keeps alive, as tracemalloc counts",
        "resident": "bytes that the process grows by with the first list",
    }
    | {
        f"steady_{what}_{churn:.1%}": f"{unit} with {churn:.1%} of the nodes changed"
        for churn in CHURNS
        for what, unit in (
            ("cpu", "seconds of processor time for a refresh"),
            ("bytes", "bytes received for a refresh"),
        )
    }
    | {
        f"sweep_{what}_{churn:.1%}": f"{unit} that also sweeps, with {churn:.1%} changed"
        for churn in CHURNS
        for what, unit in (
            ("cpu", "seconds of processor time for a refresh"),
            ("bytes", "bytes received for a refresh"),
        )
    }
)


def run(rounds: int, progress: Progress, *, nodes: int = NODES, page: int = PAGE) -> Outcome:
    """Measure; see the module."""
    with _fleet(nodes, page, progress) as fleet:
        found = [_round(fleet, nodes, number, progress) for number in range(1, rounds + 1)]
    return Outcome(
        "inventory",
        ours=found,
        peer=(),
        units=UNITS,
        setting={"nodes": nodes, "seconds between refreshes": MINUTE},
    )


def quick(progress: Progress) -> Outcome:
    """Measure few nodes, once."""
    return run(1, progress, nodes=500, page=100)


@contextlib.contextmanager
def _fleet(nodes: int, page: int, progress: Progress) -> Iterator[Side]:
    progress(f"Making {nodes:,} nodes")
    with Side("benchmarks.inventory_sides:Fleet", nodes=nodes, page=page) as fleet:
        fleet.call("url")
        yield fleet


def _round(fleet: Side, nodes: int, number: int, progress: Progress) -> Figures:
    url = fleet.call("url")
    figures: dict[str, float] = {}
    # What the round before changed is not to lie in the overlap of this one.
    fleet.call("live", 3600.0, 0)
    with Side("benchmarks.inventory_sides:Keeper", url=url) as keeper:
        figures["memory"] = keeper.call("traced")
    with Side("benchmarks.inventory_sides:Keeper", url=url) as keeper:
        figures["resident"] = keeper.call("resident")
        for churn in CHURNS:
            for name, sweep in (("steady", False), ("sweep", True)):
                fleet.call("live", MINUTE, round(nodes * churn))
                fleet.call("requests")
                one = keeper.call("refresh", MINUTE, sweep)
                asked = collections.Counter(fleet.call("requests"))
                if asked["full"] or bool(asked["sweep"]) != sweep:
                    raise AssertionError(f"not what was to be measured: {asked}")
                for what in ("cpu", "bytes"):
                    figures[f"{name}_{what}_{churn:.1%}"] = one[what]
                progress(
                    f"round {number}, {churn:.1%} changed, {name}: {one['cpu'] * 1000:.0f} ms of "
                    f"processor time, {one['bytes'] / 1e6:.2f} MB in {asked.total()} requests"
                )
        if keeper.call("content") != fleet.call("content"):
            raise AssertionError("the inventory doesn't show what Ironic has")
    with Side("benchmarks.inventory_sides:Keeper", url=url) as keeper:
        full = keeper.call("refresh", MINUTE)
    figures |= {"full_cpu": full["cpu"], "full_bytes": full["bytes"]}
    progress(
        f"round {number}: {full['cpu']:.2f} s of processor time for a full list, "
        f"{figures['memory'] / 1e6:.0f} MB kept, the process grew by "
        f"{figures['resident'] / 1e6:.0f} MB"
    )
    return figures
