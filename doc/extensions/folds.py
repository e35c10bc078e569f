# SPDX-License-Identifier: Apache-2.0

"""Folds long generated lists by subject: a reader opens the one that he needs.

.. code-block:: rst

    .. folded-options::

       ironic_virt

A link to something inside a fold opens it, and so does a search within the page.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from docutils import nodes
from oslo_config.sphinxext import ShowOptionsDirective
from sphinx import addnodes

from ironic_virt.conf import ironic_options, refresh_options, standby_options

_SUBJECTS = {
    "DEFAULT": "the host, its files and its log",
    "compute": "the reference compute service",
    "database": "the reference compute service's records",
    "scheduler": "how the reference compute service chooses a node",
}
# Options of [ironic]; the first subject that has one is its own.
_OF_IRONIC = [
    ("who is active, of several processes", standby_options.OPTIONS),
    ("how often nodes are read", refresh_options.OPTIONS),
    ("nodes, deployments and deadlines", ironic_options.OPTIONS),
]
_OTHERS = "address, login and connection"


def fold(summary: str, content: Sequence[nodes.Node]) -> list[nodes.Node]:
    """Put nodes into an element that is closed until a reader opens it."""
    head = f'<details class="fold"><summary>{html.escape(summary)}</summary>'
    return [
        nodes.raw("", head, format="html"),
        *content,
        nodes.raw("", "</details>", format="html"),
    ]


class FoldedOptions(ShowOptionsDirective):
    """The options as oslo.config shows them, in a fold for each subject."""

    def run(self) -> list[nodes.Node]:
        groups: list[nodes.section] = []
        subjects: dict[str, list[nodes.Node]] = {}
        for node in [*super().run(), nodes.section()]:
            if isinstance(node, nodes.section):
                for subject, options in subjects.items():
                    groups[-1] += fold(f"{len(options)} options: {subject}", options)
                subjects = {}
                groups.append(node)
            elif isinstance(node, addnodes.desc):
                subjects.setdefault(_subject(groups[-1][0].astext(), node), []).append(node)
        return [group for group in groups if len(group)]


def _subject(group: str, option: addnodes.desc) -> str:
    if group in _SUBJECTS:
        return _SUBJECTS[group]
    name = option[0].astext()
    return next(
        (subject for subject, options in _OF_IRONIC if name in {one.dest for one in options}),
        _OTHERS,
    )


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("folded-options", FoldedOptions)
    return {"parallel_read_safe": True}
