# SPDX-License-Identifier: Apache-2.0

"""Shows the findings of ``ironic-virt-fleet check`` as a table, by those of the checks.

What each means and how to provoke it is in ``fleet_findings.toml``.

.. code-block:: rst

    .. fleet-findings::
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from ironic_virt.fleet import checks


def rows() -> list[list[str]]:
    """Code, severity, meaning, what mends it and how to provoke it, of each kind."""
    told = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return [
        [
            *(f"``{code}``", severity.value, told[code]["meaning"]),
            # A command, so it begins as it is typed.
            _plain(fix.replace("{about}", "<object>")),
            told[code]["provoke"][0].upper() + told[code]["provoke"][1:],
        ]
        for code, (severity, fix, _) in checks.CHECKS.items()
    ]


def _plain(text: str) -> str:
    """Text in which nothing is taken for markup."""
    return text.replace("{", "<").replace("}", ">").replace("_ ", "\\_ ").replace("*", "\\*")


class FleetFindings(SphinxDirective):
    """A table with a row for each kind of finding."""

    has_content = False

    def run(self) -> list[nodes.Node]:
        lines = [".. list-table::", "   :class: wide", "   :header-rows: 1"]
        lines += ["   :widths: 16 8 28 30 18", ""]
        header = ["Code", "Severity", "What it means", "What mends it", "How to provoke it"]
        for row in [header, *rows()]:
            lines += [
                f"   {'* ' if not number else '  '}- {cell}" for number, cell in enumerate(row)
            ]
        parent = nodes.Element()
        self.state.nested_parse(StringList(lines, "findings"), self.content_offset, parent)
        return parent.children


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("fleet-findings", FleetFindings)
    return {"parallel_read_safe": True}
