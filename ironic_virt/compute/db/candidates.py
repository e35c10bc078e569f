# SPDX-License-Identifier: Apache-2.0

"""Free compute nodes for the scheduler, found by index however many there are.

Nodes that are alike in size have one *shape* (memory, cores, disk).  The index of
free nodes has all nodes of a shape side by side, in the order of their uuids.  So a
search goes from shape to shape, the smallest first, and in each one begins at a
random uuid and comes round: two that search at the same time find different nodes.

Pools are few, as many as there are services times kinds of nodes.  They come before
single nodes: the smallest first, then the plainest, then those of the services that
have given out the fewest places.
"""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql import elements, operators

from ironic_virt.compute.db import models, pools, records, services
from ironic_virt.compute.db.chunks import chunks
from ironic_virt.compute.db.compute_node_rows import COLUMNS, record
from ironic_virt.compute.db.engine import POSTGRESQL, SQLITE
from ironic_virt.compute.db.records import ComputeNode, Pool
from ironic_virt.compute.db.transactions import Transactions
from ironic_virt.scheduler.candidates import CandidateQuery, Span

_NODE = models.ComputeNode
_FREE = (
    _NODE.deleted == 0,
    _NODE.available == sa.true(),
    _NODE.instance_uuid.is_(None),
)
_SIZES = (_NODE.memory_mb, _NODE.vcpus, _NODE.local_gb)
BY_SIZE = "ix_compute_nodes_free_sizes"
BY_CLASS_AND_SIZE = "ix_compute_nodes_free_class_sizes"

# A batch is made of so many shapes at most: where no two nodes are alike, every
# node costs a few statements.
_SHAPES = 8

