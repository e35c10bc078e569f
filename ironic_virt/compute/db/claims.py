# SPDX-License-Identifier: Apache-2.0

"""Claims: which instance has which node, and which port.

A claim of a node is written to the node's own row by one conditional UPDATE, so two instances
can't have one node; a unique key keeps an instance from having two.  A place in a pool is
written to the instance's row, and Ironic's allocation decides about the node.

Ironic attaches a port to a node even if another node has it; the other one loses its network.  So
there is a row for each port that an instance has or is being given, with a unique key: its id in
small letters, since Neutron on MariaDB finds a port by its id in capitals, too.

Functions work within a transaction of the caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import records, services, tables
from ironic_virt.compute.db.compute_nodes import UNUSED

_NODE = tables.compute_nodes
_PORT = tables.instance_ports

Place = records.ComputeNode | records.NodePool
"""The node or pool that was picked, with the service that is thought to own it."""


def claim_all(connection: sa.Connection, choices: Iterable[tuple[str, Place]]) -> None:
    """Give each of several instances its node, or its place in a pool.

    :param choices: the instances' uuids, and what was chosen for them; no node twice.
    :raises ClaimLost: one of the nodes is not free any more, or belongs to another service by
        now; the caller's transaction must not be committed.
    :raises InstanceExists: an instance has another node.
    """
    free: dict[str, Counter[str]] = {}
    # In one order, so that two who claim at the same time don't wait for each other in a circle.
    for instance, place in sorted(choices, key=lambda pair: (pair[1].host, pair[1].uuid)):
        if isinstance(place, records.NodePool):
            if place.host not in free:
                free[place.host] = services.free_places(connection, place.host)
            free[place.host][place.name] -= 1
            is_free = free[place.host][place.name] >= 0
        else:
            is_free = _claim_node(connection, instance, place)
        if not is_free:
            raise errors.ClaimLost(place.uuid, instance)


def _claim_node(connection: sa.Connection, instance: str, node: Place) -> bool:
    free = sa.and_(_NODE.c.available == sa.true(), *UNUSED)
    update = sa.update(_NODE).where(_NODE.c.uuid == node.uuid, _NODE.c.host == node.host)
    update = update.where(sa.or_(free, _NODE.c.instance_uuid == instance))
    try:
        return bool(connection.execute(update.values(instance_uuid=instance)).rowcount)
    except db_exception.DBDuplicateEntry as exc:
        raise errors.InstanceExists(instance) from exc


def release_nodes(connection: sa.Connection, instance: str, *, but: str = "") -> None:
    """Release every node that an instance has claimed, to be claimed after its next refresh.

    :param but: the uuid of a node that it keeps.
    """
    # The last refresh saw the node before the instance left it.
    connection.execute(
        sa.update(_NODE)
        .where(_NODE.c.instance_uuid == instance, _NODE.c.uuid != but)
        .values(instance_uuid=None, available=False, cleaning=True)
    )


# -- ports --------------------------------------------------------------------


def port_holder(connection: sa.Connection, port: str) -> str | None:
    """The uuid of the instance that has a port or is being given it; ``None``: none."""
    query = sa.select(_PORT.c.instance_uuid).where(_PORT.c.port_id == port.lower())
    return connection.scalar(query)


def take_ports(connection: sa.Connection, instance: str, ports: Iterable[str]) -> None:
    """Give an instance ports that no other has; it keeps those that it has.

    :raises PortTaken: another instance has one of them.
    """
    for port in ports:
        insert = sa.insert(_PORT).values(port_id=port.lower(), instance_uuid=instance)
        try:
            # If an instance has it, only this is undone.
            with connection.begin_nested():
                connection.execute(insert)
        except db_exception.DBDuplicateEntry as exc:
            holder = port_holder(connection, port)
            if holder != instance:
                raise errors.PortTaken(holder or "another one", port) from exc


def release_ports(connection: sa.Connection, instance: str, keep: Iterable[str] = ()) -> None:
    """Take an instance's ports away from it.

    :param keep: the ids of those that it keeps.
    """
    gone = sa.func.lower(_PORT.c.port_id).not_in([port.lower() for port in keep])
    connection.execute(sa.delete(_PORT).where(_PORT.c.instance_uuid == instance, gone))
