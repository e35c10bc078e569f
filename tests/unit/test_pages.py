# SPDX-License-Identifier: Apache-2.0

"""What pages point to is there: files, commands with their options, targets of make.

Sphinx checks links from page to page (``make docs``).
"""

import functools
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.rst", "CONTRIBUTING.rst", "SECURITY.md")),
    *sorted((ROOT / "doc" / "source").rglob("*.rst")),
]
COMMAND = re.compile(r"(?<![\w/.-])(ironic-virt(?:-fleet|-manage)?) ((?:(?!\$\()[^|;&)`\n])+)")
GROUPS = {
    "ironic-virt": "ironic_virt.cli",
    "ironic-virt-fleet": "ironic_virt.fleet_cli",
    "ironic-virt-manage": "ironic_virt.manage_cli",
}
BUILT = (".envs/", "doc/build", "dist/")
"""What ``make`` writes."""

each = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def literals(text: str) -> list[str]:
    """What stands between two backticks."""
    return re.findall(r"``([^`]+)``", text)


def typed(text: str) -> Iterator[str]:
    """Lines that a reader types, and commands within a sentence."""
    joined = re.sub(r" *\\\n *(> )?", " ", text)
    yield from re.findall(r"^ +[$>] (.+)$", joined, re.MULTILINE)
    yield from literals(" ".join(text.split()))


@functools.cache
def options(program: str) -> dict[tuple[str, ...], set[str]]:
    """By command of a program, in words, the options that it takes."""
    found = {}
    for point in metadata.entry_points(group=GROUPS[program]):
        parser = point.load()(None, None).get_parser(point.name)
        found[tuple(point.name.split("_"))] = set(parser._option_string_actions)
    return found


def unknown(program: str, said: str) -> str | None:
    """The part of a command that doesn't exist; ``None``: all of it exists."""
    words = re.sub(r"^(--config-file \S+ +)+", "", said).split()
    if not words or words[0][0] in "-[" or words[0] in ("complete", "COMMAND", "help"):
        return None
    known = options(program)
    # The longest that fits; a sentence may name the beginning of several.
    for length in range(len(words), 0, -1):
        name = tuple(words[:length])
        if name in known:
            asked = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            return ", ".join(sorted(asked - known[name])) or None
    return None if any(one[: len(words)] == tuple(words) for one in known) else said


@each
def test_commands_and_their_options_are_there(page: Path) -> None:
    wrong = [
        (program, said, found)
        for line in typed(page.read_text())
        for program, said in COMMAND.findall(line)
        if (found := unknown(program, said.strip(" .,:")))
    ]
    assert wrong == []


@each
def test_files_and_targets_of_make_are_there(page: Path) -> None:
    text = page.read_text()
    named = [" ".join(one.split()) for one in literals(text)]
    rooms = tuple(f"{path.name}/" for path in ROOT.iterdir() if path.is_dir())
    paths = [one.partition("::")[0] for one in named if one.startswith(rooms)]
    assert [
        one
        for one in paths
        if not one.startswith(BUILT)
        and re.fullmatch(r"[\w./-]+", one)
        and not (ROOT / one).exists()
    ] == []
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"(?:``|^ +\$ |^    )make ([a-z-]+)", text, re.MULTILINE)
    assert [one for one in targets if f"\n{one}: " not in makefile] == []
