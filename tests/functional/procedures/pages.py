# SPDX-License-Identifier: Apache-2.0

"""What an operator does who follows a page: the files and commands in it, in order."""

import dataclasses
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ADMIN = Path(__file__).parents[3] / "doc" / "source" / "admin"
_BLOCK = re.compile(r"^( *)\.\. code-block:: (\w+)\n((?:\1 +\S.*\n|\n)+)", re.MULTILINE)
_CAPTION = re.compile(r":caption: (\S+)\n")


@dataclasses.dataclass(frozen=True)
class File:
    """A file to write, at the path that the page gives it."""

    path: str
    text: str


@dataclasses.dataclass(frozen=True)
class Command:
    """Something to type into a shell, on one line or more."""

    text: str


def steps(page: str) -> list[File | Command]:
    """What a page has its reader do.

    :raises ValueError: there is a block on it that nobody could follow.
    """
    return list(_steps((ADMIN / f"{page}.rst").read_text()))


def _steps(text: str) -> Iterator[File | Command]:
    for match in _BLOCK.finditer(text):
        kind, content = match[2], textwrap.dedent(match[3])
        if kind == "ini":
            caption = _CAPTION.search(content)
            if caption is None:
                raise ValueError(f"a file without a name: {content}")
            yield File(caption[1], content[caption.end() :].lstrip("\n"))
        elif kind == "console":
            yield from _commands(content.strip("\n"))
        else:
            raise ValueError(f"a block that is neither a file nor commands: {kind}")


def _commands(content: str) -> Iterator[Command]:
    lines: list[str] = []
    for line in content.splitlines():
        if line.startswith("$ "):
            if lines:
                yield Command("\n".join(lines))
            lines = [line[2:]]
        elif line.startswith("> ") and lines:
            lines.append(line[2:])
        else:
            raise ValueError(f"neither a command nor its next line: {line!r}")
    yield Command("\n".join(lines))
