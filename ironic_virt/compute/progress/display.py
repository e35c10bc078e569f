# SPDX-License-Identifier: Apache-2.0

"""Where is shown what is being done: plain lines, or a live picture on a terminal.

Here are the choice between the two and the plain one; ``live.py`` has the
other.  Both are told the same things, in the same order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TextIO

from ironic_virt.compute.progress import rows
from ironic_virt.compute.progress.board import Board, Track


class Display(Protocol):
    """What whoever watches is told."""

    def title(self, text: str) -> None:
        """What this is."""

    def note(self, text: str) -> None:
        """Something that is going on."""

    def command(self, line: str) -> None:
        """A command is about to run."""

    def done(self, text: str, seconds: float) -> None:
        """Something has been done, and took so long."""

    def table(self, title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        """A table."""

    def watch(self, title: str, board: Board) -> contextlib.AbstractContextManager[None]:
        """Show the board while the block runs."""

    def hand_back(self) -> None:
        """Leave the terminal as it was; called when the process ends at once."""


class PlainDisplay:
    """Lines of text, for files, pipes and terminals that can do no more.

    :param stream: where to write.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def title(self, text: str) -> None:
        """See :class:`Display`."""
        self._write(text)

    def note(self, text: str) -> None:
        """See :class:`Display`."""
        self._write(text)

    def command(self, line: str) -> None:
        """See :class:`Display`."""
        self._write("", f"$ {line}")

    def done(self, text: str, seconds: float) -> None:
        """See :class:`Display`."""
        self._write(f"{text} ({rows.seconds(seconds)})")

    def table(self, title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        """See :class:`Display`."""
        self._write("", f"{title}:", "", *rows.text_table(columns, cells), "")

    @contextlib.contextmanager
    def watch(self, title: str, board: Board) -> Iterator[None]:
        """See :class:`Display`."""
        self._write(f"{title} ...")

        told: dict[str, str] = {}

        def changed(track: Track) -> None:
            name, where, doing, took = rows.track_cells(track, board.clock())
            # An action's end may have been its last step's words already.
            if told.get(track.key) != doing:
                told[track.key] = doing
                self._write(f"  {rows.track_line(name, where, doing, took)}")

        board.listen(changed)
        try:
            yield
        finally:
            board.listen(None)

    def hand_back(self) -> None:
        """See :class:`Display`."""

    def _write(self, *lines: str) -> None:
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()


def wants_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a live picture can be drawn on ``stream`` and is wanted there.

    :param environ: ``NO_COLOR`` (not empty) and ``TERM=dumb`` say no.
    """
    return (
        stream.isatty()
        and not environ.get("NO_COLOR")
        and environ.get("TERM", "dumb") not in ("", "dumb")
        and (stream.encoding or "").lower().replace("-", "") == "utf8"
    )


def choose(stream: TextIO, environ: Mapping[str, str]) -> Display:
    """The display for ``stream``.

    :raises ExtrasMissing: it would be the live one, but its package isn't there.
    """
    if wants_live(stream, environ):
        # Only now: the plain one needs nothing that the driver doesn't.
        from ironic_virt.compute.progress import live

        return live.LiveDisplay(stream)
    return PlainDisplay(stream)
