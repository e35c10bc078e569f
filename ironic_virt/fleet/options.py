# SPDX-License-Identifier: Apache-2.0

"""What the configuration files of compute services say of ``[ironic]``.

Each nova-compute has a file of its own, and the tools run elsewhere: an operator names the
files, one or several for each host.  Only what is written is looked at, without Nova's
defaults, so that a file of another release can be read, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.conf import ironic, standby_options, unknown
from ironic_virt.sharding.selector import TargetSet

_IN_TREE = "ironic.IronicDriver"

DEPRECATED = {
    "peer_list": "give each service a shard: ironic-virt-fleet plan shards",
    "partition_key": "call it conductor_group",
}
"""Options of ``[ironic]`` that go away, and what to do instead."""


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What the files of one service say.

    :ivar host: whose they are.
    :ivar written: what they say in ``[ironic]``; of several values the last.
    :ivar driver: ``compute_driver``.
    """

    host: str
    written: Mapping[str, str] = dataclasses.field(default_factory=dict)
    driver: str = ""

    @property
    def shard(self) -> str | None:
        """The shard that the service serves; ``None``: any."""
        return self.written.get("shard_key", self.written.get("shard")) or None

    @property
    def conductor_group(self) -> str | None:
        """The conductor group that the service serves; ``None``: any."""
        return self.written.get("conductor_group", self.written.get("partition_key"))

    @property
    def peers(self) -> tuple[str, ...]:
        """The services that share the nodes by the hash ring; none where a shard is set."""
        listed = self.written.get("peer_list", "").split(",")
        return () if self.shard else tuple(name.strip() for name in listed if name.strip())

    @property
    def picks_nodes(self) -> bool:
        """Whether the service reports nodes and not pools."""
        return self.written.get("node_selection", "scheduler") != "ironic"

    @property
    def target(self) -> TargetSet:
        """The nodes that the service is for, before peers share them."""
        group = self.conductor_group
        return TargetSet(None if group is None else group.lower(), self.shard)

    @property
    def standby(self) -> tuple[str, int] | None:
        """The backend of its lease and the lease's seconds.

        ``None``: it has no standby, or its lease is a file, which only its own host can ask.
        """
        url = self.written.get("standby_backend_url", "")
        if not url or url.startswith("file:"):
            return None
        ttl = self.written.get("standby_ttl", "")
        return url, int(ttl) if ttl.isdecimal() else standby_options.TTL

    def serves(self, node: Node) -> bool:
        """Whether a node is in the service's target set."""
        return self.target.node_filter().holds(node)

    def shares_with(self, other: ServiceOptions) -> bool:
        """Whether two services share the nodes that are in both target sets.

        They do by the hash ring, and where Ironic picks the nodes.  Nova's own driver has
        all services without a shard in its ring where no ``peer_list`` is written.
        """
        if not self.picks_nodes and not other.picks_nodes:
            return True
        return self._has_peer(other) and other._has_peer(self)

    def _has_peer(self, other: ServiceOptions) -> bool:
        if self.driver == _IN_TREE and not self.peers:
            return self.shard is None
        return other.host.lower() in {name.lower() for name in self.peers}

    def unknown_names(self, novas: Collection[str]) -> list[str]:
        """What is written and is no option.

        :param novas: the names of Nova's own options of the group.
        """
        known = ironic.names(self.written.get("auth_type", "none"))
        return sorted(self.written.keys() - known - set(novas))


def read(host: str, files: Sequence[str]) -> ServiceOptions:
    """Read the files of a service.

    :raises InvalidConfiguration: one can't be read.
    """
    written: dict[str, str] = {}
    driver = ""
    for path in files:
        try:
            written |= unknown.written(path, ironic.GROUP)
            driver = unknown.written(path, "DEFAULT").get("compute_driver", driver)
        except OSError as exc:
            raise exceptions.InvalidConfiguration(path, str(exc.strerror)) from exc
        except (ValueError, cfg.ParseError) as exc:
            raise exceptions.InvalidConfiguration(path, f"not an ini file: {exc}") from exc
    return ServiceOptions(host, written, driver)
