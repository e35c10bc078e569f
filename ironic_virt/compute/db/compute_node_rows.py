# SPDX-License-Identifier: Apache-2.0

"""Compute nodes' rows as values, and values as rows.

Many nodes are alike, so traits and capabilities are taken apart once for each
distinct text, and the values share them.
"""

from __future__ import annotations

import functools
import types as python_types
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from ironic_virt.compute.db import models, records, types
from ironic_virt.request.spec import placement_class

_NODE = models.compute_nodes
COLUMNS = models.columns(_NODE, records.ComputeNode)
REPORTED = (
    *("name", "vcpus", "memory_mb", "local_gb", "cpu_arch", "resource_class", "placement_class"),
    *("traits", "stats", "in_use", "available", "cleaning"),
)
"""The columns that a service's refresh writes, in the order of :func:`reported`."""

_DISTINCT = 8192
_TRAITS = COLUMNS.index(_NODE.c.traits)
_STATS = COLUMNS.index(_NODE.c.stats)


def select() -> sa.Select[*tuple[Any, ...]]:
    """Return a statement for the rows of :data:`COLUMNS` of nodes."""
    return sa.select(*COLUMNS)


def record(row: Sequence[Any]) -> records.ComputeNode:
    """A row of :data:`COLUMNS` as the value that leaves this room."""
    values = list(row)
    values[_TRAITS] = traits(values[_TRAITS])
    values[_STATS] = stats(values[_STATS])
    return records.ComputeNode(*values)


def reported(node: records.NodeReport) -> tuple[Any, ...]:
    """What a service reports of a node, as the columns :data:`REPORTED`."""
    return (
        *(node.name, node.vcpus, node.memory_mb, node.local_gb),
        *(node.cpu_arch, node.resource_class),
        placement_class(node.resource_class) if node.resource_class else "",
        types.encode(sorted(node.traits)),
        types.encode(dict(node.stats)),
        node.in_use,
        node.available and not node.in_use,
        node.cleaning and not node.in_use,
    )


@functools.lru_cache(_DISTINCT)
def traits(text: str) -> frozenset[str]:
    """Traits from their column."""
    return frozenset(msgspec.json.decode(text))


@functools.lru_cache(_DISTINCT)
def stats(text: str) -> Mapping[str, str]:
    """Capabilities from their column."""
    return python_types.MappingProxyType(msgspec.json.decode(text))
