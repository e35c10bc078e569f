# SPDX-License-Identifier: Apache-2.0

"""What benchmarks found, as a table for people: as text, and as CSV for the documentation."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

_SCALES = {
    "seconds": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
}


class Row(NamedTuple):
    """One figure of one benchmark, as text."""

    benchmark: str
    figure: str
    ours: str
    peer: str
    ratio: str
    tuned: str
    tuned_ratio: str
    pools: str
    pools_ratio: str
    required: str
    verdict: str


HEADINGS = Row(
    benchmark="Benchmark",
    figure="Figure",
    ours="Ours",
    peer="Peer",
    ratio="Ratio",
    tuned="Tuned peer",
    tuned_ratio="Ratio to tuned",
    pools="Pools",
    pools_ratio="Ratio of pools",
    required="Required",
    verdict="Verdict",
)
_SOMETIMES = ("tuned", "tuned_ratio", "pools", "pools_ratio")
"""Columns of sides that few benchmarks have."""
_NUMBERS = ("ours", "peer", "ratio", *_SOMETIMES)
_NONE = "-"


def rows(
    content: Mapping[str, Any], required: Mapping[str, float], limits: Mapping[str, float]
) -> list[Row]:
    """Return a row for each of our figures, those with a requirement first.

    :param content: a :func:`benchmarks.results.record`.
    """
    ours, peer, ratio = content["ours"], content["peer"], content["ratio"]
    judged = [name for name in ours if name in required or name in limits]
    more = {name: content.get(name, {}) for name in _SOMETIMES}
    lines = []
    for name in [*judged, *(name for name in ours if name not in judged)]:
        unit = content["units"].get(name, "")
        demands, holds = [], True
        if name in required:
            demands.append(f"ratio >= {required[name]:g}")
            holds = ratio.get(name, 0) >= required[name]
        if name in limits:
            demands.append(f"ours <= {readable(limits[name], unit)}")
            holds = holds and ours[name] <= limits[name]
        lines.append(
            Row(
                benchmark=content["benchmark"],
                figure=name,
                ours=readable(ours[name], unit),
                peer=_cell(peer, name, unit),
                ratio=_cell(ratio, name),
                tuned=_cell(more["tuned"], name, unit),
                tuned_ratio=_cell(more["tuned_ratio"], name),
                pools=_cell(more["pools"], name, unit),
                pools_ratio=_cell(more["pools_ratio"], name),
                required=" and ".join(demands) or _NONE,
                verdict=("met" if holds else "MISSED") if demands else _NONE,
            )
        )
    return lines


def _cell(figures: Mapping[str, float], name: str, unit: str = "") -> str:
    return readable(figures[name], unit) if name in figures else _NONE


def readable(value: float, unit: str) -> str:
    """A value with three digits and a fitting unit.

    :param unit: what :class:`~benchmarks.results.Outcome` says; its first word counts.
    """
    name = unit.partition(" ")[0]
    scales = _SCALES.get(name)
    if scales is None:
        return _figures(value)
    fitting = [(scale, symbol) for scale, symbol in scales if abs(value or 1) >= scale]
    scale, symbol = fitting[0] if fitting else scales[-1]
    return f"{_figures(value / scale)} {symbol}"


def text(lines: Iterable[Row]) -> str:
    """Aligned columns under their headings."""
    table = [HEADINGS, *lines]
    columns = _columns(table[1:])
    widths = {name: max(len(getattr(row, name)) for row in table) for name in columns}

    def cells(row: Row) -> str:
        fields = row._asdict()
        aligned = [
            fields[name].rjust(width) if name in _NUMBERS else fields[name].ljust(width)
            for name, width in widths.items()
        ]
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * width for width in widths.values())
    return "\n".join([cells(HEADINGS), rule, *map(cells, table[1:])])


def as_csv(lines: Sequence[Row]) -> str:
    """Return the rows of one benchmark as CSV, without its name and the verdict."""
    columns = [name for name in _columns(lines) if name not in ("benchmark", "verdict")]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for row in (HEADINGS, *lines):
        writer.writerow(getattr(row, name) for name in columns)
    return written.getvalue()


def _columns(lines: Sequence[Row]) -> list[str]:
    """All, but those of further sides only where they were measured."""
    measured = {name for row in lines for name in _SOMETIMES if getattr(row, name) != _NONE}
    return [name for name in Row._fields if name in measured or name not in _SOMETIMES]


def _figures(value: float) -> str:
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if "e+" in digits else digits
