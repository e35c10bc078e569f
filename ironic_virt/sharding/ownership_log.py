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
        self._logged: dict[str, str] = {}

    def log_foreign(
        self, claim: Claim, held: Collection[str], target: TargetSet, *, pooled: bool
    ) -> None:
        """Log the nodes of the target set that belong to other hosts.

        :param held: those of them without a record, but with an instance of that host.
        :param pooled: Ironic picks the nodes: a record of another host is not a fault, and
            is deleted with its instance.
        """
        recorded: dict[str, list[str]] = {}
        carrying: dict[str, list[str]] = {}
        for uuid, owner in claim.foreign.items():
            if self._logged.get(uuid) != owner:
                (carrying if uuid in held else recorded).setdefault(owner, []).append(uuid)
        for owner, uuids in recorded.items():
            if pooled:
                LOG.info(
                    "Host %s has node records from before node_selection was set to ironic; "
                    "they are left to it until their instances are deleted: %s",
                    *(owner, _name_first(uuids)),
                )
                continue
            move = self._virtapi.move_command.format(node=uuids[0], host=self._virtapi.host)
            LOG.warning(
                "[node-of-another-host] Nodes in %s that the records give to host %s are left "
                "alone: %s. To move one here: %s",
                *(target, owner, _name_first(uuids), move),
            )
        for owner, uuids in carrying.items():
            LOG.warning(
                "[node-of-another-host] Nodes in %s that have no record, but an instance of host "
                "%s, are left alone: %s. Start that host's service, so that it reports them",
                *(target, owner, _name_first(uuids)),
            )
        # A node that is away for a while and comes back is not logged again.
        for uuid in claim.nodes & self._logged.keys():
            del self._logged[uuid]
        self._logged.update(claim.foreign)
        if len(self._logged) > 2 * len(claim.foreign) + _MOST_REMEMBERED:
            # Most of them have gone from Ironic.
            self._logged = dict(claim.foreign)


def _name_first(uuids: list[str]) -> str:
    more = f" and {len(uuids) - _MOST_NAMED} more" if len(uuids) > _MOST_NAMED else ""
    return f"{', '.join(uuids[:_MOST_NAMED])}{more}"


def log_empty_shard(target: TargetSet, shards: Collection[str] | None) -> None:
    """Warn that no node is in the shard of the target set.

    :param shards: those that have nodes; ``None``: not known.
    """
    known = f" Shards with nodes: {', '.join(shards) or 'none'}." if shards is not None else ""
    LOG.warning(
        "[shard-empty] Ironic has no node in %s, so this service offers none.%s Check [ironic] "
        "shard_key, or put nodes into the shard: openstack baremetal node set --shard %s <node>",
        *(target, known, target.shard_key),
    )


def log_spellings(target: TargetSet, shards: Collection[str]) -> None:
    """Warn if the service's own shard has nodes under several spellings.

    :param shards: those that have nodes.
    """
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
