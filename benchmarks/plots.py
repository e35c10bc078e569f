# SPDX-License-Identifier: Apache-2.0

"""Plots of what benchmarks found, drawn from what was recorded: an SVG each.

The same record gives the same file: it carries no date and no random ids, and its text is text.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks import table

SIDES = {
    "ours": "ironic_virt",
    "peer": "Nova's in-tree driver",
    "tuned": "Nova's in-tree driver, tuned",
    "pools": "ironic_virt, pools",
}
# Of the palette of Okabe and Ito, which colour-blind readers can tell apart too.
_COLOURS = {"ours": "#0072B2", "peer": "#D55E00", "tuned": "#E69F00", "pools": "#009E73"}
_STYLES = ("-", "--", ":")
_MARKERS = {"ours": "o", "peer": "s", "tuned": "D", "pools": "^"}
_BARS = 0.76
"""How much of the place of a figure its bars take together."""


@dataclasses.dataclass(frozen=True)
class Panel:
    """One pair of axes.

    :param title: what is measured, without the unit.
    :param figures: figure name to what it says of itself in the legend; empty if
        there is but one.  All have the same unit.
    :param only: the one side that a figure is drawn for.
    """

    title: str
    figures: Mapping[str, str]
    only: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Plot:
    """One picture.

    :param name: of its files.
    :param title: what the plot says; ``{ratio}`` in it is how many times as much the peer
        takes as our own side, at the least.
    :param along: the label of the x axis; empty: bars of the medians instead of a curve.
    :param x: ``log``; ``list``, for a few values at equal distances; or ``linear``.
    :param y: the same, without ``list``.
    :param peer: what the peer is called in the legend.
    :param ours: what our own side is called there.
    :param width: of a panel, in inches; the narrower, the larger is the text on a page.
    :param horizontal: the bars lie, and each of our bars ends with its share of the peer's.
    """

    name: str
    title: str
    panels: Sequence[Panel]
    along: str = ""
    x: str = "linear"
    y: str = "log"
    peer: str = SIDES["peer"]
    ours: str = SIDES["ours"]
    width: float = 4.2
    horizontal: bool = False

    def sides(self, records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """The sides that were measured, and what they are called.

        :param records: what was found of them, by side.
        """
        measured = {side for record in records for side in SIDES if record.get(side)}
        names = SIDES | {"peer": self.peer, "ours": self.ours}
        return {side: name for side, name in names.items() if side in measured}


def draw(plot: Plot, content: Mapping[str, Any], directory: pathlib.Path) -> pathlib.Path:
    """Draw a plot.

    :param content: a :func:`benchmarks.results.record`.
    :returns: the file.
    """
    import matplotlib
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {
        "svg.hashsalt": plot.name,
        "svg.fonttype": "none",
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#dddddd",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with matplotlib.rc_context(settings):
        columns = len(plot.panels)
        figure = Figure(figsize=(1.0 + plot.width * columns, 4.4), layout="constrained")
        title = plot.title.format(ratio=math.floor(_ratio(plot, content)))
        figure.suptitle(f"{title}\n", fontsize=12)
        for number, panel in enumerate(plot.panels, 1):
            axes = figure.add_subplot(1, columns, number)
            kind = _curves if plot.along else _lying_bars if plot.horizontal else _bars
            kind(axes, plot, panel, content)
        _legend(figure)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{plot.name}.svg"
        figure.savefig(path, metadata={"Date": None})
    return path


def _curves(axes: Any, plot: Plot, panel: Panel, content: Mapping[str, Any]) -> None:
    points = content["points"]
    places = {point["at"]: at for at, point in enumerate(points)}
    for side, name in plot.sides(points).items():
        for style, (figure, label) in zip(_STYLES, panel.figures.items(), strict=False):
            if panel.only.get(figure, side) != side:
                continue
            drawn = [
                (places[point["at"]] if plot.x == "list" else point["at"], point[side][figure])
                for point in points
                if figure in point[side] and (point[side][figure] > 0 or plot.y != "log")
            ]
            axes.plot(
                [at for at, _ in drawn],
                [value for _, value in drawn],
                style,
                color=_COLOURS[side],
                marker=_MARKERS[side],
                markersize=5,
                label=f"{name}, {label}" if label else name,
            )
    if plot.x == "log":
        axes.set_xscale("log")
        axes.minorticks_off()
    ticks = [places[at] if plot.x == "list" else at for at in places]
    axes.set_xticks(ticks, [f"{at:,g}" for at in places])
    axes.set_xlabel(plot.along)
    _y_axis(axes, plot, panel, content)


def _bars(axes: Any, plot: Plot, panel: Panel, content: Mapping[str, Any]) -> None:
    places = {figure: at for at, figure in enumerate(panel.figures)}
    sides = {
        side: name
        for side, name in plot.sides([content]).items()
        if not places.keys().isdisjoint(content[side])
    }
    width = _BARS / max(len(sides), 2)
    for number, (side, name) in enumerate(sides.items()):
        shown = [(figure, content[side][figure]) for figure in places if figure in content[side]]
        shift = (number - (len(sides) - 1) / 2) * width
        bars = axes.bar(
            [places[figure] + shift for figure, _ in shown],
            [value for _, value in shown],
            width,
            color=_COLOURS[side],
            label=name,
        )
        texts = [table.readable(value, content["units"][figure]) for figure, value in shown]
        axes.bar_label(bars, texts, fontsize=8, padding=2)
    axes.set_xticks(range(len(panel.figures)), list(panel.figures.values()))
    axes.grid(visible=False, axis="x")
    _y_axis(axes, plot, panel, content)


def _lying_bars(axes: Any, plot: Plot, panel: Panel, content: Mapping[str, Any]) -> None:
    """Draw bars from left to right, the first figure on top."""
    # What all is compared with is the first.
    sides = sorted(plot.sides([content]).items(), key=lambda side: side[0] != "peer")
    width = _BARS / len(sides)
    for number, (side, name) in enumerate(sides):
        values = [content[side][figure] for figure in panel.figures]
        shift = (number - (len(sides) - 1) / 2) * width
        places = [at + shift for at in range(len(values))]
        bars = axes.barh(places, values, width, color=_COLOURS[side], label=name)
        texts = [
            table.readable(value, content["units"][figure])
            + ("" if side == "peer" else f", 1/{content['peer'][figure] / value:.0f}")
            for figure, value in zip(panel.figures, values, strict=True)
        ]
        axes.bar_label(bars, texts, fontsize=9, padding=3)
    axes.invert_yaxis()
    axes.set_yticks(range(len(panel.figures)), list(panel.figures.values()))
    axes.tick_params(axis="y", length=0)
    axes.set_title(panel.title, fontsize=10)
    # With room for the text at the longest bar's end.
    axes.set_xlim(0, 1.2 * _extent(plot, panel, content)[1])
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.grid(visible=False)


def _ratio(plot: Plot, content: Mapping[str, Any]) -> float:
    """How many times as much the peer takes as our own side, at the least."""
    figures = [figure for panel in plot.panels for figure in panel.figures]
    ours, peer = content.get("ours", {}), content.get("peer", {})
    ratios = [peer[one] / ours[one] for one in figures if ours.get(one) and one in peer]
    return min(ratios, default=0.0)


def _y_axis(axes: Any, plot: Plot, panel: Panel, content: Mapping[str, Any]) -> None:
    from matplotlib import ticker

    unit = content["units"][next(iter(panel.figures))].partition(" ")[0]
    axes.set_title(panel.title, fontsize=10)
    axes.set_yscale(plot.y)
    axes.set_ylabel(unit)
    if plot.y == "log":
        low, high = _extent(plot, panel, content)
        # Whole decades, with room for the markers.
        bottom, top = math.floor(math.log10(low / 1.3)), math.ceil(math.log10(high * 1.3))
        axes.set_ylim(10.0**bottom, 10.0**top)
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: table.readable(value, unit))


def _extent(plot: Plot, panel: Panel, content: Mapping[str, Any]) -> tuple[float, float]:
    """The smallest and the largest value above nothing."""
    values = [
        record[side][figure]
        for record in (content["points"] if plot.along else [content])
        for side in SIDES
        for figure in panel.figures
        if record.get(side, {}).get(figure, 0) > 0
    ]
    return min(values, default=0.1), max(values, default=1.0)


def _legend(figure: Any) -> None:
    """One legend for all panels, below them."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(
        list(found.values()),
        list(found),
        loc="outside lower center",
        ncols=min(len(found), 2 if len(found) > 2 else 4),
        frameon=False,
    )
