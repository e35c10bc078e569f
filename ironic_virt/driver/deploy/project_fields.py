# SPDX-License-Identifier: Apache-2.0

"""Making an instance's project the lessee, or the owner, of its node while it has it.

``[ironic] project_fields`` says which of the two.  Only a field that is empty is set, and
only what was set here is taken back: a mark in the node's ``extra`` says what that is.
The mark outlives the instance, so what could not be taken back in time is given to the
next project, and never stays with the former one.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ironic_virt.baremetal.node import Node
from ironic_virt.virt import InstanceLike

_FIELDS = ("lessee", "owner")
MARK = "ironic_virt_project"
_PATH = f"extra/{MARK}"


def set_here(node: Node) -> dict[str, str]:
    """The fields that were set here and have not been changed since, with their values."""
    mark = (node.extra or {}).get(MARK)
    if not isinstance(mark, Mapping):
        return {}
    return {
        name: value for name in _FIELDS if (value := mark.get(name)) and value == _of(node, name)
    }


def claim(node: Node, instance: InstanceLike, names: Sequence[str]) -> dict[str, Any]:
    """What to write to a node that an instance gets, by the path of the field.

    :param names: of the fields that are to say the instance's project.
    :returns: empty if all is as it should be, or belongs to somebody else.
    """
    former = set_here(node)
    told: dict[str, str] = {}
    changes: dict[str, Any] = {}
    for name in _FIELDS:
        now = _of(node, name)
        if now is not None and name not in former:
            continue
        project = instance.project_id if name in names else None
        if project:
            told[name] = project
        if now != project:
            changes[name] = project
    if told != former:
        changes[_PATH] = told
    return changes


def left_alone(node: Node, instance: InstanceLike, names: Sequence[str]) -> list[str]:
    """The fields that say another project, which was not set here."""
    former = set_here(node)
    return [
        name
        for name in names
        if name not in former and _of(node, name) not in (None, instance.project_id)
    ]


def release(node: Node) -> list[dict[str, Any]]:
    """The patch that takes back what was set here."""
    former = set_here(node)
    changes = [{"op": "remove", "path": f"/{name}"} for name in former]
    if MARK in (node.extra or {}):
        changes.append({"op": "remove", "path": f"/{_PATH}"})
    return changes


def _of(node: Node, name: str) -> str | None:
    found: str | None = getattr(node, name)
    return found
