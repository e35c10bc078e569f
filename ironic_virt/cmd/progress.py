# SPDX-License-Identifier: Apache-2.0

"""Shows progress to people: as lines of text, or on a terminal as rich draws it.

rich comes with the extra ``demo``; without it, a terminal gets lines as well.
"""

from __future__ import annotations

import contextlib
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.progress import TaskID

Clock = Callable[[], float]
_DONE, _FAILED = "[green]✔", "[red]✘"


def takes_pictures(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return True if rich can draw on ``stream`` and the user wants that.

    :param environ: ``NO_COLOR`` (not empty) and ``TERM=dumb`` forbid it.
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

    :param pictures: let rich draw; the stream is a terminal.
    :param clock: monotonic, in seconds.
    """

    def __init__(
        self, stream: TextIO, *, pictures: bool = False, clock: Clock = time.monotonic
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._console: Any = None
        if pictures:
            from rich.console import Console

            self._console = Console(file=stream, highlight=False)

    def title(self, text: str) -> None:
        """Show the title of a program."""
        self._say(text, "bold")

    def note(self, text: str) -> None:
        """Show a note on what is going on."""
        self._say(text, "dim")

    def command(self, line: str) -> None:
        """Show a command that is about to run, on several lines if the terminal is narrow."""
        if self._console is not None and len(f"$ {line}") > (width := self._console.width):
            wrapped = textwrap.wrap(
                line, width - len("     \\"), break_long_words=False, break_on_hyphens=False
            )
            line = " \\\n    ".join(wrapped)
        self._say(f"\n$ {line}", "bold")

    def done(self, text: str, seconds: float) -> None:
        """Show that something is done, and how long it took."""
        mark = "" if self._console is None else "✔ "
        self._say(f"{mark}{text} ({seconds:.1f} s)", "green")

    @contextlib.contextmanager
    def watch(self, title: str, names: Mapping[str, tuple[str, str]]) -> Iterator[Tracks]:
        """Show the progress of several things while the block runs.

        :param names: by key, the name of a thing, and its node or ``""``.
        """
        if self._console is None:
            self._say(f"{title} ...")
            yield Tracks(self, names, self._clock)
            return
        from rich import progress, table

        self._say(title, "bold")
        column = table.Column(no_wrap=True, overflow="ellipsis")
        columns = (
            progress.TextColumn("{task.fields[mark]}"),
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}", markup=False, table_column=column),
            progress.TimeElapsedColumn(),
        )
        with progress.Progress(*columns, console=self._console) as picture:
            yield Tracks(self, names, self._clock, picture)

    def _say(self, text: str, style: str = "") -> None:
        if self._console is None:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        else:
            self._console.print(text, style=style, markup=False, soft_wrap=True)


class Tracks:
    """The progress of several things; nothing is shown of a thing after its end.

    :param picture: rich's, with a line for each; ``None``: each change is a line of text.
    """

    def __init__(
        self,
        display: Display,
        names: Mapping[str, tuple[str, str]],
        clock: Clock,
        picture: Any = None,
    ) -> None:
        self._display = display
        self._names = dict(names)
        self._clock = clock
        self._began = clock()
        self._doing: dict[str, str] = {}
        self._ended: set[str] = set()
        self._picture = picture
        self._tasks: dict[str, TaskID] = {
            key: picture.add_task(self._line(key), total=1, mark=" ")
            for key in (names if picture is not None else ())
        }

    def report(self, key: str, step: str, detail: str = "", *, where: str | None = None) -> None:
        """Show a step.

        :param detail: Ironic's provision state; ``available`` is not worth showing.
        :param where: the node, if it has changed.
        """
        says_more = detail not in ("", step, "available")
        self._tell(key, f"{step} ({detail})" if says_more else step, where)

    def finish(self, key: str, step: str) -> None:
        """Show that a thing has ended well."""
        self._tell(key, step, mark=_DONE)

    def fail(self, key: str, reason: str) -> None:
        """Show that a thing has ended badly."""
        self._tell(key, f"failed ({reason})", mark=_FAILED)

    def _tell(self, key: str, doing: str, where: str | None = None, mark: str = "") -> None:
        if key not in self._names or key in self._ended:
            return
        name, node = self._names[key]
        self._names[key] = name, node if where is None else where
        if mark:
            self._ended.add(key)
        elif self._doing.get(key) == doing:
            return
        self._doing[key] = doing
        if self._picture is None:
            self._display.note(f"  {self._line(key)}, {self._clock() - self._began:.1f} s")
        else:
            end = {"completed": 1, "mark": mark} if mark else {}
            self._picture.update(self._tasks[key], description=self._line(key), **end)

    def _line(self, key: str) -> str:
        (name, node), doing = self._names[key], self._doing.get(key, "waiting")
        if self._picture is None:
            return f"{name}{f' on {node}' if node else ''}: {doing}"
        # The node comes last, where a narrow terminal cuts the line.
        return f"{name}: {doing}{f', node {node}' if node else ''}"
