# SPDX-License-Identifier: Apache-2.0

"""What short lists say about a long one: pure decisions, nothing is asked here.

Times are seconds since the epoch by Ironic's clocks: each conductor writes its
own, rounded down to whole seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from ironic_virt.baremetal.lists import NodeFilter, Swept
from ironic_virt.baremetal.node import LIST_FIELDS, Node

OVERLAP = 20.0
"""How far apart in seconds the clocks of conductors may be; the second that rounding
costs, and what a transaction takes to be committed, are in it."""

SMALLEST_PAGE = 20
LARGEST_PAGE = 1000
"""Ironic's own maximum, unless its operator has lowered it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """What is different now.

    :ivar nodes: nodes as they are now, by uuid; new ones among them.
    :ivar gone: the uuids of those that left.
    """

    nodes: Mapping[str, Node]
    gone: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Doubts:
    """What a sweep that came whole found to differ from what is known.

    :ivar gone: uuids that the sweep no longer has.
    :ivar unknown: uuids of nodes that are new, or not as they are known.
    """

    gone: frozenset[str]
    unknown: tuple[str, ...]


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


def last_difference(page: Sequence[Node], known: Mapping[str, Node]) -> int:
    """Where the last node stands, counted from 1, that isn't as known; 0 if none does."""
    for position in range(len(page), 0, -1):
        node = page[position - 1]
        if known.get(node.uuid) != node:
            return position
    return 0


def newcomers(page: Iterable[Node], known: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes of a page that are not known."""
    return {node.uuid: node for node in page if node.uuid not in known}


def doubts(sweep: Sequence[Swept], known: Mapping[str, Node], fresh: Mapping[str, Node]) -> Doubts:
    """Compare a whole sweep with what is known.

    :param known: the nodes as of the last refresh.
    :param fresh: those that this refresh has read since.
    """
    unknown = []
    seen = set()
    for row in sweep:
        uuid = row.uuid
        seen.add(uuid)
        node = fresh.get(uuid) or known.get(uuid)
        if node is None or not row.agrees(node):
            unknown.append(uuid)
    gone = {uuid for uuid in known if uuid not in seen}
    gone.update(uuid for uuid in fresh if uuid not in seen)
    return Doubts(frozenset(gone), tuple(unknown))


def as_listed(node: Node, where: NodeFilter) -> Node | None:
    """A node read by itself as a list would show it; ``None`` if it would not."""
    if not where.holds(node):
        return None
    shown = {name: getattr(node, name) for name in LIST_FIELDS}
    malformed = tuple(name for name in node.malformed if name in LIST_FIELDS)
    return Node(**shown, malformed=malformed)