Shape = tuple[int, int, int]
Statement = sa.Select[*tuple[Any, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """How far a search has come.

    :ivar group: the number of the resource class that is looked at.
    :ivar shape: the shape in it; ``None``: none yet.
    :ivar within: whether there may be more nodes of this shape.
    :ivar around: whether the search is past the last uuid and goes on from the first.
    :ivar after: the last uuid that was found since ``around`` changed.
    """

    group: int = 0
    shape: Shape | None = None
    within: bool = False
    around: bool = False
    after: str | None = None


class Candidates:
    """Hands out free nodes of services that are up and enabled.

    A :class:`~ironic_virt.scheduler.candidates.CandidateSource`.  It decides all of a
    query, traits too.

    :param down_time: seconds after its last report until a service counts as down.
    """

    def __init__(self, transactions: Transactions, down_time: float) -> None:
        self._transactions = transactions
        self._down_time = down_time

    def find(
        self, query: CandidateQuery, limit: int, rng: random.Random | None = None
    ) -> Sequence[ComputeNode | Pool]:
        """The first candidates of a query, at most ``limit``."""
        found: list[ComputeNode | Pool] = []
        for batch in self.batches(query, limit, rng or random.Random()):
            found.extend(batch)
            if len(found) >= limit:
                break
        return found[:limit]

    def batches(
        self, query: CandidateQuery, size: int, rng: random.Random
    ) -> Iterator[Sequence[ComputeNode | Pool]]:
        """See :class:`~ironic_virt.scheduler.candidates.CandidateSource`.

        Each batch is a transaction of its own: what changes meanwhile may or may not
        be seen.
        """
        if any(span.is_empty for span in (query.memory_mb, query.vcpus, query.local_gb)):
            return
        yield from chunks(self._pools(query, rng), size)
        search = _Search(query, str(uuid.UUID(int=rng.getrandbits(128))), size)
        place: _Place | None = _Place()
        while place is not None:
            batch, place = self._batch(search, place)
            if batch:
                yield batch

    def _batch(
        self, search: _Search, place: _Place
    ) -> tuple[Sequence[ComputeNode], _Place | None]:
        def work(connection: sa.Connection) -> tuple[Sequence[ComputeNode], _Place | None]:
            usable = services.usable(connection, self._transactions.now(), self._down_time)
            return search.batch(connection, usable, place) if usable else ([], None)

        return self._transactions.read(work)

    def _pools(self, query: CandidateQuery, rng: random.Random) -> Sequence[Pool]:
        """The pools that will do and have a place, in the order in which to look at them."""
        pool = models.Pool

        def work(connection: sa.Connection) -> tuple[list[Pool], dict[str, int]]:
            usable = services.usable(connection, self._transactions.now(), self._down_time)
            statement = sa.select(*pools.COLUMNS).where(
                pool.host.in_(usable), pool.used + pool.reserved < pool.total
            )
            if query.resource_classes is not None:
                statement = statement.where(
                    pool.placement_class.in_(sorted(query.resource_classes))
                )
            found = [pools.record(row) for row in connection.execute(statement)]
            if not found:
                return [], {}
            given = sa.select(pool.host, sa.func.sum(pool.used)).group_by(pool.host)
            used = {host: int(number) for host, number in connection.execute(given)}
            return found, used

        found, used = self._transactions.read(work)
        fitting = [one for one in found if query.matches(one)]
        rng.shuffle(fitting)
        fitting.sort(
            key=lambda one: (
                *(one.memory_mb, one.vcpus, one.local_gb),
                *(len(one.traits), used.get(one.host, 0)),
            )
        )
        return fitting

    def count(self, query: CandidateQuery) -> int:
        """How many candidates a query has; a pool counts as many as it has places."""

        def work(connection: sa.Connection) -> int:
            usable = services.usable(connection, self._transactions.now(), self._down_time)
            statement = (
                sa.select(sa.func.count())
                .where(*_FREE, *_wanted(query), _NODE.host.in_(usable))
                .where(*(_within(size, span) for size, span in _spans(query)))
            )
            if query.resource_classes is not None:
                statement = statement.where(
                    _NODE.placement_class.in_(sorted(query.resource_classes))
                )
            if query.exclude:
                statement = statement.where(_NODE.uuid.not_in(sorted(query.exclude)))
            return connection.scalar(statement) or 0

        places = sum(one.free for one in self._pools(query, random.Random()))
        return self._transactions.read(work) + places

    def known(self) -> int:
        """How many nodes there are, free or not; those of pools on each service."""
        nodes = sa.select(sa.func.count()).where(
            _NODE.deleted == 0, _NODE.hypervisor_type != records.POOLS
        )
        in_pools = sa.select(sa.func.sum(models.Pool.total))
        return self._transactions.read(
            lambda connection: (
                (connection.scalar(nodes) or 0) + int(connection.scalar(in_pools) or 0)
            )
        )

    def instances_by_host(self) -> Mapping[str, int]:
        """How many instances each compute service has; one that has none is left out."""
        instance = models.Instance
        statement = (
            sa.select(instance.host, sa.func.count())
            .where(instance.deleted == 0, instance.host.is_not(None))
            .group_by(instance.host)
        )
        rows = self._transactions.read(lambda connection: connection.execute(statement).all())
        return {row[0]: row[1] for row in rows if row[0] is not None}


class _Search:
    """One query's way through the index.

    :param start: the uuid to begin at in each shape.
    :param size: how many candidates make a batch.
    """

    def __init__(self, query: CandidateQuery, start: str, size: int) -> None:
        self._query = query
        self._start = start
        self._size = size
        classes = query.resource_classes
        self._groups = [None] if classes is None else sorted(classes)
        self._spans = [span for _, span in _spans(query)]

    def batch(
        self, connection: sa.Connection, usable: Sequence[str], place: _Place
    ) -> tuple[list[ComputeNode], _Place | None]:
        """The next candidates, and where to go on; ``None``: there are no more."""
        found: list[ComputeNode] = []
        shapes = 0
        while len(found) < self._size:
            if place.within:
                rows, place = self._nodes(connection, usable, place, self._size - len(found))
                found.extend(node for node in rows if node.uuid not in self._query.exclude)
                continue
            if found and shapes == _SHAPES:
                break
            shape = self._next_shape(connection, place)
            if shape is not None:
                place = _Place(place.group, shape, within=True)
                shapes += 1
            elif place.group + 1 < len(self._groups):
                place = _Place(place.group + 1)
            else:
                return found, None
        return found, place

    def _nodes(
        self, connection: sa.Connection, usable: Sequence[str], place: _Place, limit: int
    ) -> tuple[list[ComputeNode], _Place]:
        """Nodes of one shape."""
        assert place.shape is not None
        statement = self._select(place.group, *COLUMNS).where(
            _is_usable(connection, usable),
            *_wanted(self._query),
            *(size == value for size, value in zip(_SIZES, place.shape, strict=True)),
        )
        if place.after is not None:
            statement = statement.where(_NODE.uuid > place.after)
        elif not place.around:
            statement = statement.where(_NODE.uuid >= self._start)
        if place.around:
            statement = statement.where(_NODE.uuid < self._start)
        rows = connection.execute(_ordered(connection, statement, _NODE.uuid).limit(limit)).all()
        nodes = [record(row) for row in rows]
        if len(nodes) == limit:
            place = dataclasses.replace(place, after=nodes[-1].uuid)
        else:
            place = _Place(place.group, place.shape, within=not place.around, around=True)
        return nodes, place

    def _next_shape(self, connection: sa.Connection, place: _Place) -> Shape | None:
        """The smallest shape above the place's that is large enough."""
        if all(span.least == span.most for span in self._spans):
            memory_mb, vcpus, local_gb = (span.least for span in self._spans)
            return None if place.shape is not None else (memory_mb, vcpus, local_gb)
        if place.shape is None:
            return self._shape(connection, place.group)
        # Next to it: more disk, else more cores, else more memory.
        for equal in (2, 1, 0):
            if found := self._shape(connection, place.group, place.shape, equal):
                return found
        return None

    def _shape(
        self, connection: sa.Connection, group: int, above: Shape = (0, 0, 0), equal: int = -1
    ) -> Shape | None:
        """The first shape whose ``equal`` first sizes are the given ones and the next larger."""
        statement = self._select(group, *_SIZES)
        for number, (size, span) in enumerate(zip(_SIZES, self._spans, strict=True)):
            if number < equal:
                statement = statement.where(size == above[number])
                continue
            if number == equal:
                statement = statement.where(size > above[number])
            statement = statement.where(_within(size, span))
        statement = _ordered(connection, statement, *_SIZES[max(equal, 0) :]).limit(1)
        row = connection.execute(statement).one_or_none()
        return None if row is None else (row[0], row[1], row[2])

    def _select(self, group: int, *columns: Any) -> Statement:
        resource_class = self._groups[group]
        index = BY_SIZE if resource_class is None else BY_CLASS_AND_SIZE
        statement = (
            sa.select(*columns).where(*_FREE).with_hint(_NODE, f"FORCE INDEX ({index})", "mysql")
        )
        if resource_class is not None:
            statement = statement.where(_NODE.placement_class == resource_class)
        return statement


def _ordered(connection: sa.Connection, statement: Statement, *columns: Any) -> Statement:
    # All free rows have NULL here.  Unless it is said, PostgreSQL sorts what the index has
    # in order; if it is, MariaDB does.
    first = (_NODE.instance_uuid,) if connection.dialect.name == POSTGRESQL else ()
    return statement.order_by(*first, *columns)


def _is_usable(connection: sa.Connection, usable: Sequence[str]) -> sa.ColumnElement[bool]:
    host: sa.ColumnElement[str] = _NODE.host.expression
    if connection.dialect.name == SQLITE:
        # SQLite takes no hint, and a plus keeps it from searching by service.
        host = elements.UnaryExpression(host, operator=operators.custom_op("+"), type_=sa.String())
    return host.in_(usable)


def _wanted(query: CandidateQuery) -> list[sa.ColumnElement[bool]]:
    """What no index knows."""
    conditions: list[sa.ColumnElement[bool]] = []
    # In a sorted list of names in quotes.
    for trait in sorted(query.required_traits):
        conditions.append(_NODE.traits.contains(f'"{trait}"', autoescape=True))
    for trait in sorted(query.forbidden_traits):
        conditions.append(~_NODE.traits.contains(f'"{trait}"', autoescape=True))
    return conditions


def _spans(query: CandidateQuery) -> list[tuple[Any, Span]]:
    return list(zip(_SIZES, (query.memory_mb, query.vcpus, query.local_gb), strict=True))


def _within(size: Any, span: Span) -> sa.ColumnElement[bool]:
    condition: sa.ColumnElement[bool] = size >= span.least
    return condition if span.most is None else sa.and_(condition, size <= span.most)
