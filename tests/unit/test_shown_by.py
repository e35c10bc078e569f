# SPDX-License-Identifier: Apache-2.0

"""The tables of what the driver does name tests, and those exist."""

import ast
import csv
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGES = ROOT / "doc" / "source"
CONTRIBUTOR = PAGES / "contributor"
QUOTED = re.compile(r"``([^`]+)``")


def rows(page: Path) -> Iterator[list[str]]:
    """The rows of a page's tables, without their headers."""
    for text in page.read_text().split(".. list-table::")[1:]:
        table = re.split(r"\n(?=\S)", text, maxsplit=1)[0]
        for row in table.split("\n   * - ")[2:]:
            yield [" ".join(cell.split()) for cell in row.split("\n     - ")]


@functools.cache
def names_in(module: Path) -> frozenset[str]:
    """The classes and functions of a module, however deep."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    tree = ast.parse(module.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def missing(shown_by: str) -> list[str]:
    """Which of the quoted tests there are not; ``file.py::name`` each, below ``tests``."""
    found = []
    for told in QUOTED.findall(shown_by):
        path, _, name = told.partition("::")
        module = TESTS / path
        if not module.exists() or (name and name not in names_in(module)):
            found.append(told)
    return found


def rows_of(pattern: str) -> list[list[str]]:
    """The rows of the tables of all pages that match."""
    return [row for page in sorted(PAGES.glob(pattern)) for row in rows(page)]


FEATURES = rows_of("nova/features*.rst")
DIFFERENCES = rows_of("nova/differences*.rst")
FAULTS = rows_of("admin/faults.rst")


def table(name: str) -> list[dict[str, str]]:
    """The rows of a table of the contributor's pages."""
    with (CONTRIBUTOR / name).open(newline="") as file:
        return list(csv.DictReader(file))


FIELD_BUGS = table("field_bugs.csv") + table("own_bugs.csv")
SHOWN_FEATURES, SHOWN_DIFFERENCES, SHOWN_FAULTS = (
    table(f"shown_{name}.csv") for name in ("features", "differences", "faults")
)


@pytest.mark.parametrize(
    ("claims", "shown", "key", "column"),
    [
        (FEATURES, SHOWN_FEATURES, "Feature", 0),
        (DIFFERENCES, SHOWN_DIFFERENCES, "Case", 0),
        (FAULTS, SHOWN_FAULTS, "Fault", 1),
    ],
    ids=["features", "differences", "faults"],
)
def test_each_claim_is_whole_and_has_its_tests(claims, shown, key, column) -> None:
    assert all(all(row) for row in claims)
    assert sorted(row[column] for row in claims) == sorted(row[key] for row in shown)


@pytest.mark.parametrize(
    "row", SHOWN_FEATURES + SHOWN_DIFFERENCES + SHOWN_FAULTS, ids=lambda row: [*row.values()][-2]
)
def test_each_claim_is_shown_by_a_test(row: dict[str, str]) -> None:
    assert QUOTED.search(row["Shown by"])
    assert missing(row["Shown by"]) == []


@pytest.mark.parametrize("row", FIELD_BUGS, ids=lambda row: row["Bug"])
def test_a_field_bug_is_shown_by_a_test(row: dict[str, str]) -> None:
    assert all(row.values())
    (shown_by,) = QUOTED.findall(row["Shown by"])
    path, *names = shown_by.removeprefix("tests/").split("::")
    assert [name for name in names if missing(f"``{path}::{name}``")] == []
