# SPDX-License-Identifier: Apache-2.0

"""Which benchmarks there are.

A benchmark is a module with ``run(rounds, progress)``, which returns an
:class:`~benchmarks.results.Outcome`, and ``quick(progress)``, which measures less.
It is imported when it is run, so that listing the benchmarks needs none of their
peers.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.plots import Panel, Plot
from benchmarks.results import Outcome

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A benchmark by name.

    :param module: what holds its ``run``.
    :param required: the lowest allowed ratio of the peer to our side.
    :param limits: the most that one of our figures may be.
    :param rounds: how often each side is measured by default.
    :param takes: what else its ``run`` and ``quick`` can take, by keyword, and what
        ``run`` takes for a record.
    :param arguments: what both always take.
    :param recorded: whether its figures are in ``benchmarks/results`` and documented.
    :param by_name: whether it is run only if it is named, as it needs its own environment.
    """

    name: str
    summary: str
    module: str
    required: Mapping[str, float]
    limits: Mapping[str, float] = dataclasses.field(default_factory=dict)
    rounds: int = 5
    plots: Sequence[Plot] = ()
    takes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    recorded: bool = True
    by_name: bool = False

    def run(self, rounds: int | None, progress: Progress, **more: Any) -> Outcome:
        """Measure.

        :param rounds: how often each side is measured; its own number by default.
        :param progress: called with what goes on.
        :param more: of what it takes.
        """
        module = importlib.import_module(self.module)
        told = {**self.takes, **more, **self.arguments}
        outcome: Outcome = module.run(rounds or self.rounds, progress, **told)
        return outcome

    def quick(self, progress: Progress, **more: Any) -> Outcome:
        """See that it can be run: measure little, once.  The figures mean nothing."""
        module = importlib.import_module(self.module)
        outcome: Outcome = module.quick(progress, **more, **self.arguments)
        return outcome


RELEASES = {"nova-29": "Nova 29", "nova-33": "Nova 33", "nova": "Nova 34"}
"""The benchmarks of a whole Nova in one process, and whose it is."""


def of_release(figure: str, benchmark: str) -> str:
    """The name of a figure among those of several releases."""
    return f"{figure} of {benchmark}"


OVERVIEW = Plot(
    "overview",
    "With 1,000 nodes, Nova's own driver takes at least {ratio} times the processor time",
    tuple(
        Panel(title, {of_release(figure, name): nova for name, nova in RELEASES.items()})
        for title, figure in (
            ("A period of nova-compute, in which 1 % have changed", "steady_cpu"),
            ("A restart of nova-compute", "restart_cpu"),
        )
    ),
    y="linear",
    ours="ironic_virt, default",
    width=4.0,
    horizontal=True,
)
"""Of the records of :data:`RELEASES` together, for readers in a hurry."""

NODE_SELECTION = {"scheduler": "nova", "ironic": "nova-ironic"}
"""By who picks the node: which benchmark ``nova`` is."""

_SETTLED = {"placement_requests": 40, "database_queries": 60, "restart_cpu": 10}
"""Requirements of the default mode in each release of Nova, next to the period's time."""
_IDLE = {"idle_cpu": 0.4, "idle_placement_requests": 2}


