# SPDX-License-Identifier: Apache-2.0

"""Which nodes are this host's: the policy in force, and the claim of the last refresh.

Each refresh takes the options as they are (:meth:`Ownership.adopt`), and, after
the nodes have been listed, asks the compute service once and decides about all
of them (:meth:`Ownership.settle`).  Between refreshes they stay: policy,
ring and claim are immutable and replaced as a whole, and only what we did to a
node outside the target set is taken note of (:meth:`Ownership.note`).

Any thread may call anything.  One lock guards what is kept; a settlement asks Ironic
and the compute service without it, and one that was overtaken changes nothing.
Readers don't take it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.sharding import claims, guard, ownership_log
from ironic_virt.sharding import ring as rings
from ironic_virt.sharding.claims import Claim
from ironic_virt.sharding.policy import Policy
from ironic_virt.sharding.ring import Ring
from ironic_virt.sharding.selector import TargetSet
from ironic_virt.virt import VirtAPI

LOG = logging.getLogger(__name__)


class Ownership:
    """Answers which nodes are this host's.

    :param conf: read at each :meth:`adopt`.
    :param virtapi: knows hosts, instances and records.
    :param client: finds nodes with our instances outside the target set.
    :param pooled: whether Ironic picks the nodes: then there is no record for each node, and
        services may share them.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        virtapi: VirtAPI,
        client: IronicClient,
        pooled: bool,
    ) -> None:
        self._conf = conf
        self._virtapi = virtapi
        self._client = client
        self._pooled = pooled
        self._lock = threading.RLock()
        self._policy: Policy | None = None
        self._refused: str | None = None
        self._ring: Ring | None = None
        self._claim: Claim | None = None
        self._settled_for: float | None = None
        self._begun = self._settled = 0
        self._sightings: dict[str, tuple[int, str | None]] = {}
        self._had_nodes: bool | None = None
        self._log = ownership_log.OwnershipLog(virtapi)

    # -- the options ----------------------------------------------------------

    @property
    def target(self) -> TargetSet:
        """The target set in force."""
        return (self._policy or self.adopt()).target

    def adopt(self) -> Policy:
        """Put the options as they are now in force, if they can be used.

        Options that can't be used are logged once, and the previous policy stays.

        :returns: the policy in force.
        :raises InvalidConfiguration: they can't be used, and there is no previous policy.
        """
        previous = self._policy
        try:
            policy = Policy.from_conf(self._conf, self._virtapi.host)
        except exceptions.InvalidConfiguration as exc:
            if previous is None:
                raise
            with self._lock:
                if str(exc) != self._refused:
                    self._refused = str(exc)
                    LOG.error(
                        "[option-refused] %s. The previous values stay in force: %s", exc, previous
                    )
            return previous
        with self._lock:
            previous = self._policy
            self._refused = None
            if policy != previous:
                if previous is not None:
                    LOG.info("The options have changed: %s", policy)
                for warning in policy.warnings:
                    LOG.warning("[option-questionable] %s.", warning)
                self._policy = policy
            return policy

    # -- the nodes ------------------------------------------------------------

    @property
    def claimed(self) -> Claim | None:
        """The claim in force; ``None`` before the first one.  Nobody is asked."""
        return self._claim

    @property
    def in_force(self) -> tuple[Policy | None, Ring | None]:
        """The policy and the ring that the claim in force was made with.  Nobody is asked."""
        return self._policy, self._ring

    def claim(self, snapshot: Snapshot) -> Claim:
        """The claim in force; settled now if there is none yet."""
        return self._claim or self.settle(snapshot)

    def settle(self, snapshot: Snapshot, *, listed: bool = True) -> Claim:
        """Decide again which nodes are this host's.

        :param snapshot: the nodes of the target set.
        :param listed: just now.  Otherwise they are from an earlier list, and Ironic is not
            asked: the records may have given nodes away since, and where the ring decides
            nothing is added.
        :raises IronicError: a node could not be looked up; the previous claim stays.
        """
        with self._lock:
            if self._claim is not None and _is_older(snapshot.taken_at, self._settled_for):
                return self._claim
            self._begun += 1
            begun = self._begun
        ring = self._current_ring()
        host = self._virtapi.host
        held: Mapping[str, str] = {}
        if ring is None:
            owners, held = self._owners(snapshot.nodes.values())
            claim = claims.claim_by_records(snapshot.nodes, host, {**owners, **held})
        else:
            owned = frozenset(self._virtapi.owned_instance_uuids())
            earlier = None if listed else self._claim
            claim = rings.claim_nodes(ring, snapshot, host, owned, self._client, earlier)
        with self._lock:
            # Another one has asked the records later, or is about a later list.
            overtaken = begun < self._settled or _is_older(snapshot.taken_at, self._settled_for)
            if self._claim is not None and overtaken:
                return self._claim
            # What became known of nodes since is newer than what was looked up.
            self._sightings = {
                uuid: (settlement, instance)
                for uuid, (settlement, instance) in self._sightings.items()
                if settlement >= begun
            }
            for uuid, (_, instance) in self._sightings.items():
                claim = claims.with_sighting(claim, uuid, instance)
            rings.log_change(self._ring, ring, self.target)
            self._log.log_foreign(claim, held, self.target, pooled=self._pooled)
            self._ring, self._claim = ring, claim
            self._settled_for, self._settled = snapshot.taken_at, begun
        if listed:
            self._log_shard(snapshot)
        return claim

    def _owners(self, nodes: Collection[Node]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The hosts of nodes by their records; of nodes without one, those of their instances.

        A node may have lost its record, or not have one yet; what runs there stays with
        the host that has the instance.
        """
        owners = self._virtapi.node_owners([node.uuid for node in nodes])
        carrying = {
            node.instance_uuid: node.uuid
            for node in nodes
            if node.instance_uuid is not None and node.uuid not in owners
        }
        if not carrying or self._pooled:
            return owners, {}
        hosts = self._virtapi.instance_hosts(list(carrying))
        return owners, {carrying[instance]: host for instance, host in hosts.items()}

    def serves(self, node: Node) -> bool:
        """Whether a node is this host's, by the ring or the records.

        :param node: read just now, by itself.
        """
        host = self._virtapi.host
        inside = self.target.why_outside(node) is None
        ring = self._ring_in_force()
        if ring is not None and (inside or node.instance_uuid is not None):
            return ring.gives(node, host, self._virtapi.owned_instance_uuids())
        if not inside:
            return False
        owners, held = self._owners([node])
        return claims.other_owner(node.uuid, host, {**owners, **held}) is None

    @property
    def by_ring(self) -> bool:
        """Whether the ring decides, and not the records."""
        return self._ring_in_force() is not None

    def note(self, node: Node) -> None:
        """Take a node as just read or changed: outside the target set it is ours only
        as long as it has our instance."""
        with self._lock:
            self._sightings[node.uuid] = self._begun, node.instance_uuid
            if self._claim is not None:
                self._claim = claims.with_sighting(self._claim, node.uuid, node.instance_uuid)

    def check(self, node: Node, *, instance: str, carries: str | None) -> None:
        """Let an action on a node pass, or refuse it: see :func:`guard.check_node`."""
        stays = (
            carries is not None
            and self.target.why_outside(node) is not None
            and self.by_ring
            # With our instance it stays ours, outside of the group as well.
            and carries in self._virtapi.owned_instance_uuids()
        )
        guard.check_node(
            node,
            self.target,
            instance=instance,
            carries=carries,
            stays=stays,
            move_command=self._virtapi.move_command,
        )

    def _current_ring(self) -> Ring | None:
        return rings.ring_of((self._policy or self.adopt()).peers, self._virtapi, self._ring)

    def _ring_in_force(self) -> Ring | None:
        return self._current_ring() if self._claim is None else self._ring

    # -- the log --------------------------------------------------------------

    def _log_shard(self, snapshot: Snapshot) -> None:
        """Log at the first list, and when the shard gets empty, which shards Ironic has."""
        had_nodes, self._had_nodes = self._had_nodes, bool(snapshot)
        if self.target.shard_key is None or had_nodes is False or (had_nodes and snapshot):
            return
        shards = None
        try:
            shards = self._client.lists.shards()
        except exceptions.IronicError as exc:
            LOG.debug("The shards can't be listed: %s", exc)
        if not snapshot:
            ownership_log.log_empty_shard(self.target, shards)
        if had_nodes is None and shards is not None:
            ownership_log.log_spellings(self.target, shards)


def _is_older(taken_at: float | None, settled_for: float | None) -> bool:
    """Whether a list is older than the one that the claim is about."""
    return taken_at is not None and settled_for is not None and taken_at < settled_for
