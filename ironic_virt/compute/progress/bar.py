# SPDX-License-Identifier: Apache-2.0

"""A bar on a terminal for many things that are done one after the other.

Nothing is shown where there is no terminal, or no rich (extra ``demo``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO, TypeVar

T = TypeVar("T")


def shown(things: Sequence[T], title: str, stream: TextIO) -> Iterator[T]:
    """The same things; the bar shows how many have been taken, and goes in the end."""
    if not stream.isatty():
        yield from things
        return
    try:
        from rich import console, progress
    except ModuleNotFoundError:
        yield from things
        return
    bar = progress.Progress(
        *progress.Progress.get_default_columns(),
        progress.MofNCompleteColumn(),
        console=console.Console(file=stream),
        transient=True,
    )
    with bar:
        yield from bar.track(things, description=title)
