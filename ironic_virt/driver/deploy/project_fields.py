# SPDX-License-Identifier: Apache-2.0

"""Making an instance's project the lessee of its node while it has it.

``[ironic] project_fields`` asks for that.  The lessee is set only if it is empty, and
only what was set here is taken back: a mark in the node's ``extra`` says what that is.
The mark outlives the instance, so what could not be taken back in time is given to the
next project, and never stays with the former one.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ironic_virt.baremetal.node import Node
from ironic_virt.virt import InstanceLike

MARK = "ironic_virt_project"
_LESSEE = "lessee"


def set_here(node: Node) -> str | None:
    """The lessee, if it was set here and has not been changed since."""
    mark = (node.extra or {}).get(MARK)
    lessee = mark.get(_LESSEE) if isinstance(mark, Mapping) else None
    return node.lessee if lessee and lessee == node.lessee else None


def claim_patch(
    node: Node, instance: InstanceLike, names: Collection[str]
) -> list[dict[str, Any]] | None:
    """The operations on a node that an instance gets.

    :param names: the value of the option.
    :returns: ``None``: the lessee is another project, which was not set here.
    """
    own_lessee = set_here(node)
    project = (instance.project_id or None) if _LESSEE in names else None
    if node.lessee is not None and own_lessee is None:
        return None if project != node.lessee and _LESSEE in names else []
    patch: list[dict[str, Any]] = []
    if node.lessee != project:
        patch.append({"op": "add", "path": f"/{_LESSEE}", "value": project})
    if project != own_lessee:
        mark = {_LESSEE: project} if project else {}
        patch.append({"op": "add", "path": f"/extra/{MARK}", "value": mark})
    return patch


def release_patch(node: Node) -> list[dict[str, Any]]:
    """The operations that take back what was set here."""
    changes = [{"op": "remove", "path": f"/{_LESSEE}"}] if set_here(node) else []
    if MARK in (node.extra or {}):
        changes.append({"op": "remove", "path": f"/extra/{MARK}"})
    return changes
