# SPDX-License-Identifier: Apache-2.0

"""Chooses nodes for a request among those that the records have free.

First among some of them, from a random one on: filters and weighers run in memory.  Before it
says no it looks at all of them, and says what keeps the others from being free.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from ironic_virt.compute.db import Database
from ironic_virt.exceptions import NoValidHost
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.filter_scheduler import FilterScheduler

SAMPLE = 250
"""So many free nodes of a class are compared."""
_MOST_NAMED = 4
_BY_CLASS = "ResourceClassFilter"


def choose(
    database: Database,
    scheduler: FilterScheduler,
    spec: RequestSpec,
    most: int = 1,
    *,
    least: int | None = None,
    node: str | None = None,
) -> Sequence[Any]:
    """The records of the best nodes for ``most`` instances, or for as many as there are.

    Nothing is claimed.

    :param least: rather than none, so many will do; ``most`` by default.
    :param node: the only node that will do.
    :raises NoValidHost: there are nodes for fewer; says filter by filter why, and what is in the
        way of others.
    :raises ComputeNodeNotFound: there is no record of ``node``.
    """
    if node is not None:
        database.compute_nodes.get(node)
    least = most if least is None else least
    classes = spec.resource_classes if _BY_CLASS in scheduler.host_manager.filters else ()
    start = str(uuid.UUID(int=scheduler.rng.getrandbits(128)))
    some = database.candidates.offer(start, max(SAMPLE, 2 * most), classes, node)
    try:
        # With a part of the nodes only what is asked for is enough.
        enough = least if some.is_whole else most
        return _records(scheduler, spec, some, most, enough)
    except NoValidHost as nowhere:
        if some.is_whole and not classes:
            raise _explained(database, nowhere, spec, node) from None
    every = database.candidates.offer(node=node)
    try:
        return _records(scheduler, spec, every, most, least)
    except NoValidHost as nowhere:
        raise _explained(database, nowhere, spec, node) from None


def _records(
    scheduler: FilterScheduler, spec: RequestSpec, offer: Any, most: int, least: int
) -> Sequence[Any]:
    hosts = scheduler.select(spec, offer.records, most, least=least, counts=offer.counts)
    return [host.record for host in hosts]


def _explained(
    database: Database, nowhere: NoValidHost, spec: RequestSpec, node: str | None
) -> NoValidHost:
    """Add to the error which services are not up, and how many nodes are being cleaned.

    Nodes that are in use, in maintenance or of no service are not counted: the error names only
    what ends by itself, or what an operator can start or enable.
    """
    up = set(database.services.up())
    obstacles = [
        f"compute service {service.host} is {'disabled' if service.host in up else 'down'}"
        for service in database.services.list()
        if service.disabled or service.host not in up
    ]
    if not up:
        obstacles = ["no compute service is up"]
    elif len(obstacles) > _MOST_NAMED:
        obstacles = [f"{len(obstacles)} compute services are down or disabled"]
    known, cleaning = database.candidates.others(spec.resource_classes, node)
    if cleaning:
        nodes = "1 node is" if cleaning == 1 else f"{cleaning} nodes are"
        obstacles.append(f"{nodes} being cleaned")
    return nowhere.replace(obstacles=obstacles, cleaning=cleaning, known=1 if node else known)
