# SPDX-License-Identifier: Apache-2.0

"""Long lists in pieces that every database takes in one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

SIZE = 500
"""Well below the number of parameters that an old SQLite takes (999)."""


def chunks(values: Sequence[T], size: int = SIZE) -> Iterator[Sequence[T]]:
    """The values, at most ``size`` at a time."""
    for begin in range(0, len(values), size):
        yield values[begin : begin + size]
