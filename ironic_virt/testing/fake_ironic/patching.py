# SPDX-License-Identifier: Apache-2.0

"""JSON Patch, with Ironic's restrictions and messages."""

import copy
from collections.abc import Sequence
from typing import Any

import jsonpatch
import jsonpointer

from ironic_virt.testing.fake_ironic import checks, errors
from ironic_virt.testing.fake_ironic.web import Request

Patch = list[dict[str, Any]]


_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "pattern": "^(/[\\w-]+)+$"},
            "op": {"type": "string", "enum": ["add", "replace", "remove"]},
            "value": {},
        },
        "additionalProperties": False,
        "required": ["op", "path"],
    },
}


def read(request: Request, allowed: Sequence[str], name: str | None = "patch") -> Patch:
    """The patch in a request's body.

    :param allowed: the fields that can be patched.
    :param name: what Ironic's error calls a body that is not a patch.
    :raises ApiError: 400 if it is not a patch, or touches another field.
    """
    patch: Patch = request.json()
    if patch is None:
        raise errors.ApiError(500, "'NoneType' object is not iterable")
    checks.check_schema(name, patch, _SCHEMA)
    for operation in patch:
        if operation["path"].split("/")[1] not in allowed:
            raise errors.invalid(
                f"Cannot patch {operation['path']}. Only the following can be updated:"
                f" {', '.join(allowed)}"
            )
    return patch


def values(patch: Patch, path: str) -> list[Any]:
    """What a patch would set at a path.

    :raises ApiError: 500 if an operation lacks its value, as Ironic answers.
    """
    operations = [item for item in patch if item["path"] == path and item["op"] != "remove"]
    if any("value" not in item for item in operations):
        raise errors.ApiError(500, "'value'")
    return [item["value"] for item in operations]


def touches(patch: Patch, field: str) -> bool:
    """Whether a patch changes a field or something in it."""
    path = f"/{field}"
    return any(item["path"] == path or item["path"].startswith(path + "/") for item in patch)


def apply(document: dict[str, Any], patch: Patch) -> dict[str, Any]:
    """The document as it is after the patch; the given one stays as it is.

    :raises ApiError: 400 if an operation can't be done.
    """
    for operation in patch:
        path = operation["path"]
        if operation["op"] == "add" and path.count("/") == 1 and path[1:] not in document:
            raise errors.invalid(
                f"Adding a new attribute ({path}) to the root of the resource is not allowed"
            )
    # Copied one by one: rows share one empty dict, and a copy of them all
    # together would go on sharing it.
    document = {field: copy.deepcopy(value) for field, value in document.items()}
    for operation in patch:
        try:
            document = jsonpatch.apply_patch(document, jsonpatch.JsonPatch([operation]))
        except (
            jsonpatch.JsonPatchException,
            jsonpointer.JsonPointerException,
            KeyError,
            IndexError,
        ) as exc:
            raise errors.invalid(f"Couldn't apply patch '{operation}'. Reason: {exc}") from None
    return document
