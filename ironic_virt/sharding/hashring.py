# SPDX-License-Identifier: Apache-2.0

"""The hash ring of the deprecated ``peer_list``: which peer has which node.

The ring is that of Nova's own driver (tooz, the same number of partitions, the
same key), so that services of both kinds come to the same answer and nothing
moves on an upgrade.  tooz is imported when a ring is first needed: without a
``peer_list`` it is not.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from types import ModuleType

from ironic_virt import exceptions

PARTITIONS = 32


class Ring:
    """Gives each node to one of its members.  Immutable, thread-safe.

    :param members: host names; upper and lower case are the same.
    :raises InvalidConfiguration: tooz is not installed.
    """

    def __init__(self, members: Collection[str]) -> None:
        self.members = frozenset(member.lower() for member in members)
        self._ring = tooz_hashring().HashRing(self.members, partitions=PARTITIONS)

    def owner(self, node: str) -> str:
        """The member that has a node without an instance.

        :param node: the node's uuid.
        :returns: the host's name in lower case.
        """
        (owner,) = self._ring.get_nodes(node.encode("utf-8"))
        return str(owner)


def live_members(peers: Collection[str], live_hosts: Collection[str], host: str) -> frozenset[str]:
    """The peers that are up, and this host, which always is one; in lower case."""
    live = {name.lower() for name in live_hosts}
    return frozenset(peer.lower() for peer in peers if peer.lower() in live) | {host.lower()}


def tooz_hashring() -> ModuleType:
    """tooz's module of hash rings.

    :raises InvalidConfiguration: it is not installed; says what to install.
    """
    try:
        return importlib.import_module("tooz.hashring")
    except ImportError as exc:
        raise exceptions.InvalidConfiguration(
            "[ironic] peer_list",
            f"needs the package tooz ({exc}), which comes with ironic-virt's extra 'hashring'",
        ) from exc
