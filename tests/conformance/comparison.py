# SPDX-License-Identifier: Apache-2.0

"""Says where the two Ironics did not answer alike."""

import difflib
import json
import re
from typing import Any

FAKE = "fake"
REAL = "real"

_PLACEHOLDER = re.compile(r"<uuid \d+>")


def readable(exchange: dict[str, Any]) -> list[str]:
    return json.dumps(exchange, indent=1, sort_keys=True, ensure_ascii=False).splitlines()


_OF_NEWER_IRONICS = ("openstack-request-id", "x-openstack-request-id")
"""Headers that say nothing of the API, and that not every Ironic sends which the fake can be."""


def _essence(exchanges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a client goes by: releases say why something was refused in other words."""
    clean = []
    for exchange in exchanges:
        headers = exchange["headers"].items()
        kept = {name: value for name, value in headers if name not in _OF_NEWER_IRONICS}
        body = exchange["body"]
        if isinstance(body, dict) and "error_message" in body:
            body = body | {"error_message": "<message>"}
        clean.append(exchange | {"headers": kept, "body": body})
    # What went had identifiers in it, too.
    numbers: dict[str, str] = {}
    text = _PLACEHOLDER.sub(
        lambda match: numbers.setdefault(match[0], f"<uuid {len(numbers) + 1}>"),
        json.dumps(clean, sort_keys=True),
    )
    renumbered: list[dict[str, Any]] = json.loads(text)
    return renumbered


def differences(
    fake: list[dict[str, Any]], real: list[dict[str, Any]], *, is_older: bool = False
) -> str:
    """A diff for each request that was not answered alike; empty if there is none.

    Where one stopped early because it failed the check, the rest is not compared.

    :param is_older: the real Ironic is older than the one that the fake is modelled on.
    """
    if is_older:
        fake, real = _essence(fake), _essence(real)
    lines: list[str] = []
    for ours, theirs in zip(fake, real, strict=False):
        if ours != theirs:
            # The fake is the one to be fixed: a diff says what to change in it.
            context = difflib.unified_diff(
                readable(ours), readable(theirs), FAKE, REAL, n=1, lineterm=""
            )
            lines += [f"{theirs['request']}:", *context]
    # Half of a pair of surrogates can't be printed.
    return "\n".join(lines).encode(errors="backslashreplace").decode()
