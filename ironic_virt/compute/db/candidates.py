# SPDX-License-Identifier: Apache-2.0

"""The candidates for a request: the free nodes and pools, the best of them, what keeps the others.

Nodes are read from a random uuid on, once around, so two that search at the same time find
different nodes.  Filters and weighers run in memory: first on some of the nodes; on all of them
before the answer is no.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from ironic_virt.compute.db import services, tables
from ironic_virt.compute.db.compute_nodes import COLUMNS, UNUSED
from ironic_virt.compute.db.database import Part, reads
from ironic_virt.compute.db.records import ComputeNode, NodePool
from ironic_virt.compute.errors import ClaimLost
from ironic_virt.exceptions import NoValidHost

if TYPE_CHECKING:
    from ironic_virt.request.spec import RequestSpec
    from ironic_virt.scheduler.filter_scheduler import FilterScheduler

T = TypeVar("T")

SAMPLE = 250
"""So many free nodes of a class are compared."""
_MOST_NAMED = 4
_BY_CLASS = "ResourceClassFilter"
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
    """Reads and chooses what may be given to an instance; nothing is claimed."""

    def choose(
        self,
        scheduler: FilterScheduler,
        spec: RequestSpec,
        count: int = 1,
        *,
        node: str | None = None,
    ) -> Sequence[Any]:
        """The records of the best nodes for ``count`` instances.

        :param node: the only node that will do.
        :raises NoValidHost: there are nodes for fewer; says filter by filter why, and what is in
            the way of others.
        :raises ComputeNodeNotFound: there is no record of ``node``.
        """
        if node is not None:
            self._db.compute_nodes.get(node)
        classes = spec.resource_classes if _BY_CLASS in scheduler.host_manager.filters else ()
        start = str(uuid.UUID(int=scheduler.rng.getrandbits(128)))
        offer = self.offer(start, max(SAMPLE, 2 * count), classes, node)
        while True:
            try:
                hosts = scheduler.select(spec, offer.records, count, counts=offer.counts)
                return [host.record for host in hosts]
            except NoValidHost as nowhere:
                if offer.is_whole and not classes:
                    raise self._explained(nowhere, spec, node) from None
            offer, classes = self.offer(node=node), ()

    def claim(
        self,
        claim: Callable[[Sequence[Any]], T],
        scheduler: FilterScheduler,
        spec: RequestSpec,
        count: int = 1,
        *,
        node: str | None = None,
    ) -> T:
        """Choose nodes as :meth:`choose` does and claim them; if one is lost, begin again.

        :param claim: claims the nodes, or raises ``ClaimLost`` and has changed nothing.
        :returns: what ``claim`` returns.
        """
        lost: set[str] = set()
        while True:
            places = self.choose(scheduler, spec, count, node=node)
            try:
                return claim(places)
            except ClaimLost as error:
                # The records say by now who has it; what is lost twice is not tried again.
                spec = spec.without({error.node} & lost)
                lost.add(error.node)

    def _explained(self, nowhere: NoValidHost, spec: RequestSpec, node: str | None) -> NoValidHost:
        """Add to the error which services are not up, and how many nodes are being cleaned.

        Nodes that are in use, in maintenance or of no service are not counted: the error names
        only what ends by itself, or what an operator can start or enable.
        """
        every = self._db.services.list()
        up = {service.host for service in every if self._db.services.is_up(service)}
        obstacles = [
            f"compute service {service.host} is {'disabled' if service.host in up else 'down'}"
            for service in every
            if service.disabled or service.host not in up
        ]
        if not up:
            obstacles = ["no compute service is up"]
        elif len(obstacles) > _MOST_NAMED:
            obstacles = [f"{len(obstacles)} compute services are down or disabled"]
        known, cleaning = self.others(spec.resource_classes, node)
        if cleaning:
            nodes = "1 node is" if cleaning == 1 else f"{cleaning} nodes are"
            obstacles.append(f"{nodes} being cleaned")
        return nowhere.replace(obstacles=obstacles, cleaning=cleaning, known=1 if node else known)

    @reads
    def offer(
        self,
        connection: sa.Connection,
        start: str = "",
        limit: int | None = None,
        classes: Collection[str] = (),
        node: str | None = None,
    ) -> Offer:
        """What is free now, in one transaction.

        :param start: the uuid to begin with.
        :param limit: at most so many nodes.
        :param classes: only nodes of these resource classes, in Placement's form; empty: all.
        :param node: only this node.
        """
        host = tables.instances.c.host
        counts = sa.select(host, sa.func.count()).where(host.is_not(None)).group_by(host)
        usable = self._db.services.usable(connection)
        free = sa.select(*COLUMNS).where(
            *(_NODE.c.available == sa.true(), *UNUSED),
            *(_NODE.c.host.in_(usable), *_of(classes, node)),
        )
        rows: list[Any] = []
        for part in (_NODE.c.uuid >= start, _NODE.c.uuid < start) if start else (sa.true(),):
            rest = free.where(part).order_by(_NODE.c.uuid)
            rest = rest if limit is None else rest.limit(limit - len(rows))
            rows += connection.execute(rest)
        nodes = [ComputeNode(*row) for row in rows]
        return Offer(
            [*(() if node else services.pools_of(connection, usable)), *nodes],
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
        known += sum(pool.total for pool in services.pools_of(connection))
        return known, connection.scalar(number.where(*dirty, *_of(classes, node))) or 0


def _of(classes: Collection[str], node: str | None) -> Sequence[sa.ColumnElement[bool]]:
    of_classes = [_NODE.c.placement_class.in_(sorted(classes))] if classes else []
    return [*of_classes, *([_NODE.c.uuid == node] if node else [])]
