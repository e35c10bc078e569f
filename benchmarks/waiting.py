# SPDX-License-Identifier: Apache-2.0

"""``waiting``: compute services that wait until their deployments are done.

One fake Ironic over HTTP has, for each side and number of deployments, a shard with
so many nodes that are being deployed, and a compute service of that shard in a
its own process:

* ours is the driver's ``spawn``, called for deployments that are under way;
* the peer is Nova's ``_wait_for_active`` under the looping call of its ``spawn``.

Both look at the interval that is their default, 2 s for either.  When all are
waiting, time begins to run for the nodes, as long for the n-th node of one side as
for that of the other; only what is asked from then on counts.  Time is real.  Ours
doesn't protect what it has deployed, which is not part of a wait.

Several numbers of deployments, and always both sides, wait at the same time, so what
disturbs one disturbs the other.  The largest number waits by itself, in the first
round only: it takes most of a processor on the peer's side.
"""

from __future__ import annotations

import collections
import contextlib
import math
import random
import statistics
import threading
import time
import urllib.parse
import uuid
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import NamedTuple

from benchmarks.registry import Progress
from benchmarks.results import Outcome, Point
from benchmarks.rounds import Figures
from benchmarks.side import Side
from ironic_virt.testing.fake_ironic import FakeIronicServer
from ironic_virt.testing.fake_ironic.journal import Entry

SIZES = (1, 10, 50, 100, 200)
"""Numbers of deployments that wait at the same time."""

LARGE = 500
"""A number of deployments that waits by itself."""

QUOTED = 200
"""The number of deployments that the ratios are of."""

SECONDS = (50.0, 70.0)
"""How long a deployment takes, from and to."""

SETTLE = 5.0
"""Seconds from when all wait to when time begins to run for the nodes."""

SIDES = {
    "ours": "benchmarks.waiting_sides:Ours",
    "peer": "benchmarks.waiting_sides:InTree",
}
UNITS = {
    "requests": "requests to Ironic for all waits together",
    "delay": "seconds from when a node is active until its wait is over, median of the nodes",
    "delay_95": "seconds as for delay, but the 95th percentile of the nodes",
}


# -- what the nodes do --------------------------------------------------------


def durations(count: int, seed: int, seconds: tuple[float, float] = SECONDS) -> list[float]:
    """Seconds that each of so many deployments takes."""
    rng = random.Random(f"waiting {count} {seed}")
    return [rng.uniform(*seconds) for _ in range(count)]


def phases(duration: float) -> list[tuple[float, str]]:
    """When a node comes into which state; it begins in ``deploying``.

    As with real hardware, most of the time a ramdisk is waited for.
    """
    return [
        (0.1 * duration, "wait call-back"),
        (0.9 * duration, "deploying"),
        (duration, "active"),
    ]


# -- what was asked and when it ended -----------------------------------------


def whose(path: str, query: str, owners: Mapping[str, str]) -> str | None:
    """Whose request it was.

    :param owners: shard, node's and instance's uuid to who has it.
    :returns: ``None``: nobody's.
    """
    named = [value for _, value in urllib.parse.parse_qsl(query)]
    found = {owners[word] for word in (*path.split("/"), *named) if word in owners}
    return found.pop() if len(found) == 1 else None


def figures(requests: int, delays: Sequence[float]) -> Figures:
    """Return the figures of one side's waits, by the names of :data:`UNITS`."""
    return {
        "requests": float(requests),
        "delay": statistics.median(delays),
        "delay_95": sorted(delays)[math.ceil(len(delays) * 0.95) - 1],
    }


