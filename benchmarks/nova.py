# SPDX-License-Identifier: Apache-2.0

"""``nova``: what the driver costs a real nova-compute, beside Nova's in-tree driver.

Each side is a whole Nova of its own with one nova-compute (:mod:`benchmarks.nova_sides`),
and all have the same 1,000 free nodes of the same real Ironic.  A round starts
nova-compute on empty records, and then has its resource periodic run some times, by
turns.  Before each turn one node in a hundred goes into maintenance or comes back.

The in-tree driver has two sides: with Nova's defaults, and tuned, which is with several
threads that see to the nodes.

After each round Placement must offer the same on all sides, namely what is free.
"""

from __future__ import annotations

import contextlib
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

import real_ironic
from benchmarks import ironic
from benchmarks.fleet import KINDS, TRAITS
from benchmarks.registry import Progress
from benchmarks.results import Outcome
from benchmarks.rounds import Figures
from benchmarks.side import Side

FEW = 8
CHURN = 0.01
REFRESHES = 3
WORKERS = 8
"""``[compute] update_resources_max_workers`` of the tuned side; Nova's default is 1."""
SCHEDULER, IRONIC = "scheduler", "ironic"
"""Who picks the node: the values of ``[ironic] node_selection``."""

_CLASSES = tuple(f"baremetal.kind-{kind}" for kind in range(4))
_SIDE = "benchmarks.nova_sides:Compute"
_WHAT = {
    "wall": "seconds on the wall",
    "cpu": "seconds of processor time of the whole process",
    "driver_wall": "seconds on the wall in the driver, Ironic's answers included",
    "driver_cpu": "seconds of processor time in the driver",
    "database_wall": "seconds on the wall in Nova's database",
    "placement_wall": "seconds on the wall in Placement",
    "database_queries": "queries to Nova's database",
    "ironic_requests": "requests to Ironic",
    "placement_requests": "requests to Placement",
}
_START = "for the start of nova-compute on empty records"
_STEADY = f"for update_available_resource: the median of {REFRESHES}"
_AT_WORK = ("driver_cpu", "database_queries", "ironic_requests", "placement_requests")
_BY_SEVERAL = ("driver_wall", "start_driver_wall")
"""Not told of the tuned side: its threads are in the driver together, and wait for each other
there, so the sum of their times is no time that passes."""
_STEADY_NAMES = {"wall": "steady_wall", "cpu": "steady_cpu"}
UNITS = {f"start_{name}": f"{unit} {_START}" for name, unit in _WHAT.items()} | {
    _STEADY_NAMES.get(name, name): f"{unit} {_STEADY}" for name, unit in _WHAT.items()
}


def run(
    rounds: int,
    progress: Progress,
    *,
    nodes: int,
    node_selection: str = SCHEDULER,
    benchmark: str = "nova",
) -> Outcome:
    """Measure all sides.

    :param node_selection: of ours.
    :param benchmark: which one this is, by name.
    """
    found: dict[str, list[Figures]] = {side: [] for side in _sides(node_selection)}
    with fleet(nodes, progress) as stage:
        for number in range(1, rounds + 1):
            for side, figures in _round(stage, number, node_selection).items():
                found[side].append(figures)
                progress(
                    f"round {number} of {rounds}, {side}: {figures['start_wall']:.1f} s to start, "
                    f"{figures['steady_wall']:.2f} s for a refresh, for which the driver works "
                    f"{figures['driver_cpu'] * 1000:.0f} ms"
                )
        version = stage.version
    return Outcome(
        benchmark,
        ours=found["ours"],
        peer=found["peer"],
        tuned=found["tuned"],
        units=UNITS,
        setting={
            "nodes": nodes,
            "changes before each refresh": stage.changes,
            "node_selection": node_selection,
            "update_resources_max_workers of tuned": WORKERS,
            "ironic": version,
        }
        | {name: metadata.version(name) for name in ("nova", "openstack-placement")},
    )


def quick(progress: Progress, *, nodes: int = FEW, **more: Any) -> Outcome:
    """The same, with few nodes and one round."""
    return run(1, progress, nodes=nodes, **more)


class Fleet:
    """The nodes of a real Ironic.

    :param uuids: of all, of four kinds in turn; all are free.
    :param put, delete: send a request to Ironic, given the path.
    """

    def __init__(
        self,
        uuids: Sequence[str],
        url: str,
        version: str,
        *,
        put: Callable[[str], Any],
        delete: Callable[[str], Any],
    ) -> None:
        self.url, self.version = url, version
        self.changes = max(1, round(len(uuids) * CHURN))
        self._uuids = uuids
        self._put, self._delete = put, delete
        self._away: set[int] = set()
        self._rng = random.Random("nova")

    def change(self) -> None:
        """Let some nodes go into maintenance, or come back from there."""
        for number in self._rng.sample(range(len(self._uuids)), self.changes):
            path = f"/v1/nodes/{self._uuids[number]}/maintenance"
            if number in self._away:
                self._delete(path)
            else:
                self._put(path)
            self._away ^= {number}

    def offered(self) -> dict[str, int]:
        """How many nodes of each resource class are free, by Placement's names."""
        free = set(range(len(self._uuids))) - self._away
        return dict(Counter(_placement_class(number) for number in free))


