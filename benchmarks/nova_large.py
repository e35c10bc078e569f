# SPDX-License-Identifier: Apache-2.0

"""``nova-33-large``: processor time of a minute with 3,000 nodes, by Nova 33.

Ours is measured whole: a start on empty records, and then minutes in which nothing, and in
which 1 % of the nodes, have changed.

Nova's in-tree driver would need hours, as each node's pass takes longer the more nodes there
are.  It is measured with five nodes, while Nova's report client knows 3,000 providers: the
time of a pass, multiplied by the number of nodes.  Other costs of a minute are
left out.
"""

from __future__ import annotations

from typing import Any

from benchmarks import nova, releases
from benchmarks.registry import Progress
from benchmarks.results import Outcome
from benchmarks.rounds import Figures

RELEASE = "2026.1"
MEASURED = 5
_SIDE = "benchmarks.nova_sides:Compute"
_WHAT = "seconds of processor time of the whole process"
UNITS = {
    "steady_cpu": f"{_WHAT} for a minute, 1 % changed; of the peer five nodes, multiplied",
    "idle_cpu": f"{_WHAT} for a minute, nothing changed; of the peer five nodes, multiplied",
    "start_cpu": f"{_WHAT} for the start of nova-compute on empty records",
}


def run(rounds: int, progress: Progress, *, nodes: int) -> Outcome:
    """Measure; see the module."""
    environment = releases.environment(RELEASE, progress)
    found: dict[str, list[Figures]] = {"ours": [], "peer": []}
    with (
        nova.fleet(MEASURED, progress) as few,
        environment.side(_SIDE, url=few.url, driver="in-tree") as peer,
    ):
        peer.call("start")
        for number in range(1, rounds + 1):
            a_pass = peer.call("passes", nodes)
            progress(f"round {number} of {rounds}, peer: {a_pass * 1000:.0f} ms for a pass")
            found["peer"].append(dict.fromkeys(("steady_cpu", "idle_cpu"), a_pass * nodes))
    with (
        nova.fleet(nodes, progress) as stage,
        environment.side(_SIDE, url=stage.url, driver="ours") as ours,
    ):
        start = ours.call("start")["cpu"]
        for number in range(1, rounds + 1):
            figures = {"idle_cpu": ours.call("refresh")["cpu"], "start_cpu": start}
            stage.change()
            figures["steady_cpu"] = ours.call("refresh")["cpu"]
            progress(f"round {number} of {rounds}, ours: {figures['steady_cpu']:.2f} s a minute")
            found["ours"].append(figures)
        nova.compare("ours", ours.call("offered"), stage.offered())
        version = stage.version
    return Outcome(
        "nova-33-large",
        ours=found["ours"],
        peer=found["peer"],
        units=UNITS,
        setting={"nodes": nodes, "measured of the peer": MEASURED, "ironic": version}
        | environment.versions,
    )


def quick(progress: Progress, *, nodes: int = nova.FEW, **more: Any) -> Outcome:
    """Measure few nodes in one round."""
    return run(1, progress, nodes=nodes, **more)
