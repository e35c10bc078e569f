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
    required: str
    verdict: str


HEADINGS = Row("Benchmark", "Figure", "Ours", "Peer", "Ratio", "Required", "Verdict")


def rows(
    content: Mapping[str, Any], required: Mapping[str, float], limits: Mapping[str, float]
) -> list[Row]:
    """A row for each figure of ours, those first that something is required of.

    :param content: a :func:`benchmarks.results.record`.
    """
    ours, peer, ratio = content["ours"], content["peer"], content["ratio"]
    judged = [name for name in ours if name in required or name in limits]
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
                content["benchmark"],
                name,
                readable(ours[name], unit),
                readable(peer[name], unit) if name in peer else "-",
                f"{_figures(ratio[name])}" if name in ratio else "-",
                " and ".join(demands) or "-",
                ("met" if holds else "MISSED") if demands else "-",
            )
        )
    return lines


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
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADINGS))]

    def cells(row: Row) -> str:
        left = [row[column].ljust(widths[column]) for column in (0, 1)]
        right = [row[column].rjust(widths[column]) for column in (2, 3, 4)]
        return "  ".join([*left, *right, row.required.ljust(widths[5]), row.verdict]).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([cells(HEADINGS), rule, *map(cells, table[1:])])


def as_csv(lines: Sequence[Row]) -> str:
    """The same for one benchmark, without its name and the verdict."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for row in (HEADINGS, *lines):
        writer.writerow(row[1:6])
    return written.getvalue()


def _figures(value: float) -> str:
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if "e+" in digits else digits
