# SPDX-License-Identifier: Apache-2.0

"""Free compute nodes for the scheduler, found by index however many there are.

A search goes from kind to kind (:mod:`~ironic_virt.compute.db.node_kinds`), the smallest
first, and passes over those of which no node is free.  The index of free nodes has the nodes
of one kind and one service side by side, in the order of their uuids.  So of kinds that are as
large, it takes nodes from all services by turns, in each from a random uuid on: instances
spread over services however many nodes each has, and two that search at the same time find
different nodes.

Pools are few, as many as there are services times kinds of nodes.  They come before
single nodes: the smallest first, then the plainest, then those of the services that
have given out the fewest places.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_virt.compute.db import models, node_kinds, pools, services
from ironic_virt.compute.db.compute_node_rows import COLUMNS, record
from ironic_virt.compute.db.engine import MYSQL, POSTGRESQL
from ironic_virt.compute.db.records import ComputeNode, NodePool
from ironic_virt.compute.db.transactions import Part, chunks, rows_in
from ironic_virt.scheduler.candidates import CandidateQuery

_NODE = models.compute_nodes
_KIND = models.node_kinds
FREE_INDEX = "ix_compute_nodes_free"
_FREE = (
    _NODE.c.available == sa.true(),
    _NODE.c.instance_uuid.is_(None),
)
_SIZE = (_KIND.c.memory_mb, _KIND.c.vcpus, _KIND.c.local_gb, _KIND.c.trait_count)
# So many kinds are looked up together, and a batch has nodes of so many sizes at most:
# where no two nodes are alike, every node costs a statement.
_KINDS = 64
_SIZES = 8
# So many places of the index are looked at by one statement: SQLite takes 500.
_PLACES = 64

_NEXT = """\
SELECT id FROM (SELECT id FROM compute_nodes {hint} WHERE available = :free
AND instance_uuid IS NULL AND {within} ORDER BY {order} LIMIT :limit) AS part_{number}"""

Kinds = Sequence[str]
"""Digests of kinds that are as large, with as many traits."""


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
        if any(span.is_empty for span in (query.memory_mb, query.vcpus, query.local_gb)):
            return
        usable, offered = self._offered()
        if not usable:
            return
        yield from chunks(_in_order(offered, query, rng), size)
        batch: list[ComputeNode] = []
        sizes = 0
        for kinds in self._kinds(query, usable):
            sizes += 1
            for nodes in self._by_turns(kinds, usable, size, rng):
                batch += [node for node in nodes if node.uuid not in query.exclude]
                while len(batch) >= size:
                    yield batch[:size]
                    batch, sizes = batch[size:], 1
            if batch and sizes >= _SIZES:
                yield batch
                batch, sizes = [], 0
        if batch:
            yield batch

    def _usable_in(self, connection: sa.Connection) -> Sequence[str]:
        return services.usable(connection, self._transactions.now(), self._transactions.down_time)

    def _offered(self) -> tuple[Sequence[str], Sequence[NodePool]]:
        """The services that are up and enabled, and their pools."""

        def work(connection: sa.Connection) -> tuple[Sequence[str], Sequence[NodePool]]:
            usable = self._usable_in(connection)
            return usable, pools.of(connection, usable)

        return self._transactions.read(work)

    def _kinds(self, query: CandidateQuery, usable: Sequence[str]) -> Iterator[Kinds]:
        """Kinds that will do and of which a node is free, the smallest first.

        Those that are as large come together.
        """
        # One at most: MariaDB would list all free nodes to answer EXISTS.
        free = (
            sa.select(_NODE.c.id)
            .where(*_FREE, _NODE.c.kind == _KIND.c.digest, _NODE.c.host.in_(usable))
            .with_hint(_NODE, f"FORCE INDEX ({FREE_INDEX})", "mysql")
            .limit(1)
            .scalar_subquery()
            .is_not(None)
        )
        statement = (
            sa.select(*_SIZE, _KIND.c.digest)
            .where(*node_kinds.conditions(query), free)
            .order_by(*_SIZE, _KIND.c.digest)
            .limit(_KINDS)
        )

        def rows() -> Iterator[sa.Row[*tuple[Any, ...]]]:
            page = statement
            while True:
                found = self._rows(page)
                yield from found
                if len(found) < _KINDS:
                    return
                page = statement.where(
                    sa.tuple_(*_SIZE, _KIND.c.digest) > sa.tuple_(*map(sa.literal, found[-1]))
                )

        for _, alike in itertools.groupby(rows(), key=lambda row: tuple(row[:-1])):
            yield [row.digest for row in alike]

    def _by_turns(
        self, kinds: Kinds, usable: Sequence[str], size: int, rng: random.Random
    ) -> Iterator[Sequence[ComputeNode]]:
        """All free nodes of these kinds, from all services by turns."""
        start = str(uuid.UUID(int=rng.getrandbits(128)))
        # Chance decides whose turn it is first.
        hosts = rng.sample(usable, len(usable))
        pairs = itertools.product(kinds, hosts)
        places = [_Place(number, *pair, start) for number, pair in enumerate(pairs)]
        while places:
            share = max(1, -(-size // len(places)))
            for some in chunks(places, _PLACES):
                found = self._nodes(some, share)
                turns = [place.taken(found, share) for place in some]
                yield [
                    node
                    for turn in itertools.zip_longest(*turns)
                    for node in turn
                    if node is not None
                ]
            places = [place for place in places if not place.is_done]

    def _nodes(self, places: Sequence[_Place], limit: int) -> Mapping[_Key, list[ComputeNode]]:
        """The next free nodes of each place, at most ``limit`` each."""
        dialect = self._transactions.engine.dialect.name
        # As text: SQLAlchemy takes far longer to put so long a statement together than a
        # database to execute it.
        template = _NEXT.format(
            hint=f"FORCE INDEX ({FREE_INDEX})" if dialect == MYSQL else "",
            # All free rows have NULL here.  Unless it is said, PostgreSQL sorts what the index
            # has in order; if it is, MariaDB does.
            order="instance_uuid, uuid" if dialect == POSTGRESQL else "uuid",
            within="{within}",
            number="{number}",
        )
        parts: list[str] = []
        values: dict[str, object] = {"free": True, "limit": limit}
        for place in places:
            for within in place.ranges():
                parts.append(template.format(within=within, number=len(parts)))
            values.update(place.values)
        ids = sa.text(" UNION ALL ".join(parts)).columns(sa.column("id", sa.Integer)).subquery()
        # Joined: MariaDB would go through all nodes for an IN.
        joined = ids.join(_NODE, _NODE.c.id == ids.c.id).join(
            _KIND, _KIND.c.digest == _NODE.c.kind
        )
        statement = sa.select(*COLUMNS, _NODE.c.kind).select_from(joined)
        found: dict[_Key, list[ComputeNode]] = {}
        for row in self._rows(statement, values):
            node = record(row[:-1])
            found.setdefault((row.kind, node.host), []).append(node)
        return found

    def counts(self, queries: Sequence[CandidateQuery]) -> Sequence[int]:
        """See :class:`~ironic_virt.scheduler.candidates.CandidateSource`.

        A pool counts as many as it has places.
        """

        def work(connection: sa.Connection) -> Sequence[int]:
            usable = self._usable_in(connection)
            offered = pools.of(connection, usable)
            free = (*_FREE, _NODE.c.host.in_(usable))
            by_kind = sa.select(_NODE.c.kind, sa.func.count()).where(*free).group_by(_NODE.c.kind)
            numbers = {row[0]: row[1] for row in connection.execute(by_kind)}
            found: dict[CandidateQuery, int] = {}
            for query in set(queries):
                statement = sa.select(_KIND.c.digest).where(*node_kinds.conditions(query))
                wanted = numbers.keys() & set(connection.execute(statement).scalars())
                found[query] = sum(numbers[kind] for kind in wanted)
                found[query] += sum(pool.free for pool in offered if query.matches(pool))
                excluded = sa.select(_NODE.c.kind).where(*free)
                for row in rows_in(connection, excluded, _NODE.c.uuid, query.exclude):
                    found[query] -= row.kind in wanted
            return [found[query] for query in queries]

        return self._transactions.read(work)

    def known(self) -> int:
        """How many nodes there are, free or not; those of pools on each service."""

        def work(connection: sa.Connection) -> int:
            nodes = connection.scalar(sa.select(sa.func.count()).select_from(_NODE)) or 0
            return nodes + sum(pool.total for pool in pools.of(connection))

        return self._transactions.read(work)

    def instances_by_host(self) -> Mapping[str, int]:
        """How many instances each usable service has; one that has none is left out."""
        instance = models.instances.c

        def work(connection: sa.Connection) -> Mapping[str, int]:
            statement = (
                sa.select(instance.host, sa.func.count())
                .where(instance.host.in_(self._usable_in(connection)))
                .group_by(instance.host)
            )
            return {str(row[0]): row[1] for row in connection.execute(statement)}

        return self._transactions.read(work)


_Key = tuple[str, str]
"""A kind and a service."""


def _in_order(
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


class _Place:
    """How far a search has come among the free nodes of a kind and a service.

    :param number: of the place in its search.
    :param start: the uuid from which on it goes, to the last one and then on from the first.
    """

    def __init__(self, number: int, kind: str, host: str, start: str) -> None:
        self._key = (kind, host)
        self._start = start
        self._after: str | None = None
        self._names = {name: f"{name}_{number}" for name in ("kind", "host", "start", "after")}
        self.is_done = False

    @property
    def values(self) -> Mapping[str, object]:
        """What the names in :meth:`ranges` stand for."""
        known = zip(("kind", "host", "start"), (*self._key, self._start), strict=True)
        after = {} if self._after is None else {self._names["after"]: self._after}
        return {self._names[name]: value for name, value in known} | after

    def ranges(self) -> Sequence[str]:
        """Where the next nodes are in the index, in SQL."""
        place = "kind = :{kind} AND host = :{host} AND ".format_map(self._names)
        first, behind, around = (
            place + f"uuid {compared}".format_map(self._names)
            for compared in (">= :{start}", "> :{after}", "< :{start}")
        )
        if self._after is None:
            return first, around
        if self._after >= self._start:
            return behind, around
        return (around + " AND uuid > :{after}".format_map(self._names),)

    def taken(
        self, found: Mapping[_Key, Sequence[ComputeNode]], limit: int
    ) -> Sequence[ComputeNode]:
        """The nodes that were found here, at most ``limit``; the search goes on behind them."""
        every = found.get(self._key, ())
        ordered = sorted(every, key=lambda node: (node.uuid < self._start, node.uuid))
        nodes = ordered[:limit]
        self.is_done = len(ordered) < limit
        if nodes:
            self._after = nodes[-1].uuid
        return nodes
