# SPDX-License-Identifier: Apache-2.0

"""``churn``: what a refresh between full lists costs, by how many nodes have changed.

10,000 nodes; none, one in a thousand, one in a hundred or one in ten
changes each minute.  Our figure is the median of the refreshes of three minutes;
the peer lists all nodes in any case, and is measured once for each round.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks import refresh
from benchmarks.registry import Progress
from benchmarks.results import Outcome, Point
from benchmarks.rounds import Figures

NODES = 10_000
SHARES = (0.0, 0.001, 0.01, 0.1)
HEADLINE = 0.01
MINUTES = 3
PEER_ROUNDS = 1
UNITS = {what: f"{unit} for one refresh" for what, unit in refresh.WHAT.items()}


def run(
    rounds: int,
    progress: Progress,
    *,
    nodes: int = NODES,
    page: int = refresh.PAGE,
    shares: Sequence[float] = SHARES,
) -> Outcome:
    """Measure both sides at each share of changed nodes."""
    measured: dict[float, dict[str, list[Figures]]] = {
        share: {"ours": [], "peer": []} for share in shares
    }
    with refresh.fleet(nodes, progress, page=page) as stage:
        stage.pass_time(refresh.MINUTE, round(nodes * HEADLINE))
        stage.refresh_all(0)
        stage.compare()
        for number in range(1, rounds + 1):
            for share in shares if number % 2 else reversed(shares):
                names = ("ours", "peer") if number <= PEER_ROUNDS else ("ours",)
                for name, figures in _round(stage, round(nodes * share), names).items():
                    measured[share][name].append(figures)
                    progress(
                        f"{share:.1%} of the nodes, round {number} of {rounds}, {name}: "
                        f"{figures['cpu'] * 1000:.1f} ms of processor time, "
                        f"{figures['bytes'] / 1000:.0f} kB"
                    )
        stage.compare(["ours"])
    points = [Point(share * 100, **found) for share, found in measured.items()]
    headline = next(point for point in points if point.at == HEADLINE * 100)
    return Outcome(
        "churn",
        ours=headline.ours,
        peer=headline.peer,
        units=UNITS,
        setting=refresh.setting() | {"nodes": nodes, "changes a minute": round(nodes * HEADLINE)},
        along="changed nodes a minute in percent",
        points=points,
    )


def quick(progress: Progress) -> Outcome:
    """Measure a few nodes with few or no changes."""
    return run(1, progress, shares=(0.0, HEADLINE), **refresh.FEW)


def _round(stage: refresh.Stage, changes: int, names: Sequence[str]) -> dict[str, Figures]:
    # A full list, so that no sweep falls due among what follows.
    stage.pass_time(refresh.PERIOD, changes)
    stage.refresh("ours", refresh.PERIOD)
    refreshes = []
    # The first one finds the page's size for so many changes.
    for _ in range(1 + MINUTES):
        stage.pass_time(refresh.MINUTE, changes)
        refreshes.append(stage.refresh("ours", refresh.MINUTE))
    steady = refreshes[1:]
    found: dict[str, Figures] = {
        "ours": {name: statistics.median(one[name] for one in steady) for name in steady[0]}
    }
    if "peer" in names:
        found["peer"] = stage.refresh("peer", refresh.MINUTE)
    return found
