# SPDX-License-Identifier: Apache-2.0

"""Which nodes are this host's: the policy in force, and the claim of the last refresh.

Each refresh takes the options as they are (:meth:`Ownership.adopt`), and, after
the nodes have been listed, asks the compute service once and decides about all
of them (:meth:`Ownership.settle`).  Between refreshes they stay: policy,
ring and claim are immutable and replaced as a whole, and only what we did to a
node outside the target set is taken note of (:meth:`Ownership.note`).

Any thread may call anything.  One lock lets adoptions and settlements happen one
after the other; Ironic and the compute service are asked under it, and readers
don't take it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Collection

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory import Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.sharding import claims, guard, hashring
from ironic_virt.sharding.claims import Claim
from ironic_virt.sharding.hashring import Ring
from ironic_virt.sharding.policy import Policy
from ironic_virt.sharding.selector import TargetSet
from ironic_virt.virt import VirtAPI

LOG = logging.getLogger(__name__)


_MOST_NAMED = 10
"""So many nodes that another host has are named in one line of the log, of 100,000 perhaps."""


class Ownership:
    """Answers which nodes are this host's.

    :param conf: read at each :meth:`adopt`.
    :param virtapi: knows hosts, instances and records.
    :param client: finds nodes with our instances outside the target set.
    """

    def __init__(self, conf: cfg.ConfigOpts, virtapi: VirtAPI, client: IronicClient) -> None:
        self._conf = conf
        self._virtapi = virtapi
        self._client = client
        self._lock = threading.RLock()
        self._policy: Policy | None = None
        self._refused: str | None = None
        self._members: frozenset[str] = frozenset()
        self._ring: Ring | None = None
        self._claim: Claim | None = None
        self._settled_for: float | None = None
        self._warned: dict[str, str] = {}

    # -- the options ----------------------------------------------------------

    @property
    def target(self) -> TargetSet:
        """The target set in force."""
        return (self._policy or self.adopt()).target

    def adopt(self) -> Policy:
        """Let the options as they are now hold, if they can be used.

        What can't be used is told in the log, once, and the former policy stays.

        :returns: the policy in force.
        :raises InvalidConfiguration: they can't be used, and there is no former one.
        :raises MicroversionNotSupported: likewise, because of the server.
        """
        with self._lock:
            former = self._policy
            try:
                policy = Policy.from_conf(self._conf, self._virtapi.host)
                if policy != former:
                    policy.target.check_server(self._client.versions)
            except (
                exceptions.InvalidConfiguration,
                exceptions.MicroversionNotSupported,
            ) as exc:
                if former is None:
                    raise
                self._refuse(former, str(exc))
                return former
            self._refused = None
            if policy != former:
                if former is not None:
                    LOG.info("The options have changed: %s", policy)
                for warning in policy.warnings:
                    LOG.warning("%s.", warning)
                self._policy = policy
            return policy

    def _refuse(self, former: Policy, reason: str) -> None:
        if reason != self._refused:
            self._refused = reason
            LOG.error("%s. The former values stay in force: %s", reason, former)

    # -- the nodes ------------------------------------------------------------

    def claim(self, snapshot: Snapshot) -> Claim:
        """The claim in force; settled now if there is none yet."""
        return self._claim or self.settle(snapshot)

    def settle(self, snapshot: Snapshot) -> Claim:
        """Decide anew which nodes are this host's.

        :param snapshot: the nodes of the target set, just listed.
        :raises IronicError: a node could not be looked up; the former claim stays.
        """
        with self._lock:
            if self._claim is not None and _before(snapshot.taken_at, self._settled_for):
                return self._claim
            host = self._virtapi.host
            members = self._members_now()
            ring = self._ring_of(members)
            if ring is None:
                uuids = list(snapshot.nodes)
                claim = claims.by_records(uuids, host, self._virtapi.node_owners(uuids))
            else:
                # After the list: an instance that came meanwhile is looked up, one
                # that was known before and is gone would cost us its node.
                owned = frozenset(self._virtapi.owned_instance_uuids())
                elsewhere = self._look_up(owned.difference(snapshot.instance_uuids))
                nodes = snapshot.nodes.values()
                claim = claims.by_ring(nodes, ring, host, owned, elsewhere)
            self._tell_of_members(members)
            self._tell_of_left(claim)
            self._members, self._ring, self._claim = members, ring, claim
            self._settled_for = snapshot.taken_at
            return claim

    def serves(self, node: Node) -> bool:
        """Whether a node is this host's, by the ring or the records.

        :param node: read just now, by itself.
        """
        host = self._virtapi.host
        inside = self.target.why_outside(node) is None
        ring = self._ring_in_force()
        if ring is None:
            owners = self._virtapi.node_owners([node.uuid]) if inside else {}
            return inside and claims.other_owner(node.uuid, host, owners) is None
        if node.instance_uuid is not None:
            return claims.of_ring(node, ring, host, self._virtapi.owned_instance_uuids())
        return inside and claims.of_ring(node, ring, host, ())

    @property
    def by_ring(self) -> bool:
        """Whether the hash ring decides, and not the records."""
        return self._ring_in_force() is not None

    def note(self, node: Node) -> None:
        """Take a node as just read or changed: outside the target set it is ours only
        as long as it has our instance."""
        with self._lock:
            claim = self._claim
            if claim is None or node.uuid not in claim.elsewhere.values():
                return
            elsewhere = {
                instance: uuid
                for instance, uuid in claim.elsewhere.items()
                if uuid != node.uuid or instance == node.instance_uuid
            }
            self._claim = dataclasses.replace(claim, elsewhere=elsewhere)

    def check(self, node: Node, *, instance: str, carries: str | None) -> None:
        """Let an action on a node pass, or refuse it: see :func:`guard.check`."""
        outside = self.target.why_outside(node) is not None
        stays = outside and carries is not None and self._keeps(carries)
        guard.check(
            node,
            self.target,
            instance=instance,
            carries=carries,
            stays=stays,
            move_command=self._virtapi.move_command,
        )

    def _keeps(self, instance: str) -> bool:
        """Whether a node stays ours outside of the group, because of our instance."""
        if self._ring_in_force() is None:
            return False
        return instance in self._virtapi.owned_instance_uuids()

    def _look_up(self, instances: Collection[str]) -> dict[str, str]:
        found = {}
        for instance in sorted(instances):
            node = self._client.node_of_instance(instance)
            if node is not None:
                found[instance] = node.uuid
        return found

    # -- the ring -------------------------------------------------------------

    def _members_now(self) -> frozenset[str]:
        """Who shares the nodes; nobody if this host is alone."""
        policy = self._policy or self.adopt()
        if len(policy.peers) < 2:
            return frozenset()
        members = hashring.live_members(
            policy.peers, self._virtapi.live_hosts(), self._virtapi.host
        )
        return members if len(members) > 1 else frozenset()

    def _ring_of(self, members: frozenset[str]) -> Ring | None:
        if self._ring is not None and self._ring.members == members:
            return self._ring
        return Ring(members) if members else None

    def _ring_in_force(self) -> Ring | None:
        if self._claim is None:
            return self._ring_of(self._members_now())
        return self._ring

    # -- the log --------------------------------------------------------------

    def _tell_of_members(self, members: frozenset[str]) -> None:
        if members == self._members:
            return
        if members:
            LOG.warning(
                "The hash ring has changed: the nodes of %s are now shared by %s; those without "
                "an instance move accordingly. The hash ring ([ironic] peer_list) is deprecated.",
                self.target,
                ", ".join(sorted(members)),
            )
        else:
            LOG.warning(
                "The hash ring is at rest: no peer of [ironic] peer_list but this host is up, so "
                "nodes stay with the hosts that the records name. The hash ring is deprecated."
            )

    def _tell_of_left(self, claim: Claim) -> None:
        news: dict[str, list[str]] = {}
        for uuid, owner in claim.left.items():
            if self._warned.get(uuid) != owner:
                news.setdefault(owner, []).append(uuid)
        for owner, uuids in news.items():
            several = len(uuids) > 1
            more = f" and {len(uuids) - _MOST_NAMED} more" if len(uuids) > _MOST_NAMED else ""
            LOG.warning(
                "Node%s %s%s %s in %s, but the records give %s to host %s; %s left alone. To move "
                "%s here: %s",
                *("s" if several else "", ", ".join(uuids[:_MOST_NAMED]), more),
                *("are" if several else "is", self.target, "them" if several else "it", owner),
                *("they are" if several else "it is", "one" if several else "it"),
                self._virtapi.move_command.format(node=uuids[0], host=self._virtapi.host),
            )
        # A node that is away for a while and comes back is no news.
        for uuid in claim.nodes & self._warned.keys():
            del self._warned[uuid]
        self._warned.update(claim.left)


def _before(taken_at: float | None, settled_for: float | None) -> bool:
    """Whether a list is older than the one that the claim is about."""
    return taken_at is not None and settled_for is not None and taken_at < settled_for
