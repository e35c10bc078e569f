# SPDX-License-Identifier: Apache-2.0

"""What Nova gets of each node, made again only when the node has changed.

Nova's resource tracker asks for every node in every period, and mostly nothing has
changed.  What it does in between leaves nothing in the processor's caches, so that
putting an answer together takes several times as long as it would in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

V = TypeVar("V")


class Reports(Generic[V]):
    """Answers by node, each kept for as long as the driver knows the node as it was.

    Thread-safe: two threads at once may make an answer twice, and make the same.

    :param version: a node's ``IronicDriver.node_version``.
    :param make: makes the answer; what it raises passes.
    """

    def __init__(self, version: Callable[[str], object | None], make: Callable[[str], V]) -> None:
        self._version = version
        self._make = make
        self._kept: dict[str, tuple[object, V]] = {}

    def of(self, nodename: str) -> V:
        """The answer; it is also the next caller's and not to be changed."""
        # Before the answer is made: what becomes known meanwhile is news the next time.
        version = self._version(nodename)
        kept = self._kept.get(nodename)
        if kept is not None and kept[0] is version:
            return kept[1]
        made = self._make(nodename)
        if version is not None:
            self._kept[nodename] = version, made
        return made

    def forget_others(self, nodenames: Collection[str]) -> None:
        """Keep nothing of nodes but these."""
        if len(self._kept) > len(nodenames):
            known = frozenset(nodenames)
            for name in [name for name in list(self._kept) if name not in known]:
                self._kept.pop(name, None)
