# SPDX-License-Identifier: Apache-2.0

"""The hash ring of the deprecated ``peer_list``: its options, members, claims and log.

The peers that are up share the nodes: one without an instance is the host's to which the
ring gives it, one with an instance is the host's that has the instance.

The ring is that of Nova's own driver (tooz, the same number of partitions, the
same key), so that services of both kinds come to the same answer and nothing
moves on an upgrade.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable
from types import ModuleType

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.sharding.claims import Claim
from ironic_virt.sharding.selector import TargetSet
from ironic_virt.virt import VirtAPI

LOG = logging.getLogger(__name__)

OPTION = "peer_list"
PARTITIONS = 32
_FEW = 3
"""So many instances outside of the target set are looked up one by one."""


class Ring:
    """Gives each node to one of its members.  Immutable, thread-safe.

    :param members: host names; upper and lower case are the same.
    :raises InvalidConfiguration: tooz is not installed.
    """

    def __init__(self, members: Collection[str]) -> None:
        self.members = frozenset(member.lower() for member in members)
        self._ring = _tooz_hashring().HashRing(self.members, partitions=PARTITIONS)

    def owner(self, node: str) -> str:
        """The member, in lower case, that has the node of a uuid if it has no instance."""
        (owner,) = self._ring.get_nodes(node.encode("utf-8"))
        return str(owner)

    def gives(self, node: Node, host: str, owned: Collection[str]) -> bool:
        """Whether a node is a host's.

        :param node: in the target set, or with an instance.
        :param owned: uuids of the instances that the host has.
        """
        if node.instance_uuid is not None:
            return node.instance_uuid in owned
        return self.owner(node.uuid) == host.lower()


def is_configured(conf: cfg.ConfigOpts) -> bool:
    """Whether the options ask for a ring, which may have no other member that is up."""
    return bool(conf.ironic.peer_list) and conf.ironic.shard_key is None


def peers_of(
    listed: Iterable[str], target: TargetSet, host: str
) -> tuple[frozenset[str], tuple[str, ...]]:
    """The peers in lower case, and warnings for the operator.

    :param listed: the value of the option.
    :param host: this compute service's name.
    :raises InvalidConfiguration: the list can't be used.
    """
    peers = frozenset(name.strip().lower() for name in listed if name.strip())
    if not peers:
        return peers, ()
    if target.shard_key is not None:
        return frozenset(), (
            f"[ironic] peer_list is ignored, because shard_key is set ({target.shard_key!r}): "
            "remove peer_list",
        )
    listed_too = host.lower() in peers
    if target.conductor_group is not None and not listed_too:
        raise exceptions.InvalidConfiguration(
            "[ironic] peer_list",
            f"does not name this host, {host!r}, but conductor_group is set: name all "
            "compute services of the group, this one included",
        )
    warnings = [
        "[ironic] peer_list is deprecated: nodes that move between services by themselves "
        "have stranded servers and lost records. Give each service a shard (shard_key), "
        "or run one service with passive failover"
    ]
    if not listed_too:
        warnings.append(
            f"[ironic] peer_list does not name this host, {host!r}: it takes part all the "
            "same, and its peers, which don't know of it, offer the same nodes. Name it in "
            "the peer_list of every peer"
        )
    if len(peers) > 1:
        _tooz_hashring()
    return peers, tuple(warnings)


def _tooz_hashring() -> ModuleType:
    # Imported here: without a ring nobody needs tooz.
    try:
        return importlib.import_module("tooz.hashring")
    except ImportError as exc:
        raise exceptions.InvalidConfiguration(
            "[ironic] peer_list",
            f"needs the package tooz ({exc}), which comes with ironic-virt's extra 'hashring'",
        ) from exc


def ring_of(peers: frozenset[str], virtapi: VirtAPI, previous: Ring | None) -> Ring | None:
    """The ring of this host and the peers that are up; ``None``: this host is alone.

    :param peers: in lower case.
    :param previous: returned if it has the same members.
    """
    if len(peers) < 2:
        return None
    members = peers.intersection(map(str.lower, virtapi.live_hosts())) | {virtapi.host.lower()}
    if previous is not None and previous.members == members:
        return previous
    return Ring(members) if len(members) > 1 else None


def log_change(previous: Ring | None, ring: Ring | None, target: TargetSet) -> None:
    """Log which hosts share the nodes, if others did before."""
    if ring is None and previous is not None:
        LOG.warning(
            "[hash-ring-alone] The hash ring is at rest: no peer of [ironic] peer_list but "
            "this host is up, so nodes stay with the hosts that the records name. The hash "
            "ring is deprecated."
        )
    elif ring is not None and (previous is None or previous.members != ring.members):
        LOG.warning(
            "[hash-ring-changed] The hash ring has changed: the nodes of %s are now shared "
            "by %s; those without an instance move accordingly. The hash ring ([ironic] "
            "peer_list) is deprecated.",
            *(target, ", ".join(sorted(ring.members))),
        )


def claim_nodes(
    ring: Ring,
    snapshot: Snapshot,
    host: str,
    owned: frozenset[str],
    client: IronicClient,
    earlier: Claim | None,
) -> Claim:
    """Decide which nodes are this host's.

    :param snapshot: the nodes of the target set.
    :param owned: uuids of this host's instances, asked for after the list: one that came
        meanwhile is looked up, one that was known before and is gone would cost us its node.
    :param earlier: the claim in force, if they are from an earlier list: then Ironic is not
        asked, and nothing is added.
    :raises IronicError: a node could not be looked up.
    """
    nodes = frozenset(
        node.uuid for node in snapshot.nodes.values() if ring.gives(node, host, owned)
    )
    if earlier is None:
        return Claim(nodes, _look_up(client, owned.difference(snapshot.instance_uuids)))
    return Claim(
        nodes & earlier.nodes,
        {instance: node for instance, node in earlier.elsewhere.items() if instance in owned},
    )


def _look_up(client: IronicClient, instances: Collection[str]) -> dict[str, str]:
    """The nodes of instances, wherever they are: one list for several."""
    nodes: Iterable[Node | None] = map(client.node_of_instance, sorted(instances))
    if len(instances) > _FEW:
        nodes = client.list_nodes(fields=("uuid", "instance_uuid"))
    return {
        instance: node.uuid
        for node in nodes
        if node and (instance := node.instance_uuid) and instance in instances
    }
