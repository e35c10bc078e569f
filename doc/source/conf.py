# SPDX-License-Identifier: Apache-2.0

"""How Sphinx builds the documentation."""

import enum
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from docutils import nodes

sys.path.insert(0, str(Path(__file__).parents[1] / "extensions"))

project = "ironic-virt"
author = "the ironic-virt contributors"
copyright = "the ironic-virt contributors"
release = metadata.version("ironic-virt")
version = ".".join(release.split(".")[:2])

extensions = [
    "fleet_findings",
    "folds",
    "log_messages",
    "navigation_titles",
    "provision_state_tables",
    "oslo_config.sphinxext",
    "reno.sphinxext",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
]

# Said beside the plot of these benchmarks.
_RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
_nova, *_older = (
    json.loads((_RESULTS / f"{name}.json").read_text()) for name in ("nova", "nova-33", "nova-29")
)
_dates = " and ".join(sorted({record["date"] for record in (_nova, *_older)}))
_used = _nova["setting"]
rst_epilog = f"""
.. |measured| replace:: Measured on {_dates} with Nova {_used["nova"]},
   {" and ".join(record["setting"]["nova"] for record in _older)} and Ironic {_used["ironic"]}, on
   {_nova["host"]["cores"]} cores
"""

html_theme = "furo"
html_title = f"ironic-virt {version}"
html_static_path = ["_static"]
html_css_files = ["ironic-virt.css"]
html_show_copyright = False
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_type_comments = False
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
python_display_short_literal_types = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 88


def show_named_members(
    app: Any, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Show a protocol's properties and an enumeration's members: their names say it all."""
    modules = ("ironic_virt.virt.values", "ironic_virt.scheduler.host_state")
    protocols = isinstance(obj, property) and obj.fget.__module__ in modules
    return False if protocols or isinstance(obj, enum.Enum) else None


def hide_protocol_signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """Leave out the constructors of protocols."""
    return ("", returns) if getattr(obj, "_is_protocol", False) else None


def name_unreleased_notes(app: Any, doctree: nodes.document) -> None:
    """Say what reno's heading means while there is no tag at all."""
    for title in doctree.findall(nodes.title):
        if app.env.docname == "releasenotes" and title.astext() == "0.0.0":
            title[:] = [nodes.Text("Not yet released")]


def setup(app: Any) -> None:
    app.connect("doctree-read", name_unreleased_notes, priority=100)
    app.connect("autodoc-skip-member", show_named_members)
    app.connect("autodoc-process-signature", hide_protocol_signature)
