# SPDX-License-Identifier: Apache-2.0

"""Rounds in which all sides take turns, and what is typical of them.

Taking turns lets other work of the machine fall on all sides alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

Figures = Mapping[str, float]
"""One round of one side: figure name to value."""


def take_turns(
    sides: Mapping[str, Callable[[], Figures]],
    rounds: int,
    report: Callable[[int, str, Figures], None] = lambda *_: None,
) -> dict[str, list[Figures]]:
    """Measure each side ``rounds`` times; who begins changes from round to round.

    :param sides: side name to what measures it once.
    :param report: called with the round's number from 1, the side and its figures.
    :returns: side name to its rounds in order.
    """
    found: dict[str, list[Figures]] = {name: [] for name in sides}
    for number in range(1, rounds + 1):
        names = list(sides)
        for name in names if number % 2 else reversed(names):
            figures = sides[name]()
            found[name].append(figures)
            report(number, name, figures)
    return found


def joined(*parts: Sequence[Figures]) -> list[Figures]:
    """Rounds of different figures as rounds of all of them, first with first."""
    return [
        {name: value for figures in round_ for name, value in figures.items()}
        for round_ in zip(*parts, strict=True)
    ]


def medians(rounds: Sequence[Figures]) -> dict[str, float]:
    """The median of each figure."""
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}
