# SPDX-License-Identifier: Apache-2.0

"""What a deployment is made of: hosts with their options, and the nodes that they have."""

import dataclasses
import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oslo_config import cfg

from tests.unit.driver.stage import make_conf


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """A deployment.

    :ivar hosts: the options of each.
    :ivar homes: the shard and the conductor group of the nodes, in turn.
    """

    name: str
    hosts: tuple[Mapping[str, Any], ...]
    homes: tuple[tuple[str | None, str], ...]

    @property
    def pools(self) -> bool:
        """Whether Ironic picks the nodes."""
        return any("node_selection" in options for options in self.hosts)

    @property
    def by_ring(self) -> bool:
        """Whether nodes go from host to host by themselves."""
        return any("peer_list" in options for options in self.hosts)


_POOLS = {"node_selection": "ironic"}
_A, _B = {"shard_key": "a"}, {"shard_key": "b"}
_PEERS = {"peer_list": "compute1,compute2"}

LAYOUTS = (
    Layout("one", ({},), ((None, ""),)),
    Layout("shards", (_A, _B), (("a", ""), ("b", ""))),
    Layout(
        "groups",
        ({"conductor_group": "one"}, {"conductor_group": "two"}),
        ((None, "one"), (None, "two")),
    ),
    Layout(
        "both",
        (
            {"conductor_group": "one", **_A},
            {"conductor_group": "one", **_B},
            {"conductor_group": "two"},
        ),
        (("a", "one"), ("b", "one"), ("a", "two")),
    ),
    Layout("same shard", (_A, _A), (("a", ""),)),
    Layout("ring", (_PEERS, _PEERS), ((None, ""),)),
    Layout("pools", (_POOLS,), ((None, ""),)),
    Layout("pools by shard", (_POOLS | _A, _POOLS | _B), (("a", ""), ("b", ""))),
    Layout("shared pools", (_POOLS | _A, _POOLS | _A), (("a", ""),)),
)
"""Of each seed the one whose turn it is."""


@functools.cache
def _directory() -> Path:
    made = tempfile.TemporaryDirectory(prefix="simulation-")
    _directory.made = made  # type: ignore[attr-defined]
    return Path(made.name)


@functools.cache
def options(layout: Layout, index: int) -> cfg.ConfigOpts:
    """The options of a host, read from a file as usual."""
    directory = _directory() / f"{layout.name}-{index}"
    directory.mkdir()
    return make_conf(directory, f"compute{index + 1}", **layout.hosts[index])
