# SPDX-License-Identifier: Apache-2.0

"""Compares short lists with the known nodes: pure decisions, no requests.

Times are seconds since the epoch by Ironic's clocks: each conductor writes its
own, rounded down to whole seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ironic_virt.baremetal import node_lists
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.baremetal.node_lists import Swept

OVERLAP = 20.0
"""How far apart in seconds the clocks of conductors may be; the second that rounding
costs, and what a transaction takes to be committed, are in it."""

SMALLEST_PAGE = 20
LARGEST_DETAILED_PAGE = 40
"""Up to this size the times of all rows cost Ironic less than two further requests."""
LARGEST_PAGE = 1000
"""Ironic's own maximum, unless its operator has lowered it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """The differences from the known nodes.

    :ivar nodes: nodes as they are now, by uuid; new ones among them.
    :ivar gone: the uuids of those that left.
    """

    nodes: Mapping[str, Node]
    gone: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Doubts:
    """The differences that a complete sweep found.

    :ivar gone: uuids that the sweep no longer has.
    :ivar unknown: uuids of nodes that are new, or not as they are known.
    """

    gone: frozenset[str]
    unknown: tuple[str, ...]

    def without(self, read: Mapping[str, Node]) -> Doubts:
        """Leave out the nodes that were read after the sweep."""
        unknown = tuple(uuid for uuid in self.unknown if uuid not in read)
        return Doubts(self.gone.difference(read), unknown)


def mark(newest: float | None, now: float) -> float | None:
    """Up to when a list that begins now will show what happened.

    :param newest: when any node was last updated, asked before the list.
    :param now: the wall clock of this host.  A clock that is far ahead in one
        conductor must not make the changes of the others look old.
    """
    return None if newest is None else min(newest, now)


def reaches_back(oldest: float | None, since: float | None) -> bool:
    """Whether a page of the nodes updated last holds all that changed.

    :param oldest: when the last node of the page was updated; ``None``: never,
        so that no node after it was either.
    :param since: the mark of the former list; ``None``: no node had ever been
        updated then.
    """
    if oldest is None:
        return True
    return since is not None and oldest < since - OVERLAP


def next_page_size(size: int, position: int) -> int:
    """How many nodes to ask for the next time.

    :param size: how many were asked for this time.
    :param position: where the last node stood that had really changed, from 1;
        0 if none had.
    """
    # Behind that one come those that the overlap shows once more.
    return max(SMALLEST_PAGE, min(LARGEST_PAGE, max(2 * position + SMALLEST_PAGE, size * 3 // 4)))


def most_rows(count: int) -> int:
    """How many nodes to read for changes before listing all is as cheap.

    :param count: how many nodes there are.
    """
    # Each page costs a second request, which asks how far it reaches back.
    return max(LARGEST_PAGE, count // 2)


def last_difference(read: dict[str, Node], known: Mapping[str, Node]) -> int:
    """Where the last node stands, counted from 1, that isn't as known; 0 if none does."""
    position = len(read)
    for uuid, node in reversed(read.items()):
        if known.get(uuid) != node:
            break
        position -= 1
    return position


def doubts(sweep: Sequence[Swept], known: Mapping[str, Node], fresh: Mapping[str, Node]) -> Doubts:
    """Compare a whole sweep with what is known.

    :param known: the nodes as of the last refresh.
    :param fresh: those that this refresh has read since.
    """
    nodes = {**known, **fresh}
    # Of 100,000 rows nearly all agree, so this is all that is done for most of them.
    unknown = tuple(
        row.uuid for row in sweep if (node := nodes.get(row.uuid)) is None or not row.agrees(node)
    )
    return Doubts(frozenset(nodes.keys() - {row.uuid for row in sweep}), unknown)


def as_listed(node: Node, where: NodeFilter) -> Node | None:
    """A node read by itself as a list would show it; ``None`` if it would not."""
    return node_lists.as_listed(node, where) if where.holds(node) else None
