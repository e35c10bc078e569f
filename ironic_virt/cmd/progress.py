# SPDX-License-Identifier: Apache-2.0

"""Showing people what goes on: lines of text, or on a terminal what rich draws.

rich comes with the extra ``demo``; without it a terminal gets lines too.
"""

from __future__ import annotations

import contextlib
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.progress import TaskID

_DONE, _FAILED = "[green]✔", "[red]✘"


def takes_pictures(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return True if rich can draw on ``stream`` and the user wants that.

    :param environ: ``NO_COLOR`` (not empty) and ``TERM=dumb`` say no.
    """
    if (
        not stream.isatty()
        or environ.get("NO_COLOR")
        or environ.get("TERM", "dumb") in ("", "dumb")
        or (stream.encoding or "").lower().replace("-", "") != "utf8"
    ):
        return False
    try:
        import rich.progress  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


class Display:
    """Writes on a stream.  For one thread at a time.

    :param pictures: rich is there and the stream is a terminal for it.
    :param clock: monotonic, in seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        pictures: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._console: Any = None
        if pictures:
            from rich.console import Console

            self._console = Console(file=stream, highlight=False)

    def title(self, text: str) -> None:
        """Say what this is."""
        self._say(text, "bold")

    def note(self, text: str) -> None:
        """Say what is going on."""
        self._say(text, "dim")

    def command(self, line: str) -> None:
        """Show a command that is about to run; a terminal too narrow for it gets several lines."""
        if self._console is not None and len(f"$ {line}") > (width := self._console.width):
            wrapped = textwrap.wrap(
                line, width - len("     \\"), break_long_words=False, break_on_hyphens=False
            )
            line = " \\\n    ".join(wrapped)
        self._say(f"\n$ {line}", "bold")

    def done(self, text: str, seconds: float) -> None:
        """Say that something is done, and how long it took."""
        mark = "" if self._console is None else "✔ "
        self._say(f"{mark}{text} ({seconds:.1f} s)", "green")

    @contextlib.contextmanager
    def watch(self, title: str, names: Mapping[str, tuple[str, str]]) -> Iterator[Tracks]:
        """Show how far several things have come while the block runs.

        :param names: by key, what it is called, and the node that it is on or ``""``.
        """
        if self._console is None:
            self._say(f"{title} ...")
            yield Tracks(self, names, self._clock)
            return
        from rich import progress, table

        self._say(title, "bold")
        columns = (
            progress.TextColumn("{task.fields[mark]}"),
            progress.SpinnerColumn(),
            progress.TextColumn(
                "{task.description}",
                markup=False,
                table_column=table.Column(no_wrap=True, overflow="ellipsis"),
            ),
            progress.TimeElapsedColumn(),
        )
        with progress.Progress(*columns, console=self._console) as picture:
            yield _Picture(self, names, self._clock, picture)

    def _say(self, text: str, style: str = "") -> None:
        if self._console is None:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        else:
            self._console.print(text, style=style, markup=False, soft_wrap=True)


class Tracks:
    """How far each of several things has come; an end is told once, and nothing after it."""

    def __init__(
        self,
        display: Display,
        names: Mapping[str, tuple[str, str]],
        clock: Callable[[], float],
    ) -> None:
        self._display = display
        self._names = dict(names)
        self._clock = clock
        self._began = clock()
        self._doing: dict[str, str] = {}
        self._ended: set[str] = set()

    def report(self, key: str, step: str, detail: str = "", *, where: str | None = None) -> None:
        """Say what is being done.

        :param detail: Ironic's provision state; that a node was available before goes
            without saying.
        :param where: the node, if that is another one now.
        """
        says_more = detail not in ("", step, "available")
        self._tell(key, f"{step} ({detail})" if says_more else step, where)

    def finish(self, key: str, step: str) -> None:
        """Say that one has ended well."""
        self._tell(key, step, mark=_DONE)

    def fail(self, key: str, reason: str) -> None:
        """Say that one has ended badly."""
        self._tell(key, f"failed ({reason})", mark=_FAILED)

    def _tell(self, key: str, doing: str, where: str | None = None, mark: str = "") -> None:
        if key not in self._names or key in self._ended:
            return
        name, former = self._names[key]
        self._names[key] = name, former if where is None else where
        if mark:
            self._ended.add(key)
        if mark or self._doing.get(key) != doing:
            self._doing[key] = doing
            self._show(key, mark)

    def _show(self, key: str, mark: str) -> None:
        seconds = self._clock() - self._began
        self._display.note(f"  {self._line(key)}, {seconds:.1f} s")

    def _line(self, key: str) -> str:
        name, where = self._names[key]
        return f"{name}{f' on {where}' if where else ''}: {self._doing.get(key, 'waiting')}"


class _Picture(Tracks):
    def __init__(
        self,
        display: Display,
        names: Mapping[str, tuple[str, str]],
        clock: Callable[[], float],
        picture: Any,
    ) -> None:
        super().__init__(display, names, clock)
        self._picture = picture
        self._tasks: dict[str, TaskID] = {
            key: picture.add_task(self._line(key), total=1, mark=" ") for key in names
        }

    def _line(self, key: str) -> str:
        # The node comes last, so that a narrow terminal cuts that.
        name, where = self._names[key]
        return f"{name}: {self._doing.get(key, 'waiting')}{f', node {where}' if where else ''}"

    def _show(self, key: str, mark: str) -> None:
        end = {"completed": 1, "mark": mark} if mark else {}
        self._picture.update(self._tasks[key], description=self._line(key), **end)
