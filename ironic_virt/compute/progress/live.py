# SPDX-License-Identifier: Apache-2.0

"""The live picture on a terminal, drawn by rich.

Imported only when there is a terminal to draw on; rich is in the ``demo``
extra.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

from ironic_virt import exceptions
from ironic_virt.compute.progress import rows
from ironic_virt.compute.progress.board import Board, Outcome, Track

try:
    from rich import box
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text
except ModuleNotFoundError as error:
    raise exceptions.ExtrasMissing(error.name, "demo") from error

_FRAMES_PER_SECOND = 12
_BAR_WIDTH = 24
_STATE_STYLES = {
    "available": "green",
    "active": "bold cyan",
    "power on": "green",
    "running": "green",
    "power off": "dim",
    "shut down": "yellow",
    "-": "dim",
}
_MARKS = {Outcome.DONE: ("✔", "green"), Outcome.FAILED: ("✘", "bold red")}


class LiveDisplay:
    """A :class:`~ironic_virt.compute.progress.display.Display` on a terminal.

    :param stream: the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = Console(file=stream, highlight=False)
        self._spinners: dict[str, Spinner] = {}

    def title(self, text: str) -> None:
        """Show what this is."""
        self._console.print(Text(text, style="bold"))
        self._console.print()

    def note(self, text: str) -> None:
        """Show something that is going on."""
        self._console.print(Text(f"  {text}", style="dim"))

    def command(self, line: str) -> None:
        """Show a command that is about to run."""
        self._console.print()
        self._console.print(Text.assemble(("$ ", "green"), (line, "bold")), soft_wrap=True)

    def done(self, text: str, seconds: float) -> None:
        """Show that something has been done."""
        self._console.print(
            Text.assemble(("✔ ", "green"), text, (f"  {rows.seconds(seconds)}", "dim"))
        )

    def table(self, title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        """Show a table."""
        table = Table(
            title=title,
            title_justify="left",
            title_style="bold",
            header_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell, style=_STATE_STYLES.get(cell, "")) for cell in row))
        self._console.print()
        self._console.print(table)

    @contextlib.contextmanager
    def watch(self, title: str, board: Board) -> Iterator[None]:
        """Draw the board again and again until the block ends."""
        self._console.print(Text(title, style="bold"))
        self._spinners.clear()
        live = Live(
            console=self._console,
            get_renderable=lambda: self._picture(board.tracks(), board.clock()),
            refresh_per_second=_FRAMES_PER_SECOND,
        )
        with live, _log_above_the_picture():
            yield

    def hand_back(self) -> None:
        """Show the cursor again; what a process does that ends at once."""
        self._stream.write("\x1b[?25h\n")
        self._stream.flush()

    def _picture(self, tracks: Sequence[Track], now: float) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        anywhere = any(track.where for track in tracks)
        for track in tracks:
            name, where, doing, took = rows.track_cells(track, now)
            table.add_row(
                self._mark(track),
                Text(name, style="bold"),
                *([Text(where, style="dim")] if anywhere else []),
                _bar(track),
                Text(doing, style="red" if track.outcome is Outcome.FAILED else ""),
                Text(took, style="dim", justify="right"),
            )
        return table

    def _mark(self, track: Track) -> RenderableType:
        if track.outcome in _MARKS:
            return Text(*_MARKS[track.outcome])
        return self._spinners.setdefault(track.key, Spinner("dots", style="cyan"))


def _bar(track: Track) -> RenderableType:
    share = rows.share_done(track)
    return ProgressBar(
        total=1.0 if share is not None else None,
        completed=share or 0.0,
        width=_BAR_WIDTH,
        pulse=share is None,
        complete_style="cyan",
        finished_style="red" if track.outcome is Outcome.FAILED else "green",
    )


@contextlib.contextmanager
def _log_above_the_picture() -> Iterator[None]:
    """Have log lines for the terminal go above the picture, not through it.

    While it is drawn, rich holds ``sys.stderr``; log handlers keep the stream
    that they were made with.
    """
    moved = [
        (handler, handler.stream)
        for handler in logging.getLogger().handlers
        if type(handler) is logging.StreamHandler and handler.stream.isatty()
    ]
    for handler, _ in moved:
        handler.setStream(sys.stderr)
    try:
        yield
    finally:
        for handler, stream in moved:
            handler.setStream(stream)
