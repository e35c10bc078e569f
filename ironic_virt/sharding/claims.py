# SPDX-License-Identifier: Apache-2.0

"""Which nodes of the target set are this host's: the decisions, as pure functions.

Two ways.  By the records: a node is this host's unless the compute service's
records give it to another one; it never moves by itself.  By the ring, the
deprecated way: a node without an instance is the host's to which the ring gives
it, a node with an instance is the host's that has the instance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from ironic_virt.baremetal.node import Node
from ironic_virt.sharding.hashring import Ring


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """What a host claims as of one refresh.  Immutable.

    :ivar nodes: uuids of nodes in the target set.
    :ivar elsewhere: instance uuid to node uuid, for nodes that are outside the
        target set and this host's all the same, because of the instance.
    :ivar left: uuids of nodes in the target set that the records give to
        another host, and that host.
    """

    nodes: frozenset[str] = frozenset()
    elsewhere: Mapping[str, str] = dataclasses.field(default_factory=dict)
    left: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self.nodes or uuid in self.elsewhere.values()


def of_ring(node: Node, ring: Ring, host: str, owned: Collection[str]) -> bool:
    """Whether a node is this host's by the ring.

    :param node: in the target set, or with an instance.
    :param owned: uuids of the instances that this host has.
    """
    if node.instance_uuid is not None:
        return node.instance_uuid in owned
    return ring.owner(node.uuid) == host.lower()


def other_owner(uuid: str, host: str, owners: Mapping[str, str]) -> str | None:
    """The other host that the records give a node to, ``None`` if there is none."""
    owner = owners.get(uuid)
    return None if owner is None or owner.lower() == host.lower() else owner


def by_ring(
    nodes: Iterable[Node],
    ring: Ring,
    host: str,
    owned: Collection[str],
    elsewhere: Mapping[str, str],
) -> Claim:
    """The claim by the ring.

    :param nodes: of the target set.
    :param elsewhere: see :class:`Claim`.
    """
    return Claim(
        frozenset(node.uuid for node in nodes if of_ring(node, ring, host, owned)), elsewhere
    )


def by_records(uuids: Iterable[str], host: str, owners: Mapping[str, str]) -> Claim:
    """The claim by the records.

    :param uuids: nodes of the target set.
    :param owners: node uuid to host; a node without a record is for the taking.
    """
    mine, left = [], {}
    for uuid in uuids:
        owner = other_owner(uuid, host, owners)
        if owner is None:
            mine.append(uuid)
        else:
            left[uuid] = owner
    return Claim(frozenset(mine), left=left)


def noted(claim: Claim, uuid: str, instance: str | None) -> Claim:
    """The claim after a node was seen to carry an instance, or none."""
    if uuid not in claim.elsewhere.values():
        return claim
    return dataclasses.replace(
        claim,
        elsewhere={
            carried: node
            for carried, node in claim.elsewhere.items()
            if node != uuid or carried == instance
        },
    )
