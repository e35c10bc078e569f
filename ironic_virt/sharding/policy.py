# SPDX-License-Identifier: Apache-2.0

"""The options of sharding, read and checked together.

A policy is a value: the options may change at run time, a policy doesn't.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.sharding import hashring
from ironic_virt.sharding.selector import TargetSet


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """The target set, and the peers that share it.

    :ivar peers: host names in lower case; fewer than two: this host is alone.
    :ivar warnings: for the operator.
    """

    target: TargetSet
    peers: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, host: str) -> Policy:
        """The options as they are now.

        :param host: this compute service's name.
        :raises InvalidConfiguration: a value, or the values together, can't be used.
        """
        group = _read(conf, "conductor_group")
        shard = _read(conf, "shard_key")
        target = TargetSet(None if group is None else group.lower(), shard)
        listed = [name.strip() for name in _read(conf, "peer_list")]
        peers = frozenset(name.lower() for name in listed if name)
        if not peers:
            return cls(target)
        if shard is not None:
            return cls(
                target,
                warnings=(
                    f"[ironic] peer_list is ignored, because shard_key is set ({shard!r}): "
                    "remove peer_list",
                ),
            )
        listed_too = host.lower() in peers
        if group is not None and not listed_too:
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
            hashring.tooz_hashring()
        return cls(target, peers, tuple(warnings))

    def __str__(self) -> str:
        peers = ", ".join(sorted(self.peers)) or "none"
        return f"{self.target}, peers {peers}"


def _read(conf: cfg.ConfigOpts, name: str) -> Any:
    try:
        return conf.ironic[name]
    except ValueError as exc:
        # oslo.config parses a value when it is read, and one that was changed at
        # run time is checked no earlier.
        raise exceptions.InvalidConfiguration(f"[ironic] {name}", str(exc)) from exc
