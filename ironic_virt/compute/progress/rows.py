# SPDX-License-Identifier: Apache-2.0

"""From a board's tracks to lines and cells of text: pure, and the same for every display."""

from __future__ import annotations

from collections.abc import Sequence

from ironic_virt.baremetal import states
from ironic_virt.compute.progress.board import Outcome, Track

_PATH = {
    "waiting": 0.0,
    "reserving": 0.1,
    "configuring": 0.2,
    "validating": 0.3,
}
"""How much of a deployment lies behind an instance that has reached a step.

Later steps are not here: how long a node deploys, nobody knows beforehand.
"""


def track_cells(track: Track, now: float) -> tuple[str, str, str, str]:
    """Name, node, what is being done, and for how long."""
    doing = track.step
    # That a node was available before it got busy goes without saying.
    if track.detail not in ("", track.step, states.AVAILABLE):
        doing += f" ({track.detail})"
    return track.name, track.where, doing, seconds(track.seconds(now))


def track_line(name: str, where: str, doing: str, took: str) -> str:
    """The cells of a track as one line of text."""
    return f"{name}{f' on {where}' if where else ''}: {doing}, {took}"


def share_done(track: Track) -> float | None:
    """How much of a deployment is done, 0 to 1; ``None`` when nobody can tell."""
    if track.outcome is not Outcome.GOING_ON:
        return 1.0
    return _PATH.get(track.step)


def seconds(value: float) -> str:
    """A duration for people."""
    return f"{value:.1f} s"


def text_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """A table in plain text, one string a line."""
    rows = [tuple(columns), *cells]
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines
