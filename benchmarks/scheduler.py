# SPDX-License-Identifier: Apache-2.0

"""``scheduler``: one of 100,000 free nodes for a request that names exact sizes.

Both sides know the same 100,000 nodes of twelve kinds, each in its own process, and
are asked for the kinds by turns:

* ours is a client of the reference service with ``use_baremetal_filters``, as the command that
  creates a server: it reads what is free from the records in an SQLite file, runs filters
  (resource class, exact sizes, traits, capabilities) and weighers over a sample of the class,
  and writes claim and instance;
* the peer is Nova's filter handler, its ``ComputeCapabilitiesFilter`` and its weight
  handler over its own ``HostState`` of each node, made before: the filter compares
  the exact sizes and the capability, and resource class and traits, which in Nova
  are Placement's, are left out, as are its databases and the claim.

What is measured is a request, from the flavor to the node that nobody else gets: of the
peer, to the consumed host state.  Before the rounds, both sides tell how many nodes would do
for each kind.

What a client costs that has just started, and what happens when several race for the last
nodes, is in :mod:`benchmarks.claims`; the peer has no such thing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import metadata

from benchmarks import claims
from benchmarks.registry import Progress
from benchmarks.results import Outcome, Point
from benchmarks.rounds import Figures, joined, take_turns
from benchmarks.side import Side
from tests import databases

SIZES = (1000, 10_000, 100_000)
RACING = 1000
PICKS = {"ours": 48, "peer": 3}
SIDES = {
    "ours": "benchmarks.scheduler_sides:Ours",
    "peer": "benchmarks.scheduler_sides:NovaFilters",
}
UNITS = {
    "pick": "seconds of processor time for one request, the median of a round",
    "wall": "seconds on the wall for one request, the median of a round",
}


def run(
    rounds: int,
    progress: Progress,
    *,
    sizes: Sequence[int] = SIZES,
    racing: int = RACING,
    clients: int = claims.CLIENTS,
) -> Outcome:
    """Measure both sides with each number of nodes; see the module."""
    points = [_point(nodes, rounds, progress) for nodes in sizes]
    largest = points[-1]
    nodes = int(largest.at)
    fresh, races = [], {}
    for kind in claims.KINDS_OF_DATABASE:
        with databases.server(kind) as server:
            fresh.append(claims.fresh(server, nodes, rounds, progress))
            races[kind] = claims.race(server, racing, clients, progress)
    return Outcome(
        "scheduler",
        ours=joined(largest.ours, *fresh),
        peer=largest.peer,
        units=UNITS | claims.UNITS,
        setting={
            "nodes": nodes,
            "picks a round": PICKS,
            "races": races,
            "nova": metadata.version("nova"),
        },
        along="nodes",
        points=points,
    )


def quick(progress: Progress) -> Outcome:
    """Measure few nodes, once."""
    return run(1, progress, sizes=(60,), racing=8, clients=2)


def _point(nodes: int, rounds: int, progress: Progress) -> Point:
    with (
        Side(SIDES["ours"], nodes=nodes, picks=PICKS["ours"]) as ours,
        Side(SIDES["peer"], nodes=nodes, picks=PICKS["peer"]) as peer,
    ):
        progress(f"Making {nodes} records, and as many host states of Nova's")
        fitting = ours.call("fitting")
        if fitting != peer.call("fitting") or sum(fitting) != nodes:
            raise AssertionError(f"the sides don't pass the same nodes: {fitting}")

        def report(number: int, name: str, figures: Figures) -> None:
            progress(
                f"{nodes} nodes, round {number} of {rounds}, {name}: "
                f"{figures['pick'] * 1000:.3f} ms of processor time a pick"
            )

        timed = {
            name: functools.partial(side.call, "picks")
            for name, side in (("ours", ours), ("peer", peer))
        }
        found = take_turns(timed, rounds, report)
    return Point(nodes, found["ours"], found["peer"])
