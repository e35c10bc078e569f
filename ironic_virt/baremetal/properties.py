# SPDX-License-Identifier: Apache-2.0

"""A node's ``properties``: what its hardware is, read from what people have entered.

Never raises: what can be read is kept, and the rest is named.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec

# What a database's columns and a scheduler's arithmetic can hold.
_LARGEST_SIZE = 2**31 - 1
_LONGEST_ARCH = 64
_LONGEST_SHOWN = 100


class NodeProperties(msgspec.Struct, frozen=True, gc=False):
    """A node's hardware, as operators or inspection have entered it.

    :ivar cpus: cores; 0 if not given.
    :ivar memory_mb: MiB; 0 if not given.
    :ivar local_gb: GiB; 0 if not given.
    :ivar cpu_arch: as entered, such as ``x86_64``.
    :ivar capabilities: by name.
    :ivar malformed: in words, each value that could not be read.
    """

    cpus: int = 0
    memory_mb: int = 0
    local_gb: int = 0
    cpu_arch: str | None = None
    capabilities: tuple[tuple[str, str], ...] = ()
    malformed: tuple[str, ...] = ()


def parse_properties(data: Any) -> NodeProperties:
    """Read a node's ``properties``.

    :param data: the decoded JSON value; anything but an object is malformed.
    :returns: what could be read; the rest is 0 or absent and in ``malformed``.
    """
    if data is None:
        return NodeProperties()
    if not isinstance(data, dict):
        return NodeProperties(malformed=(f"properties is not an object but {_shown(data)}",))
    malformed: list[str] = []
    sizes = {name: _size(data, name, malformed) for name in ("cpus", "memory_mb", "local_gb")}
    arch = data.get("cpu_arch")
    if arch is not None and not (isinstance(arch, str) and len(arch) <= _LONGEST_ARCH):
        malformed.append(
            f"properties/cpu_arch is not a text of up to {_LONGEST_ARCH} characters but "
            f"{_shown(arch)}"
        )
        arch = None
    capabilities = _capabilities(data.get("capabilities"), malformed)
    return NodeProperties(
        cpu_arch=arch, capabilities=capabilities, malformed=tuple(malformed), **sizes
    )


def _size(data: Mapping[str, Any], name: str, malformed: list[str]) -> int:
    value = data.get(name)
    if value is None or value == "":
        return 0
    try:
        size = int(value)
    except (TypeError, ValueError, OverflowError):
        size = -1
    whole = not isinstance(value, bool) and (not isinstance(value, float) or value == size)
    if not whole or not 0 <= size <= _LARGEST_SIZE:
        malformed.append(f"properties/{name} is not a whole number from 0 on but {_shown(value)}")
        return 0
    return size


def _capabilities(value: Any, malformed: list[str]) -> tuple[tuple[str, str], ...]:
    """Read ``"k1:v1,k2:v2"``; a JSON object of texts is understood too."""
    if value is None or value == "":
        return ()
    if isinstance(value, dict):
        pairs = [(str(name), item) for name, item in value.items()]
    elif isinstance(value, str):
        pairs = [_pair(part) for part in value.split(",")]
    else:
        pairs = [("", value)]
    capabilities: dict[str, str] = {}
    for name, item in pairs:
        if name and isinstance(item, str) and item and ":" not in item:
            # Every node has the same few, also where the whole differs.
            capabilities[sys.intern(name)] = sys.intern(item)
        else:
            shown = _shown(f"{name}:{item}" if name else item)
            malformed.append(f"properties/capabilities: {shown} is not of the form name:value")
    return tuple(capabilities.items())


def _pair(text: str) -> tuple[str, str]:
    name, colon, item = (part.strip() for part in text.strip().partition(":"))
    return (name, item) if name and colon else ("", text)


def _shown(value: Any) -> str:
    """A value for a message, cut to a short text."""
    try:
        return repr(value)[:_LONGEST_SHOWN]
    except (ValueError, RecursionError):  # a number of thousands of digits
        return f"a {type(value).__name__} too large to show"
