# SPDX-License-Identifier: Apache-2.0

"""What the configuration files of compute services say in ``[ironic]``.

Each nova-compute has its own file, and the tools run elsewhere: an operator names the files of
each host.  Only what is written counts, not Nova's defaults: the file may be of another release.
A value may refer to another option, if the files set that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.conf import ironic, ironic_options, reason_of, standby_options, unknown
from ironic_virt.sharding.selector import TargetSet

_IN_TREE = "ironic.IronicDriver"

DEPRECATED = {
    "peer_list": "give each service a shard: ironic-virt-fleet plan shards",
    "partition_key": "rename it to conductor_group",
}
"""Deprecated options of ``[ironic]``, and what to do instead."""


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What the files of one service say in ``[ironic]`` and ``[DEFAULT]``; the last one counts."""

    host: str
    written: Mapping[str, str] = dataclasses.field(default_factory=dict)
    defaults: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def number(self, name: str, default: int) -> int:
        """A whole number in ``[DEFAULT]``."""
        text = self.defaults.get(name, "")
        return int(text) if text.isdecimal() else default

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
    def failure_domain(self) -> str | None:
        """The option that names the field of a node with its failure domain."""
        return self.written.get("failure_domain") or None

    @property
    def is_in_tree(self) -> bool:
        """Whether the service has Nova's own driver."""
        return self.defaults.get("compute_driver") == _IN_TREE

    @property
    def target(self) -> TargetSet:
        """The nodes that the service serves, before peers share them."""
        group = self.conductor_group
        return TargetSet(None if group is None else group.lower(), self.shard)

    @property
    def standby(self) -> tuple[str, int, str] | None:
        """The backend of its lease, seconds and namespace; ``None``: none that others can ask."""
        url = self.written.get("standby_backend_url", "")
        if not url or url.startswith("file:"):
            return None
        ttl = self.written.get("standby_ttl", "")
        seconds = int(ttl) if ttl.isdecimal() else standby_options.TTL
        return url, seconds, self.written.get("standby_namespace", "")

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
        if self.is_in_tree and not self.peers:
            return self.shard is None
        return other.host.lower() in {name.lower() for name in self.peers}

    def unknown_names(self, novas: Collection[str]) -> list[str]:
        """What is written, and is neither our option nor one of Nova's own."""
        known = ironic.names(self.written.get("auth_type", "none"))
        return sorted(self.written.keys() - known - set(novas))


def read(host: str, paths: Sequence[str]) -> ServiceOptions:
    """Read the files and directories of a service; an empty host stands for any.

    :raises InvalidConfiguration: one can't be read, they are not that host's, or a value refers
        to an option that they don't set.
    """
    conf = cfg.ConfigOpts()
    arguments = [f"--config-{'dir' if Path(path).is_dir() else 'file'}={path}" for path in paths]
    try:
        conf(arguments, project="nova", default_config_files=[], default_config_dirs=[])
        defaults, written = (unknown.read_values(conf, name) for name in ("DEFAULT", ironic.GROUP))
    except (OSError, ValueError, cfg.Error) as exc:
        reason = f"can't be read: {reason_of(exc)}"
        raise exceptions.InvalidConfiguration(", ".join(paths), reason) from None
    if host and not written and "compute_driver" not in defaults:
        reason = "sets neither compute_driver nor [ironic] options; name all files of the service"
        raise exceptions.InvalidConfiguration(", ".join(paths), reason)
    if host and defaults.get("host", host) != host:
        raise exceptions.InvalidConfiguration(
            ", ".join(paths), f"its [DEFAULT] host is {defaults['host']}, not {host}"
        )
    conf.register_opts([cfg.StrOpt(name) for name in {"host": host, **defaults}])
    conf.set_default("host", host)
    conf.register_opts([cfg.StrOpt(name) for name in written], group=ironic.GROUP)
    for name in [name for name, text in written.items() if "$" in text]:
        try:
            written[name] = conf[ironic.GROUP][name]
        except (cfg.Error, ValueError) as exc:
            if name in ironic_options.DECISIVE:
                raise exceptions.InvalidConfiguration(
                    f"[ironic] {name} of {host}",
                    f"is {written[name]}, but its files don't set what that refers to; use "
                    f"--serves {host}=<shard> instead",
                ) from exc
    return ServiceOptions(host, written, defaults)


def parse_serves(text: str) -> ServiceOptions:
    """Options given by hand, as ``HOST=SHARD`` or ``HOST=SHARD:GROUP``, else a ValueError."""
    host, _, target = text.partition("=")
    shard, colon, group = target.partition(":")
    if not (host and shard):
        raise ValueError(f"{text} is not <host>=<shard>[:<group>]")
    return without_file(host, shard, group if colon else None)


def without_file(
    host: str, shard: str, group: str | None = None, interval: int = 0
) -> ServiceOptions:
    """Options that no file sets; an interval of 0 is unknown."""
    written = {"shard": shard} | ({} if group is None else {"conductor_group": group})
    return ServiceOptions(host, written, {"report_interval": str(interval)} if interval else {})
