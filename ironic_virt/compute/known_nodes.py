# SPDX-License-Identifier: Apache-2.0

"""Nodes that people name."""

from __future__ import annotations

from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import ComputeNode
from ironic_virt.compute.errors import ComputeNodeNotFound


def known_node(database: Database, uuid: str) -> ComputeNode:
    """A node's record.

    :raises ComputeNodeNotFound: there is none; says why, where Ironic picks the nodes.
    """
    try:
        return database.compute_nodes.get(uuid)
    except ComputeNodeNotFound as error:
        if not database.pools.list():
            raise
        raise ComputeNodeNotFound(
            uuid,
            "where Ironic picks the nodes, there are pools of them ('ironic-virt node list "
            "--pools')",
        ) from error
