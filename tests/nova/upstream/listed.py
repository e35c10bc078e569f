# SPDX-License-Identifier: Apache-2.0

"""``cases.toml``: which of Nova's cases run against our driver, and why not the others."""

import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PATH = Path(__file__).with_name("cases.toml")


class Reason(NamedTuple):
    """Why some cases don't run.

    :ivar row: the row of the table of differences that tells of it.
    :ivar passes: they would pass, and prove nothing.
    :ivar cases: (class, name) of each.
    """

    why: str
    row: str | None
    passes: bool
    cases: frozenset[tuple[str, str]]


class Listed(NamedTuple):
    runs: frozenset[tuple[str, str]]
    left_out: dict[str, Reason]

    def twice(self) -> list[tuple[str, str]]:
        """Cases that it has in two places."""
        places = Counter(self.runs)
        for reason in self.left_out.values():
            places.update(reason.cases)
        return [case for case, count in places.items() if count > 1]

    def everything(self) -> frozenset[tuple[str, str]]:
        """All cases that it has."""
        return self.runs.union(*(reason.cases for reason in self.left_out.values()))


def _pairs(by_class: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    for owner, names in by_class.items():
        for name in names:
            yield owner, name


def read() -> Listed:
    data: dict[str, Any] = tomllib.loads(PATH.read_text())
    left_out = {
        name: Reason(
            group["why"],
            group.get("row"),
            group.get("passes", False),
            frozenset(_pairs(group["cases"])),
        )
        for name, group in data["not"].items()
    }
    return Listed(frozenset(_pairs(data["runs"])), left_out)
