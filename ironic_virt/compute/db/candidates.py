# SPDX-License-Identifier: Apache-2.0

"""Free compute nodes for the scheduler.

The database finds free nodes of a resource class and of sizes, a page of them at a time; traits
are compared here.  A search begins at a random uuid and goes once around: so two that search at
the same time find different nodes, and one that has found nothing has looked at all of them.
Small nodes come first within a page, and services take turns.

Pools are few, as many as there are services times kinds of nodes.  They come before
single nodes: the smallest first, then the plainest, then those of the services that
have given out the fewest places.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_virt.compute.db import compute_node_rows, models, pools, services
from ironic_virt.compute.db.records import ComputeNode, NodePool
from ironic_virt.compute.db.transactions import SIZE, Part, chunks
from ironic_virt.scheduler.candidates import CandidateQuery, RecordList, Span

_NODE = models.compute_nodes
_FREE = compute_node_rows.select().where(
    _NODE.c.available == sa.true(), _NODE.c.instance_uuid.is_(None)
)


class Candidates(Part):
    """Hands out free nodes of services that are up and enabled.

    A :class:`~ironic_virt.scheduler.candidates.CandidateSource`.  It decides all of a
    query, traits too.
    """

    def batches(
        self, query: CandidateQuery, size: int, rng: random.Random
    ) -> Iterator[Sequence[ComputeNode | NodePool]]:
        """See :class:`~ironic_virt.scheduler.candidates.CandidateSource`.

        Each batch is of transactions of its own: what changes meanwhile may or may not
        be seen.
        """
        usable, offered = self._offered()
        yield from chunks(_pools_in_order(offered, query, rng), size)
        for page in self._pages(query, usable, str(uuid.UUID(int=rng.getrandbits(128)))):
            fitting = [node for node in page if query.matches(node)]
            yield from chunks(_nodes_in_order(fitting, rng), size)

    def _pages(
        self, query: CandidateQuery, usable: Sequence[str], start: str
    ) -> Iterator[list[ComputeNode]]:
        """Free nodes of these services that fit by class and sizes, once around from a uuid."""
        statement = _FREE.where(_NODE.c.host.in_(usable), *_conditions(query))
        statement = statement.order_by(_NODE.c.uuid)
        page: list[ComputeNode] = []
        for part in (_NODE.c.uuid >= start, _NODE.c.uuid < start):
            rest = statement.where(part)
            while len(page := [*page, *self._nodes(rest.limit(SIZE - len(page)))]) == SIZE:
                yield page
                rest = statement.where(part, _NODE.c.uuid > page[-1].uuid)
                page = []
        if page:
            yield page

    def _nodes(self, statement: sa.Select[*tuple[Any, ...]]) -> Sequence[ComputeNode]:
        return [compute_node_rows.record(row) for row in self._rows(statement)]

    def _usable_in(self, connection: sa.Connection) -> Sequence[str]:
        return services.usable(connection, self._transactions.now(), self._transactions.down_time)

    def _offered(self) -> tuple[Sequence[str], Sequence[NodePool]]:
        """The services that are up and enabled, and their pools."""

        def work(connection: sa.Connection) -> tuple[Sequence[str], Sequence[NodePool]]:
            usable = self._usable_in(connection)
            return usable, pools.of(connection, usable)

        return self._transactions.read(work)

    def counts(self, queries: Sequence[CandidateQuery]) -> Sequence[int]:
        """See :class:`~ironic_virt.scheduler.candidates.CandidateSource`.

        A pool counts as many as it has places.
        """
        usable, offered = self._offered()
        return RecordList([*offered, *self._nodes(_FREE)], usable).counts(queries)

    def cleaning(self, classes: Collection[str], uuid: str | None = None) -> int:
        """How many nodes of services that are up may be free when Ironic has cleaned them.

        :param classes: of these resource classes, in Placement's form; empty: of all.
        :param uuid: only this node.
        """
        conditions = [_NODE.c.cleaning == sa.true(), _NODE.c.instance_uuid.is_(None)]
        conditions += [_NODE.c.placement_class.in_(sorted(classes))] if classes else []
        conditions += [_NODE.c.uuid == uuid] if uuid else []

        def work(connection: sa.Connection) -> int:
            usable = _NODE.c.host.in_(self._usable_in(connection))
            statement = sa.select(sa.func.count()).select_from(_NODE).where(usable, *conditions)
            return connection.scalar(statement) or 0

        return self._transactions.read(work)

    def known(self) -> int:
        """How many nodes there are, free or not; those of pools on each service."""

        def work(connection: sa.Connection) -> int:
            nodes = connection.scalar(sa.select(sa.func.count()).select_from(_NODE)) or 0
            return nodes + sum(pool.total for pool in pools.of(connection))

        return self._transactions.read(work)

    def instances_by_host(self) -> Mapping[str, int]:
        """How many instances each service has; one that has none is left out."""
        instance = models.instances.c
        statement = sa.select(instance.host, sa.func.count()).where(instance.host.is_not(None))
        return {str(row[0]): row[1] for row in self._rows(statement.group_by(instance.host))}


def _conditions(query: CandidateQuery) -> list[sa.ColumnElement[bool]]:
    """What the database decides of a query."""
    found: list[sa.ColumnElement[bool]] = []
    if query.resource_classes is not None:
        found.append(_NODE.c.placement_class.in_(sorted(query.resource_classes)))
    spans: Mapping[str, Span] = {
        name: getattr(query, name) for name in ("memory_mb", "vcpus", "local_gb")
    }
    for name, span in spans.items():
        found += [_NODE.c[name] >= span.least] if span.least else []
        found += [_NODE.c[name] <= span.most] if span.most is not None else []
    return found


def _nodes_in_order(nodes: list[ComputeNode], rng: random.Random) -> Sequence[ComputeNode]:
    """Small nodes first; of those that are as large, services take turns."""
    rng.shuffle(nodes)
    turns = Counter[tuple[Any, ...]]()
    ranks: dict[str, tuple[Any, ...]] = {}
    for node in nodes:
        size = (node.memory_mb, node.vcpus, node.local_gb, len(node.traits))
        ranks[node.uuid] = (*size, turns[node.host, size])
        turns[node.host, size] += 1
    return sorted(nodes, key=lambda node: ranks[node.uuid])


def _pools_in_order(
    offered: Sequence[NodePool], query: CandidateQuery, rng: random.Random
) -> Sequence[NodePool]:
    """The pools that will do and have a place, in the order in which to look at them."""
    used = Counter[str]()
    for pool in offered:
        used[pool.host] += pool.used
    fitting = [pool for pool in offered if pool.free and query.matches(pool)]
    rng.shuffle(fitting)
    return sorted(
        fitting,
        key=lambda pool: (
            *(pool.memory_mb, pool.vcpus, pool.local_gb),
            *(len(pool.traits), used[pool.host]),
        ),
    )
