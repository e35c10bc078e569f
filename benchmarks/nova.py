# SPDX-License-Identifier: Apache-2.0

"""``nova``: what the driver costs a real nova-compute, compared with Nova's in-tree driver.

Each side is a separate whole Nova with one nova-compute (:mod:`benchmarks.nova_sides`),
and all have the same 1,000 free nodes of the same real Ironic.  A round goes through
:data:`PHASES`: each side starts on empty records, runs its resource periodic in minutes of
three kinds, and is restarted.  The sides take turns at each phase.

Ours has two sides: in its default mode, and in pools.  The in-tree driver has two: with
Nova's defaults, and tuned, which is with several threads that see to the nodes.

``nova-33`` and ``nova-29`` are the same with an older Nova, in which nothing can be tuned;
``nova-ironic`` has our side in pools, and the peer.

After each round Placement must offer the same on all sides, namely what is free.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks import ironic, releases
from benchmarks.fleet import KINDS, TRAITS
from benchmarks.registry import Progress
from benchmarks.results import Outcome
from benchmarks.rounds import Figures
from benchmarks.side import Side
from tools import real_ironic

FEW = 8
CHURN = 0.01
WORKERS = 8
"""``[compute] update_resources_max_workers`` of the tuned side; Nova's default is 1."""
SCHEDULER, IRONIC = "scheduler", "ironic"
"""Who picks the node: the values of ``[ironic] node_selection``."""


class Phase(NamedTuple):
    """What is measured at a time.

    :param call: a method of :class:`~benchmarks.nova_sides.Compute`, and its arguments.
    :param what: it is, for people.
    :param changes: whether some nodes change before.
    :param tuned: whether it is measured of the tuned side, too.
    """

    call: tuple[Any, ...]
    what: str
    changes: bool = False
    tuned: bool = False


PHASES = {
    "start": Phase(("start",), "for the start of nova-compute on empty records", tuned=True),
    "idle": Phase(("refresh",), "for a minute in which nothing has changed"),
    "steady": Phase(
        ("refresh",),
        "for a minute in which 1 % of the nodes have changed",
        changes=True,
        tuned=True,
    ),
    # After more than resource_provider_association_refresh, which is 300 s.
    "sixth": Phase(
        ("refresh", 6), "for a sixth minute, 1 % changed: associations are read", changes=True
    ),
    "restart": Phase(("restart",), "for the restart of nova-compute"),
}

_CLASSES = tuple(f"baremetal.kind-{kind}" for kind in range(4))
_SIDE = "benchmarks.nova_sides:Compute"
_WHAT = {
    "wall": "seconds on the wall",
    "cpu": "seconds of processor time of the whole process",
    "placement_requests": "requests to Placement",
    "database_queries": "queries to Nova's database, calls to the conductor",
}
_WHERE = {
    "driver_wall": "seconds on the wall in the driver, Ironic's answers included",
    "driver_cpu": "seconds of processor time in the driver",
    "database_wall": "seconds on the wall in Nova's database",
    "placement_wall": "seconds on the wall in Placement",
    "ironic_requests": "requests to Ironic",
}
"""Of the minute of most days alone."""
_STEADY = {"wall": "steady_wall", "cpu": "steady_cpu"}
_AT_WORK = ("driver_cpu", "ironic_requests", "placement_requests", "database_queries")
_BY_SEVERAL = "driver_wall"
"""Not reported for the tuned side: its threads are in the driver together, and wait for each other
there, so the sum of their times is more than the time that passes."""


def _names(phase: str) -> dict[str, str]:
    """What a side calls a figure, to what it is called as one of a phase."""
    if phase == "steady":
        return {name: _STEADY.get(name, name) for name in (*_WHAT, *_WHERE)}
    return {name: f"{phase}_{name}" for name in _WHAT}


UNITS = {
    name: f"{(_WHAT | _WHERE)[figure]} {PHASES[phase].what}"
    for phase in ("steady", "idle", "sixth", "restart", "start")
    for figure, name in _names(phase).items()
}


