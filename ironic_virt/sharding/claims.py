# SPDX-License-Identifier: Apache-2.0

"""Which nodes of the target set are this host's: the decisions, as pure functions.

A node is this host's unless the compute service's records give it to another one; it
never moves by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """What a host claims as of one refresh.  Immutable.

    :ivar nodes: uuids of nodes in the target set.
    :ivar elsewhere: instance uuid to node uuid, for nodes that are outside the
        target set and this host's all the same, because of the instance.
    :ivar foreign: node uuid to host, for nodes in the target set that the records give to
        another host.
    """

    nodes: frozenset[str] = frozenset()
    elsewhere: Mapping[str, str] = dataclasses.field(default_factory=dict)
    foreign: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self.nodes or uuid in self.elsewhere.values()


def other_owner(uuid: str, host: str, owners: Mapping[str, str]) -> str | None:
    """The other host that the records give a node to, ``None`` if there is none."""
    owner = owners.get(uuid)
    return None if owner is None or owner.lower() == host.lower() else owner


def claim_by_records(uuids: Collection[str], host: str, owners: Mapping[str, str]) -> Claim:
    """Return what a host claims by the service's records.

    :param uuids: nodes of the target set.
    :param owners: node uuid to host; a node without a record is for the taking.
    """
    foreign = {
        uuid: owner for uuid in uuids if (owner := other_owner(uuid, host, owners)) is not None
    }
    return Claim(frozenset(uuids).difference(foreign), foreign=foreign)


def with_sighting(claim: Claim, uuid: str, instance: str | None) -> Claim:
    """Return the claim after a node was seen with an instance, or with ``None``."""
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
