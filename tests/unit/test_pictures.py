# SPDX-License-Identifier: Apache-2.0

"""The pictures of terminals in the documentation show what the commands print today."""

import html
import itertools
import pathlib
import re
import shlex

import pytest

from ironic_virt.cmd import node, server_view

PICTURES = pathlib.Path(__file__).parents[2] / "doc" / "source" / "pictures"
TERMINALS = sorted(PICTURES.glob("terminal-*.svg"))
# By command, what a table's header may have, or else what its rows begin with.
HEADERS = {
    "node list": node._COLUMNS,
    "server create": server_view.LIST_COLUMNS,
    "server list": server_view.LIST_COLUMNS,
}


def commands(picture: pathlib.Path) -> dict[str, list[list[str]]]:
    """By command, the cells of its last table."""
    found: dict[str, list[list[str]]] = {}
    shown = re.findall(r"<text [^>]*>(.*)</text>", picture.read_text())
    text = "\n".join(html.unescape(re.sub(r"<[^>]+>", "", line)) for line in shown)
    for part in text.replace("\\\n", "").split("$ ")[1:]:
        command, *lines = part.splitlines()
        while lines and " -c " in lines[0]:
            # Wrapped by the terminal.
            command += f" {lines.pop(0)}"
        rows = [line.strip("| ").split("|") for line in lines if line.startswith("|")]
        found[command] = [[cell.strip() for cell in row] for row in rows]
    return found


@pytest.mark.parametrize("picture", TERMINALS, ids=lambda path: path.stem)
def test_a_table_has_the_columns_that_its_command_prints(picture: pathlib.Path) -> None:
    tables = {command: rows for command, rows in commands(picture).items() if rows}
    assert tables
    for command, (header, *rows) in tables.items():
        words = shlex.split(command)
        asked = [
            name.replace("_", " ") for option, name in itertools.pairwise(words) if option == "-c"
        ]
        if header == ["Field", "Value"]:
            header = [row[0] for row in rows]
            known = server_view.SHOW_COLUMNS if words[1] == "server" else header
        else:
            known = HEADERS[" ".join(words[1:3])]
        assert header == (asked or list(known)), command
        assert set(header) <= set(known), command


def test_there_are_pictures_and_each_is_on_a_page() -> None:
    assert TERMINALS
    pages = "".join(page.read_text() for page in PICTURES.parent.rglob("*.rst"))
    for picture in PICTURES.glob("*.svg"):
        assert f"pictures/{picture.name}" in pages
