# SPDX-License-Identifier: Apache-2.0

"""``sizes``: what a refresh and the nodes in memory cost, by the number of nodes.

Each round makes a fleet and both sides again.  On our side, the first refresh shows
the memory that the nodes take, the next full list what one costs, and then come
refreshes between full lists, with one changed node in a hundred.  Each refresh of
the peer is a full list, so one stands for both: the second, or with 10,000 nodes and
more, which take it long, the first.  With 100,000 it is measured in one round only.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks import refresh
from benchmarks.registry import Progress
from benchmarks.results import Outcome, Point
from benchmarks.rounds import Figures

SIZES = (100, 1000, 10_000, 100_000)
CHURN = 0.01
LONG = 10_000
"""So many nodes take the peer so long that one refresh has to do."""

LONGEST = 100_000
"""So many take it minutes: it is measured in the first round only."""

STEADY = 5
UNITS = {
    f"{when}_{what}": f"{refresh.WHAT[what]} {text}"
    for when, text in (
        ("full", "for a full list"),
        ("steady", f"for a refresh between full lists (ours: the median of {STEADY})"),
    )
    for what in ("cpu", "wall", "bytes")
} | {"memory": "bytes that the process grows by with its first refresh"}


def run(
    rounds: int,
    progress: Progress,
    *,
    sizes: Sequence[int] = SIZES,
    page: int = refresh.PAGE,
) -> Outcome:
    """Measure both sides at each size."""
    points = [_point(nodes, page, rounds, progress) for nodes in sizes]
    largest = points[-1]
    return Outcome(
        "sizes",
        ours=largest.ours,
        peer=largest.peer,
        units=UNITS,
        setting=refresh.setting()
        | {"nodes": int(largest.at), "changes a minute": round(largest.at * CHURN)},
        along="nodes",
        points=points,
    )


def quick(progress: Progress) -> Outcome:
    """Measure a small fleet."""
    return run(1, progress, sizes=(refresh.FEW["nodes"],), page=refresh.FEW["page"])


def _point(nodes: int, page: int, rounds: int, progress: Progress) -> Point:
    measured: dict[str, list[Figures]] = {"ours": [], "peer": []}
    for number in range(1, rounds + 1):
        names = ["ours", "peer"] if nodes < LONGEST or number == 1 else ["ours"]
        with refresh.fleet(nodes, progress, names, page=page) as stage:
            stage.pass_time(refresh.MINUTE, round(nodes * CHURN))
            for name in names if number % 2 else reversed(names):
                figures = _ours(stage, nodes) if name == "ours" else _peer(stage, nodes)
                measured[name].append(figures)
                progress(
                    f"{nodes:,} nodes, round {number} of {rounds}, {name}: "
                    f"{figures['full_cpu']:.3f} s of processor time for a full list, "
                    f"{figures['steady_cpu'] * 1000:.1f} ms in between, "
                    f"{figures['memory'] / 1e6:.1f} MB"
                )
    return Point(nodes, **measured)


def _ours(stage: refresh.Stage, nodes: int) -> Figures:
    changes = round(nodes * CHURN)
    first = stage.first("ours")
    stage.pass_time(refresh.PERIOD, changes)
    full = stage.refresh("ours", refresh.PERIOD)
    between = []
    for _ in range(STEADY):
        stage.pass_time(refresh.MINUTE, changes)
        between.append(stage.refresh("ours", refresh.MINUTE))
    # So that a sweep is not among them.
    assert STEADY * refresh.MINUTE <= refresh.PERIOD / 2
    steady = {name: statistics.median(one[name] for one in between) for name in full}
    return _figures(full, steady, first["memory"])


def _peer(stage: refresh.Stage, nodes: int) -> Figures:
    first = stage.first("peer")
    one = first if nodes >= LONG else stage.refresh("peer", refresh.MINUTE)
    return _figures(one, one, first["memory"])


def _figures(full: Figures, steady: Figures, memory: float) -> Figures:
    kinds = ("cpu", "wall", "bytes")
    return (
        {f"full_{what}": full[what] for what in kinds}
        | {f"steady_{what}": steady[what] for what in kinds}
        | {"memory": memory}
    )
