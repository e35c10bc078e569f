# SPDX-License-Identifier: Apache-2.0

"""The options of sharding, read and checked together.

A policy is a value: the options may change at run time, a policy doesn't.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.sharding import ring
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
        group = _read_option(conf, "conductor_group")
        shard = _read_option(conf, "shard_key")
        target = TargetSet(None if group is None else group.lower(), shard)
        peers, warnings = ring.peers_of(_read_option(conf, ring.OPTION), target, host)
        return cls(target, peers, warnings)

    def __str__(self) -> str:
        peers = ", ".join(sorted(self.peers)) or "none"
        return f"{self.target}, peers {peers}"


def _read_option(conf: cfg.ConfigOpts, name: str) -> Any:
    try:
        return conf.ironic[name]
    except ValueError as exc:
        # oslo.config parses a value when it is read, and one that was changed at
        # run time is checked no earlier.
        raise exceptions.InvalidConfiguration(f"[ironic] {name}", str(exc)) from exc
