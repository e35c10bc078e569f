# SPDX-License-Identifier: Apache-2.0

"""Kinds of nodes: a resource class, sizes and traits, each combination once.

There are many nodes and few kinds, so a search goes by kinds, and finds a rare trait, or
that no node has it, without looking at nodes.  A kind's row never changes, and stays when
the last node of the kind is gone.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from ironic_virt.compute.db import models
from ironic_virt.compute.db.transactions import rows_in
from ironic_virt.request.spec import placement_class
from ironic_virt.scheduler.candidates import CandidateQuery, Span

_KIND = models.node_kinds
_TRAIT = models.node_kind_traits
_DIGEST_BYTES = 16


class NodeKind(NamedTuple):
    """What nodes of a kind have in common; ``traits`` is sorted."""

    resource_class: str | None
    vcpus: int
    memory_mb: int
    local_gb: int
    traits: tuple[str, ...]

    @property
    def placement_class(self) -> str:
        """The resource class in Placement's form; empty if there is none."""
        return placement_class(self.resource_class) if self.resource_class else ""

    @property
    def digest(self) -> str:
        """What a node's row has for it: the same for equal kinds, in any process.

        Of all that is in the kind's row: rows with a former form of the class stay behind.
        """
        content = msgspec.json.encode((*self, self.placement_class))
        return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def make(connection: sa.Connection, kinds: Iterable[NodeKind], now: datetime.datetime) -> None:
    """Write down kinds that have no row yet.

    :raises DBDuplicateEntry: another process has just written one of them; the transaction
        is void.
    """
    missing = {kind.digest: kind for kind in kinds}
    for row in rows_in(connection, sa.select(_KIND.c.digest), _KIND.c.digest, missing):
        del missing[row.digest]
    rows: list[dict[str, Any]] = [
        {
            "digest": digest,
            "resource_class": kind.resource_class,
            "placement_class": kind.placement_class,
            "vcpus": kind.vcpus,
            "memory_mb": kind.memory_mb,
            "local_gb": kind.local_gb,
            "traits": msgspec.json.encode(kind.traits).decode(),
            "trait_count": len(kind.traits),
            "created_at": now,
        }
        for digest, kind in sorted(missing.items())
    ]
    traits = [
        {"kind": digest, "trait": trait, "created_at": now}
        for digest, kind in sorted(missing.items())
        for trait in kind.traits
    ]
    if rows:
        connection.execute(sa.insert(_KIND), rows)
    if traits:
        connection.execute(sa.insert(_TRAIT), traits)


def conditions(query: CandidateQuery) -> list[sa.ColumnElement[bool]]:
    """What a kind's row fulfils if its nodes are candidates of a query."""
    found: list[sa.ColumnElement[bool]] = []
    if query.resource_classes is not None:
        found.append(_KIND.c.placement_class.in_(sorted(query.resource_classes)))
    sizes = (_KIND.c.memory_mb, _KIND.c.vcpus, _KIND.c.local_gb)
    for size, span in zip(sizes, (query.memory_mb, query.vcpus, query.local_gb), strict=True):
        found += _within(size, span)
    found += [_KIND.c.digest.in_(_having(trait)) for trait in sorted(query.required_traits)]
    found += [_KIND.c.digest.not_in(_having(trait)) for trait in sorted(query.forbidden_traits)]
    return found


def _having(trait: str) -> sa.Select[Any]:
    return sa.select(_TRAIT.c.kind).where(_TRAIT.c.trait == trait)


def _within(size: Any, span: Span) -> Collection[sa.ColumnElement[bool]]:
    conditions = [size >= span.least] if span.least else []
    return conditions if span.most is None else [*conditions, size <= span.most]
