# SPDX-License-Identifier: Apache-2.0

"""Whether a resource already is as a JSON patch (RFC 6902) wants it.

Of the patches that Ironic takes, those are understood that this package makes:
``add``, ``replace`` and ``remove`` of members of objects.  Lists are values;
nothing is said of operations on their items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HIDDEN = "******"
"""What Ironic shows of a secret."""

JsonPatch = Sequence[Mapping[str, Any]]


def patch_is_applied(resource: Mapping[str, Any], patch: JsonPatch) -> bool:
    """Whether applying the patch would change nothing any more.

    Ironic shows a removed field as null or as an empty object: both count as
    removed.  A value that it hides counts as the wanted one: a patch is applied as
    a whole, so the rest of it tells.

    :param resource: as decoded from JSON; not changed.
    """
    paths = [_parts(operation["path"]) for operation in patch]
    result = dict(resource)
    for number, (operation, path) in enumerate(zip(patch, paths, strict=True)):
        # What a later operation overwrites need not have left a trace.
        overwritten = any(path[: len(later)] == later for later in paths[number + 1 :])
        if not overwritten and not _apply(result, operation, path):
            return False
    return bool(result == resource)


def _apply(resource: dict[str, Any], operation: Mapping[str, Any], path: Sequence[str]) -> bool:
    """Apply one operation in place; ``False`` if there is no such place.

    What the resource has inside is shared with others, and may be nested deeper than Python
    can copy or compare: only the objects on the way are copied.
    """
    removes = bool(operation["op"] == "remove")
    for part in path[:-1]:
        child = resource.get(part)
        if not isinstance(child, dict):
            return removes and child is None
        resource[part] = resource = dict(child)
    name = path[-1]
    if not removes:
        if resource.get(name) == HIDDEN:
            return True
        resource[name] = operation["value"]
    elif resource.get(name) not in (None, {}):
        del resource[name]
    return True


def _parts(path: str) -> list[str]:
    parts = path.removeprefix("/").split("/")
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]
