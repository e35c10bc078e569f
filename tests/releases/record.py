# SPDX-License-Identifier: Apache-2.0

"""The table of releases in the documentation."""

import csv
import dataclasses
import datetime
from collections.abc import Sequence
from pathlib import Path

from tests.releases import catalogue
from tests.releases.catalogue import Release

COLUMNS = (
    "Release",
    "Nova",
    "Placement",
    "Ironic (API)",
    "Python",
    "Threading",
    "Scenarios",
    "Processes",
    "Questions to the fake",
    "Date",
    "This Nova lacks",
)
_KEYS = ("Release", "Threading")


@dataclasses.dataclass
class Result:
    """What came of one release run in one way.

    :ivar api: the newest API version of its Ironic.
    :ivar lacks: what this Nova lacks that later ones have.
    :ivar scenarios: how many passed.
    :ivar skipped: how many did not run, by reason.
    :ivar processes: how many passed with Nova's programs as processes.
    :ivar without: how many of those did not run.
    :ivar questions: how many the fake and the real Ironic answered alike.
    :ivar otherwise: how many they are known to answer otherwise, or are too new for it.
    :ivar again: the names of those that passed at their second try only.
    """

    release: Release
    threading: str
    api: str = ""
    python: str = ""
    lacks: list[str] = dataclasses.field(default_factory=list)
    scenarios: int = 0
    skipped: dict[str, int] = dataclasses.field(default_factory=dict)
    processes: int = 0
    without: int = 0
    questions: int = 0
    otherwise: int = 0
    again: list[str] = dataclasses.field(default_factory=list)
    failed: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        words = [f"{self.scenarios} scenarios passed"]
        if self.skipped:
            words.append(f"{sum(self.skipped.values())} skipped")
        if self.processes:
            words.append(f"{self.processes} with Nova as processes")
        if self.questions:
            words.append(f"{self.questions} answers of the fake like Ironic's")
        if self.again:
            words.append(f"{len(self.again)} at their second try")
        words.append(f"{len(self.failed)} failed")
        return (
            f"{self.release.name} {self.threading}: Nova {self.release.nova}, "
            f"Ironic {self.release.ironic}, Python {self.python}: {', '.join(words)}"
        )

    def _compared(self) -> str:
        if not self.questions:
            return ""
        more = f", {self.otherwise} otherwise or not for it" if self.otherwise else ""
        return f"{self.questions} alike{more}"

    def row(self, today: datetime.date) -> dict[str, str]:
        """Its row of the table."""
        values = (
            self.release.name,
            self.release.nova,
            self.release.placement,
            f"{self.release.ironic} ({self.api})",
            self.python,
            self.threading,
            _passed(self.scenarios, sum(self.skipped.values()), len(self.again)),
            _passed(self.processes, self.without),
            self._compared(),
            today.isoformat(),
            ", ".join(f"``{name}``" if name.startswith("[") else name for name in self.lacks),
        )
        return dict(zip(COLUMNS, values, strict=True))


def _passed(passed: int, skipped: int, again: int = 0) -> str:
    if not passed:
        return ""
    words = [f"{passed} passed"]
    if skipped:
        words.append(f"{skipped} not for it")
    if again:
        words.append(f"{again} in any part at a second try")
    return ", ".join(words)


def write(path: Path, results: Sequence[Result], today: datetime.date | None = None) -> None:
    """Replace the rows of these results in the table, but for those that failed."""
    today = today or datetime.datetime.now(datetime.UTC).date()
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    if path.exists():
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                rows[tuple(row[key] for key in _KEYS)] = row
    for result in results:
        row = result.row(today)
        if not result.failed:
            rows[tuple(row[key] for key in _KEYS)] = row
    order = list(catalogue.releases())
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows.values(), key=lambda row: order.index(row["Release"])))
