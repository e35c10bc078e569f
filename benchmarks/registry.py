# SPDX-License-Identifier: Apache-2.0

"""Which benchmarks there are.

A benchmark is a module with ``run(rounds, progress)``, which returns a
:class:`~benchmarks.results.Outcome`.  It is imported when it is run, so that
listing the benchmarks needs none of their peers.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping

from benchmarks.results import Outcome

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A benchmark by name.

    :param module: what holds its ``run``.
    :param required: the least that a ratio, peer divided by ours, must be.
    """

    name: str
    summary: str
    module: str
    required: Mapping[str, float]

    def run(self, rounds: int, progress: Progress) -> Outcome:
        """Measure.

        :param rounds: how often each side is measured.
        :param progress: is told what goes on.
        """
        outcome: Outcome = importlib.import_module(self.module).run(rounds, progress)
        return outcome


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "listing",
            "list 2,000 nodes of a real Ironic: ours against Nova's in-tree driver",
            "benchmarks.listing",
            required={"client_cpu": 50, "memory": 5},
        ),
    )
}