class Tally:
    """Counts requests by whose they are.

    :ivar strays: those that are nobody's.
    :ivar changes: those that change something, since the tally was made.
    """

    def __init__(self, owners: Mapping[str, str]) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.strays: list[str] = []
        self.changes: list[str] = []
        self._owners = owners
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Count from now on."""
        with self._lock:
            self.counts.clear()
            self.strays.clear()

    def add(self, entry: Entry) -> None:
        """A request was answered."""
        owner = whose(entry.path, entry.query, self._owners)
        request = f"{entry.method} {entry.path}?{entry.query}"
        with self._lock:
            if entry.method != "GET":
                self.changes.append(request)
            if owner is None:
                self.strays.append(request)
            else:
                self.counts[owner] += 1


# -- measuring ----------------------------------------------------------------


def run(rounds: int, progress: Progress) -> Outcome:
    """Measure both sides; see the module."""
    found = _measure(SIZES, rounds, SECONDS, SETTLE, progress)
    found |= _measure((LARGE,), 1, SECONDS, SETTLE, progress)
    return _outcome(found, QUOTED, SECONDS)


def quick(progress: Progress) -> Outcome:
    """Measure few and short deployments."""
    seconds = (2.0, 3.0)
    return _outcome(_measure((3,), 1, seconds, 0.5, progress), 3, seconds)


def _outcome(
    found: Mapping[int, Mapping[str, Sequence[Figures]]],
    quoted: int,
    seconds: tuple[float, float],
) -> Outcome:
    return Outcome(
        "waiting",
        ours=found[quoted]["ours"],
        peer=found[quoted]["peer"],
        units=UNITS,
        setting={
            "deployments": quoted,
            "seconds": list(seconds),
            "nova": metadata.version("nova"),
            "openstacksdk": metadata.version("openstacksdk"),
        },
        along="deployments",
        points=[Point(size, sides["ours"], sides["peer"]) for size, sides in found.items()],
    )


class _Service(NamedTuple):
    """A compute service under measurement, and the shard of its nodes."""

    name: str
    size: int

    @property
    def shard(self) -> str:
        return f"{self.name}-{self.size}"


def _measure(
    sizes: Sequence[int],
    rounds: int,
    seconds: tuple[float, float],
    settle: float,
    progress: Progress,
) -> dict[int, dict[str, list[Figures]]]:
    """All rounds by size and side; all sizes and both sides wait at the same time."""
    found: dict[int, dict[str, list[Figures]]] = {
        size: {name: [] for name in SIDES} for size in sizes
    }
    with contextlib.ExitStack() as stack:
        # The peer gives up when a connection is closed on it, which is not measured here.
        server = stack.enter_context(FakeIronicServer(journal_size=0, threads=32, idle=600))
        services = {
            service: stack.enter_context(
                Side(SIDES[service.name], url=server.url, shard=service.shard)
            )
            for service in (_Service(name, size) for size in sizes for name in SIDES)
        }
        for number in range(1, rounds + 1):
            wave = _Wave(server, services, number, seconds)
            for service, of_round in wave.figures(settle).items():
                found[service.size][service.name].append(of_round)
                progress(
                    f"round {number} of {rounds}, {service.name}, {service.size} deployments: "
                    f"{of_round['requests']:.0f} requests, end seen after "
                    f"{of_round['delay']:.2f} s"
                )
    return found


class _Wave:
    """One round: nodes for every service, and what the waits for them cost."""

    def __init__(
        self,
        server: FakeIronicServer,
        services: Mapping[_Service, Side],
        number: int,
        seconds: tuple[float, float],
    ) -> None:
        self._fake = server.fake
        self._services = services
        self._nodes = {service: self._deploy(service, number) for service in services}
        self._changes = sorted(
            (at, node, instance, state)
            for service, pairs in self._nodes.items()
            for (instance, node), duration in zip(
                pairs, durations(service.size, number, seconds), strict=True
            )
            for at, state in phases(duration)
        )

    def _deploy(self, service: _Service, number: int) -> list[tuple[str, str]]:
        """Nodes that are being deployed: each one's instance and uuid."""
        rng = random.Random(f"{service.shard} {number}")
        pairs = []
        for node in self._fake.add_nodes(service.size, shard=service.shard, ports=0):
            instance = str(uuid.UUID(int=rng.getrandbits(128), version=4))
            self._fake.set_node(
                node,
                instance_uuid=instance,
                instance_info={"display_name": "server"},
                provision_state="deploying",
                target_provision_state="active",
            )
            pairs.append((instance, node))
        return pairs

    def figures(self, settle: float) -> dict[_Service, Figures]:
        """Let it run.

        :param settle: seconds from when all wait to when time begins to run for the nodes.
        """
        owners = {service.shard: service.shard for service in self._services}
        for service, pairs in self._nodes.items():
            owners |= {word: service.shard for pair in pairs for word in pair}
        tally = Tally(owners)
        self._fake.requests.listener = tally.add
        for service, side in self._services.items():
            side.call("begin", self._nodes[service])
        time.sleep(settle)
        tally.begin()
        active = self._live()
        returned = {service: side.call("returned") for service, side in self._services.items()}
        self._fake.requests.listener = None
        if tally.changes:
            raise AssertionError(f"who only waits changes nothing: {tally.changes[:3]}")
        if tally.strays:
            raise AssertionError(f"nobody knows whose these requests are: {tally.strays[:3]}")
        return {
            service: figures(
                tally.counts[service.shard],
                [returned[service][instance] - active[instance] for instance, _ in pairs],
            )
            for service, pairs in self._nodes.items()
        }

    def _live(self) -> dict[str, float]:
        """Let the deployments take their time.

        :returns: instance to the moment when its node was active, on the monotonic clock.
        """
        active = {}
        began = time.monotonic()
        for at, node, instance, state in self._changes:
            time.sleep(max(0.0, began + at - time.monotonic()))
            is_active = state == "active"
            if is_active:
                active[instance] = time.monotonic()
            self._fake.set_node(
                node,
                provision_state=state,
                target_provision_state=None if is_active else "active",
            )
        return active
