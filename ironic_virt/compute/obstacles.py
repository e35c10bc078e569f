# SPDX-License-Identifier: Apache-2.0

"""What keeps nodes that would do for a request from being free, for whoever reads its refusal."""

from __future__ import annotations

from ironic_virt.compute.db import Database
from ironic_virt.exceptions import NoValidHost
from ironic_virt.request.spec import RequestSpec

_MOST_NAMED = 4


def explained(
    database: Database, nowhere: NoValidHost, spec: RequestSpec, node: str | None = None
) -> NoValidHost:
    """The same error with what is in the way, and how many nodes are being cleaned.

    Nodes that are in use, in maintenance or of no service are not counted: only what passes by
    itself, or what an operator can start or enable, is worth a word.

    :param nowhere: what the scheduler has said.
    :param spec: what was asked for; of it, the resource classes count.
    :param node: the only node that was asked for.
    """
    up = set(database.services.up())
    obstacles = [
        f"compute service {one.host} is {'disabled' if one.host in up else 'down'}"
        for one in database.services.list()
        if one.disabled or one.host not in up
    ]
    if not up:
        obstacles = ["no compute service is up"]
    elif len(obstacles) > _MOST_NAMED:
        obstacles = [f"{len(obstacles)} compute services are down or disabled"]
    cleaning = database.candidates.cleaning(spec.resource_classes, node)
    if cleaning:
        nodes = "1 node is" if cleaning == 1 else f"{cleaning} nodes are"
        obstacles.append(f"{nodes} being cleaned")
    return nowhere.because(obstacles, cleaning)
