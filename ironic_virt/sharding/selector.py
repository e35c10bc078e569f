# SPDX-License-Identifier: Apache-2.0

"""The target set: the nodes in this service's conductor group and shard.

Both conditions go to Ironic as query filters, and the same conditions are
asked of a single node that was looked up without them.
"""

from __future__ import annotations

import dataclasses

from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter


def same_shard(shard: str | None, other: str | None) -> bool:
    """Whether two names are of one shard: upper and lower case are the same.

    So they are in a query of an Ironic on MariaDB or MySQL, whose columns compare so.
    """
    if shard is None or other is None:
        return shard is other
    return shard.lower() == other.lower()


@dataclasses.dataclass(frozen=True, slots=True)
class TargetSet:
    """Nodes in a conductor group and in a shard.

    :param conductor_group: ``None`` any, ``""`` the default group; case is the same.
    :param shard_key: ``None`` any; case is the same.
    """

    conductor_group: str | None = None
    shard_key: str | None = None

    def node_filter(self) -> NodeFilter:
        """The target set as a filter of lists."""
        return NodeFilter(conductor_group=self.conductor_group, shard=self.shard_key)

    def why_outside(self, node: Node) -> str | None:
        """Why a node is not in the target set; ``None`` if it is.

        :param node: read by itself, so that its group and shard are known.
        """
        if self.shard_key is not None and not same_shard(node.shard, self.shard_key):
            return (
                f"its shard is {node.shard!r}, this service serves {self.shard_key!r}"
                " ([ironic] shard_key)"
            )
        group = node.conductor_group or ""
        if self.conductor_group is not None and group.lower() != self.conductor_group:
            return (
                f"its conductor group is {group!r}, this service serves"
                f" {self.conductor_group!r} ([ironic] conductor_group)"
            )
        return None

    def __str__(self) -> str:
        group = "any" if self.conductor_group is None else repr(self.conductor_group)
        shard = "any" if self.shard_key is None else repr(self.shard_key)
        return f"conductor group {group}, shard {shard}"
