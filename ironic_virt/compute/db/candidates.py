# SPDX-License-Identifier: Apache-2.0

"""The candidates for a request: the free nodes and pools, and what keeps the others.

Nodes are read from a random uuid on, once around, so two that search at the same time find
different nodes.  Filters and weighers run in memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_virt.compute.db import pools, tables
from ironic_virt.compute.db.compute_nodes import COLUMNS
from ironic_virt.compute.db.database import Part, reads
from ironic_virt.compute.db.records import ComputeNode, NodePool

_NODE = tables.compute_nodes


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """What services that are up and enabled have free.

    :param records: pools, and nodes that are free.
    :param counts: how many instances each service has; one that has none is left out.
    :param is_whole: there are no more nodes of these classes.
    """

    records: Sequence[ComputeNode | NodePool]
    counts: Mapping[str, int]
    is_whole: bool


class Candidates(Part):
    """Reads what may be given to an instance; each method is one transaction."""

    @reads
    def offer(
        self,
        connection: sa.Connection,
        start: str = "",
        limit: int | None = None,
        classes: Collection[str] = (),
        node: str | None = None,
    ) -> Offer:
        """What is free now.

        :param start: the uuid to begin with.
        :param limit: at most so many nodes.
        :param classes: only nodes of these resource classes, in Placement's form; empty: all.
        :param node: only this node.
        """
        host = tables.instances.c.host
        counts = sa.select(host, sa.func.count()).where(host.is_not(None)).group_by(host)
        usable = self._db.services.usable(connection)
        free = sa.select(*COLUMNS).where(
            *(_NODE.c.available == sa.true(), _NODE.c.instance_uuid.is_(None)),
            *(_NODE.c.host.in_(usable), *_of(classes, node)),
        )
        rows: list[Any] = []
        for part in (_NODE.c.uuid >= start, _NODE.c.uuid < start) if start else (sa.true(),):
            rest = free.where(part).order_by(_NODE.c.uuid)
            rest = rest if limit is None else rest.limit(limit - len(rows))
            rows += connection.execute(rest)
        nodes = [ComputeNode(*row) for row in rows]
        return Offer(
            [*(() if node else pools.of(connection, usable)), *nodes],
            dict(tuple(row) for row in connection.execute(counts)),
            limit is None or len(nodes) < limit,
        )

    @reads
    def others(
        self, connection: sa.Connection, classes: Collection[str], node: str | None = None
    ) -> tuple[int, int]:
        """How many nodes there are, and how many may be free when Ironic has cleaned them.

        Of pools, each service's nodes count.

        :param classes: of the latter, in Placement's form; empty: all.
        :param node: of the latter, only this one.
        """
        number = sa.select(sa.func.count()).select_from(_NODE)
        usable = _NODE.c.host.in_(self._db.services.usable(connection))
        dirty = (usable, _NODE.c.cleaning == sa.true(), _NODE.c.instance_uuid.is_(None))
        known = connection.scalar(number) or 0
        known += sum(pool.total for pool in pools.of(connection))
        return known, connection.scalar(number.where(*dirty, *_of(classes, node))) or 0


def _of(classes: Collection[str], node: str | None) -> Sequence[sa.ColumnElement[bool]]:
    of_classes = [_NODE.c.placement_class.in_(sorted(classes))] if classes else []
    return [*of_classes, *([_NODE.c.uuid == node] if node else [])]
