# SPDX-License-Identifier: Apache-2.0

"""Shows the findings of ``ironic-virt-fleet check``, in a fold with a table for each subject.

What each means and how to provoke it is in ``fleet_findings.toml``.

.. code-block:: rst

    .. fleet-findings::
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import folds
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from ironic_virt.fleet import checks
from ironic_virt.fleet.findings import Table

SUBJECTS = {
    "Nodes and their records": checks.nodes,
    "What Placement offers": checks.offers,
    "Providers and allocations": checks.providers,
    "Servers": checks.servers,
    "Services, their options and leases": checks.services,
    "Failure domains, zones and server groups": checks.domains,
}


def rows(table: Table) -> list[list[str]]:
    """Code, severity, meaning, suggested fix and how to provoke it, for each kind of finding."""
    texts = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return [
        [
            *(f"``{code}``", severity.value, texts[code]["meaning"]),
            # A command, so it begins as it is typed.
            _plain(fix.replace("{about}", "<object>")),
            texts[code]["provoke"][0].upper() + texts[code]["provoke"][1:],
        ]
        for code, (severity, fix, _) in table.items()
    ]


def _plain(text: str) -> str:
    """Text in which nothing is taken for markup."""
    return text.replace("{", "<").replace("}", ">").replace("_ ", "\\_ ").replace("*", "\\*")


class FleetFindings(SphinxDirective):
    """A fold for each subject, with a row for each kind of finding."""

    has_content = False

    def run(self) -> list[nodes.Node]:
        shown: list[nodes.Node] = []
        for subject, module in SUBJECTS.items():
            table = self._table(rows(module.CHECKS))
            shown += folds.fold(f"{subject}: {', '.join(module.CHECKS)}", table)
        return shown

    def _table(self, cells: list[list[str]]) -> list[nodes.Node]:
        lines = [".. list-table::", "   :class: wide", "   :header-rows: 1"]
        lines += ["   :widths: 16 8 28 30 18", ""]
        header = ["Code", "Severity", "What it means", "Suggested fix", "How to provoke it"]
        for row in [header, *cells]:
            lines += [
                f"   {'* ' if not number else '  '}- {cell}" for number, cell in enumerate(row)
            ]
        parent = nodes.Element()
        self.state.nested_parse(StringList(lines, "findings"), self.content_offset, parent)
        return parent.children


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("fleet-findings", FleetFindings)
    return {"parallel_read_safe": True}
