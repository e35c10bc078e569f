# SPDX-License-Identifier: Apache-2.0

"""Logs which host has which nodes: each change once.

Not thread-safe; the ownership calls it under its lock.
"""

from __future__ import annotations

from collections.abc import Collection

from oslo_log import log as logging

from ironic_virt.sharding.claims import Claim
from ironic_virt.sharding.selector import TargetSet, same_shard
from ironic_virt.virt import VirtAPI

LOG = logging.getLogger(__name__)

_MOST_NAMED = 10
"""So many nodes that another host has are named in one line of the log, of 100,000 perhaps."""

_MOST_REMEMBERED = 1000
"""So many nodes are not logged again that were left to others, are not now, and come back."""


class OwnershipLog:
    """Remembers what was logged.

    :param virtapi: names this host and the command that moves a node.
    """

    def __init__(self, virtapi: VirtAPI) -> None:
        self._virtapi = virtapi
        self._left: dict[str, str] = {}

    def left(
        self, claim: Claim, held: Collection[str], target: TargetSet, *, pooled: bool
    ) -> None:
        """The nodes that are left to other hosts.

        :param held: those of them that have no record, but an instance of that host.
        :param pooled: Ironic picks the nodes: whose record a node has is no fault, and the
            record goes with its instance.
        """
        recorded: dict[str, list[str]] = {}
        carrying: dict[str, list[str]] = {}
        for uuid, owner in claim.left.items():
            if self._left.get(uuid) != owner:
                (carrying if uuid in held else recorded).setdefault(owner, []).append(uuid)
        for owner, uuids in recorded.items():
            if pooled:
                LOG.info(
                    "Host %s has records of nodes of its own from before Ironic picked the nodes; "
                    "they are left to it until their instances are deleted: %s",
                    *(owner, _first(uuids)),
                )
            else:
                self._recorded(owner, uuids, target)
        for owner, uuids in carrying.items():
            one = len(uuids) == 1
            LOG.warning(
                "[node-of-another-host] Node%s %s %s in %s and %s no record, but %s of host %s; "
                "%s left alone. Start that host's service, so that it reports %s",
                *("" if one else "s", _first(uuids), "is" if one else "are", target),
                *("has" if one else "have", "carries an instance" if one else "carry instances"),
                *(owner, "it is" if one else "they are", "it" if one else "them"),
            )
        # A node that is away for a while and comes back is not logged again.
        for uuid in claim.nodes & self._left.keys():
            del self._left[uuid]
        self._left.update(claim.left)
        if len(self._left) > 2 * len(claim.left) + _MOST_REMEMBERED:
            # Most of them have gone from Ironic.
            self._left = dict(claim.left)

    def _recorded(self, owner: str, uuids: list[str], target: TargetSet) -> None:
        one = len(uuids) == 1
        LOG.warning(
            "[node-of-another-host] Node%s %s %s in %s, but the records give %s to host %s; %s "
            "left alone. To move %s here: %s",
            *("" if one else "s", _first(uuids), "is" if one else "are", target),
            *("it" if one else "them", owner),
            *("it is" if one else "they are", "it" if one else "one"),
            self._virtapi.move_command.format(node=uuids[0], host=self._virtapi.host),
        )


def _first(uuids: list[str]) -> str:
    more = f" and {len(uuids) - _MOST_NAMED} more" if len(uuids) > _MOST_NAMED else ""
    return f"{', '.join(uuids[:_MOST_NAMED])}{more}"


def no_nodes(target: TargetSet, shards: Collection[str] | None) -> None:
    """The target set has a shard, and no node is in it.

    :param shards: those that have nodes; ``None``: not known.
    """
    known = f" Shards with nodes: {', '.join(shards) or 'none'}." if shards is not None else ""
    LOG.warning(
        "[shard-empty] Ironic has no node in %s, so this service offers none.%s Check [ironic] "
        "shard_key, or put nodes into the shard: openstack baremetal node set --shard %s <node>",
        *(target, known, target.shard_key),
    )


def spellings(target: TargetSet, shards: Collection[str]) -> None:
    """The shards with nodes; a service's own may be spelt in several ways."""
    key = target.shard_key or ""
    others = [name for name in shards if name != key and same_shard(name, key)]
    if others:
        LOG.warning(
            "[shard-spelled-twice] [ironic] shard_key is %r, and Ironic has nodes in %s: upper "
            "and lower case are the same to this service, and to an Ironic on MariaDB; to one on "
            "PostgreSQL or SQLite they are two shards. Spell it alike on every node: openstack "
            "baremetal node set --shard %s <node>",
            *(key, ", ".join(map(repr, others)), key),
        )
