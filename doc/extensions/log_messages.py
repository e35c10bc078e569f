# SPDX-License-Identifier: Apache-2.0

"""Shows what each code in a log line means, and the log lines that have it, folded by subject.

.. code-block:: rst

    .. log-messages::

The meanings are in ``operate/messages.toml``, in which a comment ``# -- SUBJECT ---`` begins a
subject.  The lines are read from the sources: all that
may be logged at WARNING or above, but for those of commands, which answer who typed them.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import folds
from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes

_ROOT = Path(__file__).parents[2]
TABLE = _ROOT / "doc" / "source" / "operate" / "messages.toml"
PACKAGE = _ROOT / "ironic_virt"
# Of what commands log, only this is a service's.
_SERVICE = "compute"
_LEVELS = {
    "warning": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
    "critical": "CRITICAL",
    "log": "WARNING or ERROR",
}
_SUBJECT = re.compile(r"# -- (.+?) -+")
_LOGGER = re.compile(r"(LOG|log|[lL]ogger(\(.*\))?)$")
_CODED = re.compile(r"\[([a-z]+(?:-[a-z]+)+)\] (.+)")


def meanings() -> dict[str, dict[str, str]]:
    """What stands in the table, by code."""
    return tomllib.loads(TABLE.read_text())


def subjects() -> dict[str, list[str]]:
    """The codes by subject."""
    codes: dict[str, list[str]] = {}
    for line in TABLE.read_text().splitlines():
        if subject := _SUBJECT.fullmatch(line):
            codes[subject[1]] = []
        elif line.startswith("["):
            codes[list(codes)[-1]].append(line.strip("[]"))
    return codes


def lines(package: Path = PACKAGE) -> Iterator[tuple[str, str, str, str]]:
    """Where a line is logged, its level, its code (``""``: it has none) and its text."""
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if name.parts[0] == "testing" or (name.parts[0] == "cmd" and name.stem != _SERVICE):
            continue
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            how = call.func.attr
            if how not in _LEVELS or not _LOGGER.search(ast.unparse(call.func.value)):
                continue
            text = call.args[how == "log"]
            said = text.value if isinstance(text, ast.Constant) else ast.unparse(text)
            coded = _CODED.fullmatch(str(said))
            code, words = coded.groups() if coded else ("", str(said))
            yield f"{name}:{call.lineno}", _LEVELS[how], code, words


class LogMessages(SphinxDirective):
    """A fold for each subject, with a section for each code."""

    has_content = False

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(TABLE))
        said: dict[str, dict[str, None]] = {}
        for _, level, code, words in lines():
            said.setdefault(code, {})[f"{level}: {words}"] = None
        rows = meanings()
        shown: list[nodes.Node] = []
        for subject, codes in subjects().items():
            summary = f"{subject[0].upper()}{subject[1:]}: {', '.join(codes)}"
            shown += folds.fold(summary, self._sections(codes, rows, said))
        return shown

    def _sections(
        self,
        codes: list[str],
        rows: dict[str, dict[str, str]],
        said: dict[str, dict[str, None]],
    ) -> list[nodes.Node]:
        written: list[str] = []
        for code in codes:
            written += [
                f".. _log-{code}:",
                "",
                code,
                "-" * len(code),
                "",
                ".. code-block:: none",
                "",
            ]
            written += [*(f"    {line}" for line in said[code]), ""]
            written += [rows[code]["means"], "", f"**What to do:** {rows[code]['do']}", ""]
        return nested_parse_to_nodes(
            self.state, "\n".join(written), source=str(TABLE), offset=self.content_offset
        )


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("log-messages", LogMessages)
    return {"parallel_read_safe": True}
