# SPDX-License-Identifier: Apache-2.0

"""What a benchmark found: medians, ratios, the line that it ends with, the file."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.rounds import Figures, medians


@dataclasses.dataclass(frozen=True)
class Outcome:
    """All rounds of both sides, of figures for which less is better.

    :param units: figure name to what it is measured in.
    :param setting: what was measured: how many nodes, which versions.
    """

    benchmark: str
    ours: Sequence[Figures]
    peer: Sequence[Figures]
    units: Mapping[str, str]
    setting: Mapping[str, Any]

    def summary(self) -> dict[str, Any]:
        """Medians of both sides, and by figure the peer's divided by ours."""
        ours, peer = medians(self.ours), medians(self.peer)
        ratio = {name: peer[name] / ours[name] for name in ours if ours[name] > 0}
        return {
            "benchmark": self.benchmark,
            "ours": _readable(ours),
            "peer": _readable(peer),
            "ratio": _readable(ratio),
        }


def line(outcome: Outcome) -> str:
    """The one line of JSON that a benchmark ends with."""
    return json.dumps(outcome.summary())


def shortfalls(outcome: Outcome, required: Mapping[str, float]) -> list[str]:
    """In words, each ratio that is less than required."""
    ratio = outcome.summary()["ratio"]
    return [
        f"ratio {name} is {ratio.get(name)}, required is {least:g}"
        for name, least in required.items()
        if not ratio.get(name, 0) >= least
    ]


def write(outcome: Outcome, directory: pathlib.Path) -> pathlib.Path:
    """Write ``NAME.json``: the summary, every round, and where and when it was run.

    :returns: the file.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{outcome.benchmark}.json"
    content = outcome.summary() | {
        "units": dict(outcome.units),
        "setting": dict(outcome.setting),
        "host": {
            "cores": len(os.sched_getaffinity(0)),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rounds": {
            "ours": [_readable(figures) for figures in outcome.ours],
            "peer": [_readable(figures) for figures in outcome.peer],
        },
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def _readable(figures: Figures) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in figures.items()}