def _of_phases(name: str, nova: str) -> Plot:
    phases = {
        "start_{}": "first start",
        "restart_{}": "restart",
        "idle_{}": "nothing\nchanged",
        "{}": "1 %\nchanged",
    }
    requests = {phase.format("placement_requests"): label for phase, label in phases.items()}
    times = {phase.format("cpu"): label for phase, label in phases.items() if phase != "{}"}
    return Plot(
        name,
        f"A nova-compute with 1,000 nodes, {nova}",
        (
            Panel("Processor time", times | {"steady_cpu": phases["{}"]}),
            Panel("Requests to Placement", requests),
        ),
    )


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "listing",
            "list 2,000 nodes of a real Ironic: ours against Nova's in-tree driver",
            "benchmarks.listing",
            required={"client_cpu": 50, "memory": 5},
            plots=(
                Plot(
                    "listing",
                    "A list of 2,000 nodes of a real Ironic",
                    (
                        Panel(
                            "Time for one list",
                            {"client_cpu": "processor time\nin the client", "wall": "wall time"},
                        ),
                        Panel(
                            "Memory for each node",
                            {
                                "memory": "as tracemalloc\ncounts",
                                "resident": "growth of\nthe process",
                            },
                        ),
                    ),
                ),
            ),
        ),
        Benchmark(
            "refresh",
            "ten refreshes of 10,000 nodes, of which 1 % change each minute",
            "benchmarks.refresh",
            required={
                "delta_bytes": 20,
                "delta_wall": 20,
                "period_bytes": 5,
                "period_wall": 5,
                "full_cpu": 80,
            },
            rounds=3,
            plots=(
                Plot(
                    "refresh",
                    "Ten refreshes, a minute apart: 10,000 nodes, 1 % of which change each minute",
                    (
                        Panel("Received by the client", {"bytes": ""}),
                        Panel("Time on the wall", {"wall": ""}),
                        Panel("Processor time in the client", {"cpu": ""}),
                    ),
                    along="refresh of the period, one each minute",
                ),
            ),
        ),
        Benchmark(
            "churn",
            "a refresh between full lists of 10,000 nodes, by how many have changed",
            "benchmarks.churn",
            required={"bytes": 20, "wall": 20},
            plots=(
                Plot(
                    "churn",
                    "A refresh between full lists, by how many of 10,000 nodes have changed",
                    (
                        Panel("Received by the client", {"bytes": ""}),
                        Panel("Time on the wall", {"wall": ""}),
                        Panel("Processor time in the client", {"cpu": ""}),
                    ),
                    along="nodes that change each minute, in percent",
                    x="list",
                ),
            ),
        ),
        Benchmark(
            "sizes",
            "refreshes and memory for 100 to 100,000 nodes",
            "benchmarks.sizes",
            required={"full_cpu": 80, "steady_bytes": 20, "steady_wall": 20},
            limits={"full_cpu": 3.0, "steady_cpu": 0.3, "memory": 250e6},
            rounds=3,
            plots=(
                Plot(
                    "sizes-refresh",
                    "Cost of a refresh by the number of nodes, 1 % of which change each minute",
                    tuple(
                        Panel(
                            title,
                            {f"full_{what}": "full list", f"steady_{what}": "between full lists"},
                            # Each refresh of the peer is a full list.
                            only={f"steady_{what}": "ours"},
                        )
                        for what, title in (
                            ("cpu", "Processor time in the client"),
                            ("wall", "Time on the wall"),
                            ("bytes", "Received by the client"),
                        )
                    ),
                    along="nodes",
                    x="log",
                ),
                Plot(
                    "sizes-memory",
                    "Memory by the number of nodes",
                    (Panel("Growth of the process with its first refresh", {"memory": ""}),),
                    along="nodes",
                    x="log",
                ),
            ),
        ),
        Benchmark(
            "waiting",
            "1 to 500 deployments that are waited for at once",
            "benchmarks.waiting",
            required={"requests": 20, "delay": 1},
            rounds=3,
            plots=(
                Plot(
                    "waiting-requests",
                    "Waiting until deployments of 50 to 70 s are done",
                    (Panel("Requests to Ironic for all waits together", {"requests": ""}),),
                    along="deployments that are waited for at once",
                    x="log",
                ),
                Plot(
                    "waiting-delay",
                    "Waiting until deployments of 50 to 70 s are done",
                    (Panel("From active to its being seen, median", {"delay": ""}),),
                    along="deployments that are waited for at once",
                    x="log",
                    y="linear",
                ),
            ),
        ),
        Benchmark(
            "scheduler",
            "get one of 100,000 free nodes: a client of ours against Nova's filters and weighers",
            "benchmarks.scheduler",
            required={"pick": 20},
            limits={
                "pick": 0.03,
                "claim_sqlite": 0.05,
                "claim_mariadb": 0.05,
                "claim_sqlite_cpu": 0.05,
                "claim_mariadb_cpu": 0.05,
            },
            plots=(
                Plot(
                    "scheduler",
                    "A node for a request with exact sizes",
                    (Panel("Processor time for one request", {"pick": ""}),),
                    along="free nodes",
                    x="log",
                    peer="Nova's filters and weighers",
                ),
            ),
        ),
        Benchmark(
            "inventory",
            "100,000 nodes of many kinds: full lists, refreshes, sweeps and memory; ours alone",
            "benchmarks.inventory",
            required={},
            limits={
                "full_cpu": 3.0,
                "steady_cpu_0.0%": 0.3,
                "steady_cpu_0.1%": 0.3,
                "steady_cpu_1.0%": 0.3,
                "memory": 250e6,
                "resident": 250e6,
            },
            rounds=3,
            plots=(
                Plot(
                    "inventory",
                    "100,000 nodes of many kinds",
                    (
                        Panel(
                            "Processor time in the client",
                            {
                                "full_cpu": "full list",
                                "sweep_cpu_1.0%": "1 % changed,\nand a sweep",
                                "steady_cpu_1.0%": "1 %\nchanged",
                                "steady_cpu_0.1%": "0.1 %\nchanged",
                                "steady_cpu_0.0%": "nothing\nchanged",
                            },
                        ),
                        Panel(
                            "Received by the client",
                            {
                                "full_bytes": "full list",
                                "sweep_bytes_1.0%": "1 % changed,\nand a sweep",
                                "steady_bytes_1.0%": "1 %\nchanged",
                                "steady_bytes_0.1%": "0.1 %\nchanged",
                                "steady_bytes_0.0%": "nothing\nchanged",
                            },
                        ),
                    ),
                ),
            ),
        ),
        Benchmark(
            "fleet",
            "ironic-virt-fleet on 10,000 nodes: what each command that only reads takes",
            "benchmarks.fleet_tools",
            required={},
            limits={
                f"{verb}_{name}": most
                for verb in ("check", "plan", "apply")
                for name, most in (("wall", 60.0), ("memory", 500e6))
            },
            rounds=1,
            recorded=False,
        ),
        Benchmark(
            "creates",
            "200 servers at once on the reference service, whose deployments take no time",
            "benchmarks.creates",
            required={},
            limits={"wall": 1 / 40, "cpu": 0.015},
            rounds=3,
            recorded=False,
        ),
        Benchmark(
            "nova",
            "start, refresh and restart a real nova-compute with 1,000 nodes, with either driver",
            "benchmarks.nova",
            required={"steady_cpu": 20, "driver_cpu": 20, "start_cpu": 0.9, **_SETTLED},
            limits=_IDLE,
            rounds=3,
            takes={"nodes": 1000},
            plots=(_of_phases("nova", "Nova 34"),),
        ),
        Benchmark(
            "nova-33",
            "the same with Nova 33",
            "benchmarks.nova",
            required={"steady_cpu": 60, "start_cpu": 1.8, **_SETTLED},
            limits=_IDLE,
            rounds=3,
            takes={"nodes": 1000},
            arguments={"release": "2026.1", "benchmark": "nova-33"},
            plots=(_of_phases("nova-33", "Nova 33"),),
            by_name=True,
        ),
        Benchmark(
            "nova-29",
            "the same with Nova 29",
            "benchmarks.nova",
            required={"steady_cpu": 60, **_SETTLED},
            limits=_IDLE,
            rounds=3,
            takes={"nodes": 1000},
            arguments={"release": "2024.1", "benchmark": "nova-29"},
            plots=(_of_phases("nova-29", "Nova 29"),),
            by_name=True,
        ),
        Benchmark(
            "nova-33-large",
            "processor time of a minute with 3,000 nodes and Nova 33",
            "benchmarks.nova_large",
            required={"steady_cpu": 60},
            rounds=3,
            takes={"nodes": 3000},
            plots=(
                Plot(
                    "nova-33-large",
                    "A nova-compute with 3,000 nodes, Nova 33",
                    (
                        Panel(
                            "Processor time of a minute",
                            {"idle_cpu": "nothing changed", "steady_cpu": "1 % changed"},
                        ),
                    ),
                    peer="Nova's in-tree driver: five nodes, multiplied",
                ),
            ),
            recorded=False,
            by_name=True,
        ),
        Benchmark(
            "nova-processes",
            "a nova-compute with 1,000 nodes, on MariaDB, RabbitMQ and Placement over HTTP",
            "benchmarks.nova_processes",
            required={"steady_cpu": 20, "placement_requests": 40, "database_queries": 60},
            limits={"idle_placement_requests": 2},
            rounds=3,
            takes={"nodes": 1000},
            plots=(
                Plot(
                    "nova-processes",
                    "Nova 34 as processes, a nova-compute with 1,000 nodes",
                    (
                        Panel(
                            "Processor time of a period, 1 % changed",
                            {
                                "steady_cpu": "nova-compute",
                                "placement_cpu": "Placement",
                                "conductor_cpu": "conductor",
                            },
                        ),
                        Panel(
                            "Time on the wall",
                            {
                                "start_wall": "first start",
                                "restart_wall": "restart",
                                "steady_wall": "period",
                                "build_wall": "a build in it",
                            },
                        ),
                    ),
                ),
            ),
            recorded=False,
            # Its periods are of a minute by the clock, of each side several.
            by_name=True,
        ),
        Benchmark(
            "nova-ironic",
            "the same where Ironic picks the node, so that ours reports pools",
            "benchmarks.nova",
            required={"steady_wall": 20, "placement_requests": 100, "start_wall": 15},
            rounds=3,
            takes={"nodes": 1000},
            arguments={"node_selection": "ironic", "benchmark": "nova-ironic"},
            recorded=False,
        ),
    )
}
