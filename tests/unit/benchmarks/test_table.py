# SPDX-License-Identifier: Apache-2.0

"""What people read: units, columns, verdicts."""

from __future__ import annotations

import csv
import io

import pytest

from benchmarks import table

CONTENT = {
    "benchmark": "example",
    "ours": {"wall": 0.012, "bytes": 4_100_000.0, "requests": 12_345.0},
    "peer": {"wall": 1.2, "bytes": 8_200_000.0},
    "ratio": {"wall": 100.0, "bytes": 2.0},
    "units": {
        "wall": "seconds on the wall",
        "bytes": "bytes received",
        "requests": "requests to Ironic",
    },
}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.5, "seconds of processor time", "2.5 s"),
        (0.01214, "seconds", "12.1 ms"),
        (0.00000042, "seconds", "0.42 us"),
        (0.0, "seconds", "0 s"),
        (1000.0, "seconds", "1,000 s"),
        (308.4, "bytes for each node", "308 B"),
        (6965, "bytes", "6.96 kB"),
        (68_900_000, "bytes", "68.9 MB"),
        (2_000_000_000, "bytes", "2 GB"),
        (12_345, "requests", "12,300"),
        (7, "", "7"),
    ],
)
def test_a_value_is_shown_with_three_digits_and_a_fitting_unit(
    value: float, unit: str, text: str
) -> None:
    assert table.readable(value, unit) == text


def test_what_is_required_comes_first_with_its_verdict() -> None:
    rows = table.rows(CONTENT, {"bytes": 3}, {"wall": 0.02, "bytes": 5e6})
    assert [(row.figure, row.required, row.verdict) for row in rows] == [
        ("wall", "ours <= 20 ms", "met"),
        ("bytes", "ratio >= 3 and ours <= 5 MB", "MISSED"),
        ("requests", "-", "-"),
    ]


def test_a_limit_is_missed_by_ours_alone() -> None:
    (row, *_) = table.rows(CONTENT, {"bytes": 2}, {"bytes": 4e6})
    assert row.verdict == "MISSED"


def test_a_figure_that_the_peer_lacks_has_no_ratio() -> None:
    row = table.rows(CONTENT, {}, {})[-1]
    assert (row.figure, row.ours, row.peer, row.ratio) == ("requests", "12,300", "-", "-")


def test_the_text_is_aligned() -> None:
    headings, rule, *lines = table.text(table.rows(CONTENT, {"wall": 20}, {})).splitlines()
    edges = [at for at, sign in enumerate(rule + " ") if sign == " "]
    columns = headings.index("Required"), headings.index("Verdict")
    assert all(at - 1 in edges for at in columns)
    assert [line[columns[1] :] for line in lines] == ["met", "-", "-"]


TUNED = CONTENT | {"tuned": {"wall": 0.6}, "tuned_ratio": {"wall": 50.0}}


def test_a_tuned_peer_has_columns_of_its_own() -> None:
    found = list(csv.reader(io.StringIO(table.as_csv(table.rows(TUNED, {"wall": 20}, {})))))
    assert found[0][3:] == ["Ratio", "Tuned peer", "Ratio to tuned", "Required"]
    assert found[1] == ["wall", "12 ms", "1.2 s", "100", "600 ms", "50", "ratio >= 20"]
    assert found[2][4:] == ["-", "-", "-"]
    # Beside a benchmark without one.
    lines = table.text([*table.rows(CONTENT, {}, {}), *table.rows(TUNED, {}, {})]).splitlines()
    end = lines[0].index("Tuned peer") + len("Tuned peer")
    assert [line[end - 6 : end].strip() for line in lines[2:]] == ["-"] * 3 + ["600 ms", "-", "-"]


def test_the_csv_has_the_same_cells() -> None:
    rows = table.rows(CONTENT, {"wall": 20}, {})
    found = list(csv.reader(io.StringIO(table.as_csv(rows))))
    assert found[0] == ["Figure", "Ours", "Peer", "Ratio", "Required"]
    assert found[1] == ["wall", "12 ms", "1.2 s", "100", "ratio >= 20"]
    assert len(found) == 4
