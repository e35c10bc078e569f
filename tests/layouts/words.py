# SPDX-License-Identifier: Apache-2.0

"""What the README says for Nova, read from it: whoever follows it does just this."""

import configparser
import re
import shlex
import textwrap
from pathlib import Path

README = Path(__file__).parents[2] / "README.rst"
_SECTION = re.compile(r"^In Nova\n-+\n(.*?)\n^Without Nova\n-+$", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^\.\. code-block:: (\w+)\n\n((?:   .*\n|\n)+)", re.MULTILINE)


def _blocks(language: str) -> str:
    (section,) = _SECTION.findall(README.read_text())
    return "\n".join(
        textwrap.dedent(text) for kind, text in _BLOCK.findall(section + "\n") if kind == language
    )


def command(program: str) -> list[str]:
    """The words of the one command line that names a program.

    :raises ValueError: no line does, or several do.
    """
    lines = [line[2:] for line in _blocks("console").splitlines() if line.startswith("$ ")]
    commands = [shlex.split(line, comments=True) for line in lines]
    (words,) = [words for words in commands if Path(words[0]).name == program]
    return words


def options() -> dict[str, dict[str, str]]:
    """The options to set in ``nova.conf``, by section."""
    parser = configparser.ConfigParser(default_section="")
    parser.read_string(_blocks("ini"))
    return {name: dict(parser[name]) for name in parser.sections()}
