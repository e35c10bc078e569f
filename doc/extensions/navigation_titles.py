# SPDX-License-Identifier: Apache-2.0

"""Makes each page's navigation from the titles of pages.

Sphinx copies the headings and objects of all pages for each page, and throws them away, because
the navigation has titles only.  That took a third of the time of a build.  Here they are left out
before.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx import addnodes


def _title(toc: nodes.Element) -> nodes.Element:
    """A page's title, and the pages below it."""
    kept = toc.deepcopy()
    for item in kept.children:
        if len(item) > 1:
            item[1][:] = list(item.findall(addnodes.toctree))
            if not len(item[1]):
                item.pop(1)
    return kept


def _use_titles(
    app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    if "toctree" not in context:
        return
    env, from_all = app.env, context["toctree"]

    def toctree(**options: Any) -> str:
        if not options.get("titles_only"):
            return str(from_all(**options))
        whole, env.tocs = env.tocs, app.builder.navigation_titles
        try:
            return str(from_all(**options))
        finally:
            env.tocs = whole

    context["toctree"] = toctree


def _find_titles(app: Any, env: Any) -> None:
    app.builder.navigation_titles = {name: _title(toc) for name, toc in env.tocs.items()}


def setup(app: Any) -> dict[str, bool]:
    app.connect("env-check-consistency", _find_titles)
    # Before the theme asks for it.
    app.connect("html-page-context", _use_titles, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
