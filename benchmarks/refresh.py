# SPDX-License-Identifier: Apache-2.0

"""``refresh``: what a compute service's refreshes cost in a whole resync period.

10,000 nodes, one in a hundred of them changing each minute, and a refresh each
minute by both sides, in turns.  A period has ten refreshes: ours lists all nodes
once, sweeps once, and else reads what changed; the peer lists all each time.

The server is a fake Ironic that answers from memory, so on the wall there is
little but the client's own time; a real Ironic adds its own, for each node listed.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

from benchmarks.registry import Progress
from benchmarks.results import Outcome, Point
from benchmarks.rounds import Figures
from benchmarks.side import Side

NODES = 10_000
PAGE = 1000
"""The most nodes in an answer; a fleet that fits on few pages is never swept."""

FEW = {"nodes": 400, "page": 100}
"""A small fleet that is refreshed like a large one."""
CHURN = 0.01
MINUTE = 60.0
REFRESHES = 10
PERIOD = REFRESHES * MINUTE
SIDES = {
    "ours": "benchmarks.refresh_sides:Ours",
    "peer": "benchmarks.refresh_sides:InTree",
}
WHAT = {
    "cpu": "seconds of processor time in the client",
    "wall": "seconds on the wall",
    "bytes": "bytes received by the client",
    "requests": "requests",
    "server_cpu": "seconds of processor time in the fake Ironic",
}
_WHEN = {
    "full": "for a full list",
    "delta": "for a refresh between full lists: the median of the nine",
    "period": "for all ten refreshes of a period",
}
UNITS = {f"{when}_{what}": f"{WHAT[what]} {_WHEN[when]}" for when in _WHEN for what in WHAT}
UNITS |= {what: f"{unit} for one refresh" for what, unit in WHAT.items()}


def run(rounds: int, progress: Progress, *, nodes: int = NODES, page: int = PAGE) -> Outcome:
    """Measure both sides; a round is a period."""
    changes = round(nodes * CHURN)
    periods: dict[str, list[list[Figures]]] = {"ours": [], "peer": []}
    with fleet(nodes, progress, page=page) as stage:
        # The warm-up: connections, imports, caches; and both must see the same.
        stage.pass_time(MINUTE, changes)
        stage.refresh_all(0)
        stage.compare()
        for number in range(1, rounds + 1):
            for side, refreshes in period(stage, changes, first=number == 1).items():
                periods[side].append(refreshes)
                total = over_a_period(refreshes)
                progress(
                    f"round {number} of {rounds}, {side}: {total['period_wall']:.2f} s and "
                    f"{total['period_bytes'] / 1e6:.1f} MB for ten refreshes"
                )
        stage.compare()
    points = [
        Point(
            at + 1,
            ours=[refreshes[at] for refreshes in periods["ours"]],
            peer=[refreshes[at] for refreshes in periods["peer"]],
        )
        for at in range(REFRESHES)
    ]
    return Outcome(
        "refresh",
        ours=[over_a_period(refreshes) for refreshes in periods["ours"]],
        peer=[over_a_period(refreshes) for refreshes in periods["peer"]],
        units=UNITS,
        setting=setting() | {"nodes": nodes, "changes a minute": changes},
        along="refresh",
        points=points,
    )


def quick(progress: Progress) -> Outcome:
    """Measure few nodes in one period."""
    return run(1, progress, **FEW)


class Stage:
    """A fleet and both sides, each in its own process."""

    def __init__(self, fleet: Side, sides: Mapping[str, Side]) -> None:
        self._fleet = fleet
        self.sides = sides
        self._turn = 0

    def pass_time(self, seconds: float, changes: int) -> None:
        """Let so many nodes change in so many seconds."""
        self._fleet.call("live", seconds, changes)

    def refresh(self, name: str, after: float) -> dict[str, float]:
        """A refresh by one side.

        :param after: seconds since its last one.
        :returns: the figures of :data:`WHAT`.
        """
        return self._refresh(name, "refresh", after)

    def first(self, name: str) -> dict[str, float]:
        """The first refresh of a side; ``memory`` in bytes is among the figures."""
        return self._refresh(name, "first")

    def refresh_all(self, after: float) -> dict[str, dict[str, float]]:
        """A refresh by each side, in turns.

        :returns: the figures by side.
        """
        self._turn += 1
        names = list(self.sides)
        return {
            name: self.refresh(name, after)
            for name in (names if self._turn % 2 else reversed(names))
        }

    def _refresh(self, name: str, method: str, *arguments: float) -> dict[str, float]:
        instances = self._fleet.call("instances")
        self._fleet.call("requests")
        before = self._fleet.call("processor_time")
        figures: dict[str, float] = self.sides[name].call(method, instances, *arguments)
        figures["server_cpu"] = self._fleet.call("processor_time") - before
        figures["requests"] = len(self._fleet.call("requests"))
        return figures

    def compare(self, names: Sequence[str] | None = None) -> None:
        """See that each side knows all nodes as they are now, having refreshed.

        :param names: of the sides; all by default.
        :raises AssertionError: one doesn't.
        """
        content = self._fleet.call("content")
        for name in names or self.sides:
            if self.sides[name].call("content") != content:
                raise AssertionError(f"{name} doesn't know the nodes as they are")


@contextlib.contextmanager
def fleet(
    nodes: int,
    progress: Progress,
    names: Sequence[str] = tuple(SIDES),
    *,
    page: int = PAGE,
) -> Iterator[Stage]:
    """A fleet, and sides that have not refreshed yet."""
    progress(f"Making {nodes:,} nodes")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Side("benchmarks.fleet:Fleet", nodes=nodes, page=page))
        url = server.call("url")
        sides = {name: stack.enter_context(Side(SIDES[name], url=url)) for name in names}
        yield Stage(server, sides)


def period(stage: Stage, changes: int, *, first: bool) -> dict[str, list[Figures]]:
    """A period's refreshes, each a minute after the last.

    :param first: a full list is not due yet; let the time pass until it is.
    """
    found: dict[str, list[Figures]] = {name: [] for name in stage.sides}
    for number in range(REFRESHES):
        after = PERIOD if first and number == 0 else MINUTE
        stage.pass_time(after, changes)
        for name, figures in stage.refresh_all(after).items():
            found[name].append(figures)
    return found


def over_a_period(refreshes: Sequence[Figures]) -> dict[str, float]:
    """The figures of a period; its first refresh is the one that lists all nodes."""
    full, *between = refreshes
    figures: dict[str, float] = {}
    for what in WHAT:
        figures[f"full_{what}"] = full[what]
        figures[f"delta_{what}"] = statistics.median(one[what] for one in between)
        figures[f"period_{what}"] = sum(one[what] for one in refreshes)
    return figures


def setting() -> dict[str, Any]:
    """Which versions were measured."""
    return {name: metadata.version(name) for name in ("nova", "openstacksdk")}