def _class(number: int) -> str:
    return _CLASSES[number % len(_CLASSES)]


def _placement_class(number: int) -> str:
    return "CUSTOM_" + _class(number).upper().replace(".", "_").replace("-", "_")


@contextlib.contextmanager
def fleet(nodes: int, progress: Progress) -> Iterator[Fleet]:
    """A real Ironic with so many nodes."""
    import requests

    with ironic.without_nodes(progress) as found, requests.Session() as session:
        progress(f"Making {nodes:,} nodes")
        template = real_ironic.NodeTemplate(
            properties=KINDS[0], resource_class=_class(0), traits=TRAITS
        )
        (first,) = real_ironic.create_nodes(found, 1, template)

        def differences(number: int) -> Mapping[str, Any]:
            # The first node is there already.
            kind = (number + 1) % len(_CLASSES)
            return {"properties": KINDS[kind], "resource_class": _class(kind)}

        clones = real_ironic.clone_nodes(found, first, nodes - 1, differences=differences)

        yield Fleet(
            [first, *clones],
            found.url,
            found.version,
            put=lambda path: ironic.send(session, "PUT", found.url + path),
            delete=lambda path: ironic.send(session, "DELETE", found.url + path),
        )


def _sides(node_selection: str) -> dict[str, dict[str, Any]]:
    """What is told to each side."""
    options = {} if node_selection == SCHEDULER else {"node_selection": node_selection}
    return {
        "ours": {"driver": "ours", "options": options},
        "peer": {"driver": "in-tree"},
        "tuned": {"driver": "in-tree", "workers": WORKERS},
    }


def _round(stage: Fleet, number: int, node_selection: str) -> dict[str, Figures]:
    """Start all sides and let them refresh in turns; who begins changes."""
    with contextlib.ExitStack() as stack:
        sides = {
            name: stack.enter_context(Side(_SIDE, url=stage.url, **told))
            for name, told in _sides(node_selection).items()
        }
        started = {name: sides[name].call("start") for name in _turned(sides, number - 1)}
        steady: dict[str, list[Figures]] = {name: [] for name in sides}
        for turn in range(REFRESHES):
            stage.change()
            for name in _turned(sides, number + turn):
                steady[name].append(sides[name].call("refresh"))
        for name, side in sides.items():
            compare(name, side.call("offered"), stage.offered())
    see_threads(started)
    found: dict[str, Figures] = {}
    for name, start in started.items():
        figures = figures_of(start, steady[name])
        see_all_at_work(name, figures)
        untold = _BY_SEVERAL if name == "tuned" else ()
        found[name] = {figure: value for figure, value in figures.items() if figure not in untold}
    return found


def _turned(names: Iterable[str], by: int) -> list[str]:
    """The same in the same order, but another one begins."""
    listed = list(names)
    first = by % len(listed)
    return listed[first:] + listed[:first]


def see_threads(started: Mapping[str, Figures]) -> None:
    """See that several threads saw to the nodes of the tuned side, and one to the others'.

    :raises AssertionError: it was not so, perhaps as the option has another name now.
    """
    for name, start in started.items():
        if (start["threads"] > 1) != (name == "tuned"):
            raise AssertionError(f"{start['threads']:g} threads saw to the nodes of {name}")


def compare(side: str, offered: Mapping[str, int], free: Mapping[str, int]) -> None:
    """See that Placement offers what is free.

    :raises AssertionError: it doesn't.
    """
    if {name: count for name, count in offered.items() if count} != free:
        raise AssertionError(f"Placement offers {offered} by {side}, but what is free is {free}")


def see_all_at_work(side: str, figures: Figures) -> None:
    """See that what is watched has been at work, in the start and in the refreshes.

    :raises AssertionError: something was not seen at work, perhaps as it has another name now.
    """
    for name in (*_AT_WORK, *(f"start_{name}" for name in _AT_WORK)):
        if not figures[name] > 0:
            raise AssertionError(f"{name} of {side} is {figures[name]}")


def figures_of(start: Figures, refreshes: Sequence[Figures]) -> dict[str, float]:
    """The figures of a round.

    :param start: what starting cost.
    :param refreshes: what the refreshes after it cost, of the same names.
    """
    figures = {f"start_{name}": start[name] for name in _WHAT}
    for name in _WHAT:
        typical = statistics.median(one[name] for one in refreshes)
        figures[_STEADY_NAMES.get(name, name)] = typical
    return figures