def run(
    rounds: int,
    progress: Progress,
    *,
    nodes: int,
    node_selection: str = SCHEDULER,
    release: str = releases.NEWEST,
    benchmark: str = "nova",
) -> Outcome:
    """Measure all sides.

    :param node_selection: the option of our side.
    :param release: of OpenStack, whose Nova it is.
    :param benchmark: which one this is, by name.
    """
    environment = releases.environment(release, progress)
    sides = _sides(node_selection, release)
    found: dict[str, list[Figures]] = {side: [] for side in sides}
    with fleet(nodes, progress) as stage:
        for number in range(1, rounds + 1):
            for side, figures in _round(stage, number, sides, environment.side).items():
                found[side].append(figures)
                progress(
                    f"round {number} of {rounds}, {side}: {figures['start_wall']:.1f} s to start, "
                    f"{figures['steady_cpu']:.2f} s of processor time a minute, in which the "
                    f"driver works {figures['driver_cpu'] * 1000:.0f} ms"
                )
        version = stage.version
    return Outcome(
        benchmark,
        ours=found["ours"],
        peer=found["peer"],
        tuned=found.get("tuned", ()),
        pools=found.get("pools", ()),
        units=UNITS,
        setting={
            "nodes": nodes,
            "changes in a minute": stage.changes,
            "node_selection": node_selection,
            "ironic": version,
        }
        | ({"update_resources_max_workers of tuned": WORKERS} if "tuned" in found else {})
        | environment.versions,
    )


def quick(progress: Progress, *, nodes: int = FEW, **more: Any) -> Outcome:
    """Measure few nodes in one round."""
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


def _sides(node_selection: str, release: str) -> dict[str, dict[str, Any]]:
    """Return the arguments of each side."""
    pools = {"driver": "ours", "options": {"node_selection": IRONIC}}
    if node_selection == IRONIC:
        return {"ours": pools, "peer": {"driver": "in-tree"}}
    sides: dict[str, dict[str, Any]] = {
        "ours": {"driver": "ours"},
        "pools": pools,
        "peer": {"driver": "in-tree"},
    }
    if release == releases.NEWEST:
        sides["tuned"] = {"driver": "in-tree", "workers": WORKERS}
    return sides


def _round(
    stage: Fleet, number: int, told: Mapping[str, Mapping[str, Any]], make: Callable[..., Side]
) -> dict[str, Figures]:
    """Go through all phases, the sides by turns; who begins changes."""
    found: dict[str, dict[str, float]] = {name: {} for name in told}
    free: dict[str, dict[str, int]] = {}
    with contextlib.ExitStack() as stack:
        sides = {
            name: stack.enter_context(make(_SIDE, url=stage.url, **more))
            for name, more in told.items()
        }
        for turn, (phase, (call, _, changes, tuned)) in enumerate(PHASES.items()):
            if changes:
                stage.change()
            for name in _turned(sides, number + turn):
                if name != "tuned" or tuned:
                    found[name] |= figures_of(phase, sides[name].call(*call))
                    free[name] = stage.offered()
        for name, side in sides.items():
            compare(name, side.call("offered"), free[name])
        if "tuned" in sides:
            see_threads({name: side.call("threads") for name, side in sides.items()})
    for name, figures in found.items():
        see_all_at_work(name, figures)
        if name == "tuned":
            del figures[_BY_SEVERAL]
    return dict(found)


def _turned(names: Iterable[str], by: int) -> list[str]:
    """Return the names in the same order, beginning at another one."""
    listed = list(names)
    first = by % len(listed)
    return listed[first:] + listed[:first]


def see_threads(threads: Mapping[str, int]) -> None:
    """See that several threads saw to the nodes of the tuned side, and one to the others'.

    :raises AssertionError: it was not so, perhaps as the option has another name now.
    """
    for name, count in threads.items():
        if (count > 1) != (name == "tuned"):
            raise AssertionError(f"{count} threads saw to the nodes of {name}")


def compare(side: str, offered: Mapping[str, int], free: Mapping[str, int]) -> None:
    """See that Placement offers what is free.

    :raises AssertionError: it doesn't.
    """
    if {name: count for name, count in offered.items() if count} != free:
        raise AssertionError(f"Placement offers {offered} by {side}, but what is free is {free}")


def see_all_at_work(side: str, figures: Figures) -> None:
    """See that what is watched has been at work.

    :raises AssertionError: something was not seen at work, perhaps as it has another name now.
    """
    for name in _AT_WORK:
        if not figures[name] > 0:
            raise AssertionError(f"{name} of {side} is {figures[name]}")


def figures_of(phase: str, measured: Figures) -> dict[str, float]:
    """The figures of a phase, by their own names."""
    return {name: measured[figure] for figure, name in _names(phase).items()}
