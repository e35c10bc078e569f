# SPDX-License-Identifier: Apache-2.0

"""What a benchmark found: medians, ratios, the line that it ends with, the file."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import subprocess
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from benchmarks.rounds import Figures, medians


@dataclasses.dataclass(frozen=True)
class Point:
    """A place on a curve, and all rounds of both sides there.

    :param at: where it is, by what :attr:`Outcome.along` names.
    :param peer: none if the peer was not measured there.
    """

    at: float
    ours: Sequence[Figures]
    peer: Sequence[Figures]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """All rounds of both sides, of figures for which less is better.

    :param units: figure name to what it is measured in; the first word is the unit.
    :param setting: what was measured: how many nodes, which versions.
    :param along: what a curve's points differ in, such as ``nodes``.
    :param points: a curve of the same figures or others.
    :param tuned: all rounds of the peer with what its options can do for it; none if it was
        measured with its defaults only.
    :param pools: all rounds of our side in pools, if it has rounds in its default mode, too.
    """

    benchmark: str
    ours: Sequence[Figures]
    peer: Sequence[Figures]
    units: Mapping[str, str]
    setting: Mapping[str, Any]
    along: str = ""
    points: Sequence[Point] = ()
    tuned: Sequence[Figures] = ()
    pools: Sequence[Figures] = ()

    @property
    def more(self) -> dict[str, Sequence[Figures]]:
        """The rounds of the sides that few benchmarks have."""
        sides = {"tuned": self.tuned, "pools": self.pools}
        return {name: rounds for name, rounds in sides.items() if rounds}

    def summary(self) -> dict[str, Any]:
        """Medians of all sides, and by figure the peer's divided by ours."""
        return {"benchmark": self.benchmark} | _compared(self.ours, self.peer, self.more)


def line(outcome: Outcome) -> str:
    """The one line of JSON that a benchmark ends with."""
    return json.dumps(outcome.summary())


def shortfalls(
    summary: Mapping[str, Any],
    required: Mapping[str, float],
    limits: Mapping[str, float] | None = None,
) -> list[str]:
    """In words, each ratio that is less than required, and each of our figures above its limit.

    :param summary: of an outcome, or what was recorded of one.
    """
    ratio, ours = summary["ratio"], summary["ours"]
    short = [
        f"ratio {name} is {ratio.get(name)}, required is {least:g}"
        for name, least in required.items()
        if not ratio.get(name, 0) >= least
    ]
    long = [
        f"{name} of ours is {ours.get(name)}, the limit is {most:g}"
        for name, most in (limits or {}).items()
        if not ours.get(name, float("inf")) <= most
    ]
    return short + long


def record(outcome: Outcome) -> dict[str, Any]:
    """All that is kept: the summary, every round, and where, when and on which commit
    it was run."""
    content = outcome.summary() | {
        "units": dict(outcome.units),
        "setting": dict(outcome.setting),
        "host": {
            "cores": len(os.sched_getaffinity(0)),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "rounds": _rounds(outcome.ours, outcome.peer, outcome.more),
    }
    if outcome.points:
        content["along"] = outcome.along
        content["points"] = [
            {"at": point.at}
            | _compared(point.ours, point.peer)
            | {"rounds": _rounds(point.ours, point.peer)}
            for point in outcome.points
        ]
    return content


def write(content: Mapping[str, Any], directory: pathlib.Path) -> pathlib.Path:
    """Write ``NAME.json``.

    :param content: a :func:`record`.
    :returns: the file.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{content['benchmark']}.json"
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def _commit() -> str:
    """What git calls the code that was measured; ``-dirty`` if it was changed since."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    checkout = pathlib.Path(__file__).parents[1]
    try:
        return subprocess.check_output(
            command, cwd=checkout, text=True, stderr=subprocess.DEVNULL
        ).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _compared(
    ours: Sequence[Figures],
    peer: Sequence[Figures],
    more: Mapping[str, Sequence[Figures]] = MappingProxyType({}),
) -> dict[str, dict[str, float]]:
    mine = medians(ours)
    others = medians(peer) if peer else {}
    found = {"ours": mine, "peer": others, "ratio": _ratio(mine, others)}
    for name, rounds in more.items():
        found[name] = medians(rounds)
        sides = (mine, found[name]) if name == "tuned" else (found[name], others)
        found[f"{name}_ratio"] = _ratio(*sides)
    return {name: _readable(figures) for name, figures in found.items()}


def _ratio(mine: Figures, others: Figures) -> dict[str, float]:
    return {name: others[name] / mine[name] for name in mine if name in others and mine[name] > 0}


def _rounds(
    ours: Sequence[Figures],
    peer: Sequence[Figures],
    more: Mapping[str, Sequence[Figures]] = MappingProxyType({}),
) -> dict[str, list[Figures]]:
    sides = {"ours": ours, "peer": peer, **more}
    return {name: [_readable(figures) for figures in rounds] for name, rounds in sides.items()}


def _readable(figures: Figures) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in figures.items()}
