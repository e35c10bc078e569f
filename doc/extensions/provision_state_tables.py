# SPDX-License-Identifier: Apache-2.0

"""Shows columns of ``reference/provision_states.toml`` as a table.

.. code-block:: rst

    .. provision-states::

       spawn
       destroy
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

_TABLE = Path(__file__).parents[1] / "source" / "reference" / "provision_states.toml"


class ProvisionStates(SphinxDirective):
    """A row for each state, a column for each method that is named in the content."""

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(_TABLE))
        read = tomllib.loads(_TABLE.read_text())
        names = [line.strip() for line in self.content if line.strip()]
        cells = {
            (name, state): what
            for name in names
            for what, listed in read["methods"][name].items()
            for state in listed
        }
        lines = [".. list-table::", "   :class: wide", "   :header-rows: 1"]
        lines += ["   :stub-columns: 1", ""]
        lines += _row(["provision state", *(_heading(name) for name in names)])
        for state in read["states"]:
            lines += _row([state, *(cells[name, state] for name in names)])
        parent = nodes.Element()
        self.state.nested_parse(StringList(lines, str(_TABLE)), self.content_offset, parent)
        return parent.children


def _heading(name: str) -> str:
    method, _, how = name.partition(", ")
    return f"``{method}``{f', {how}' if how else ''}"


def _row(cells: list[str]) -> list[str]:
    return [f"   {'* ' if not number else '  '}- {cell}" for number, cell in enumerate(cells)]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("provision-states", ProvisionStates)
    return {"parallel_read_safe": True}
