# SPDX-License-Identifier: Apache-2.0

"""Reads the nodes that were updated since some time, page by page, and misses none.

Ironic can sort by the time of the last update, newest first, and equal times by
id; it can't filter by it.  So pages are read from the front until one reaches back
to the wanted time.  Each begins behind a *marker*, the last node of the one
before, wherever that one stands by then.  While pages are read

* a node that is updated moves ahead, perhaps into what has been read.  It is
  missed now and comes with the next refresh, whose time was taken before the
  first page.  So that it need not wait, the front is read once more;
* a marker that is updated moves ahead too: some nodes are read twice.  If the
  conductor that wrote it has a slow clock, it moves back, and nodes are left out;
  those were updated so late that the next refresh reads them again;
* a marker that is deleted, or that our user may not see any more, is refused: the list
  begins again.

A node that was never updated has no time.  Most databases sort it last, behind the nodes that
are searched for.  PostgreSQL sorts it first: that is noticed from its answers, not guessed, and
then the updated nodes can't be listed.

It keeps nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.inventory import comparison
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.baremetal.node_lists import NodeLists, Page, Stamp

LOG = logging.getLogger(__name__)

_MOST_RESTARTS = 3


class Updated(NamedTuple):
    """What was read.

    :ivar nodes: by uuid, roughly those first that were updated last.
    :ivar page_size: how many were asked for at a time in the end.
    """

    nodes: dict[str, Node]
    page_size: int


class Untold(Exception):
    """It is not known which nodes were updated; the text says why."""


class Unsorted(Untold):
    """The updated nodes can't be listed until every node has been updated once."""


def newest(lists: NodeLists, where: NodeFilter) -> Stamp | None:
    """The node that was updated last.

    :returns: ``None`` if none ever was.
    :raises Untold: nodes that never were hide those that were.
    :raises IronicError: there is no answer.
    """
    return checked(lists, where, lists.first_update(where, "desc"))


def checked(lists: NodeLists, where: NodeFilter, first: Stamp | None) -> Stamp | None:
    """The node that was updated last; ``first`` heads Ironic's list of them, newest first."""
    if first is None or first.at is not None:
        return first
    # Either no node was ever updated, or nodes without a time come first: last in this order.
    last = lists.first_update(where, "asc")
    if last is not None and last.at is not None:
        raise Unsorted(
            "Ironic's database sorts nodes that were never updated before all others, as "
            "PostgreSQL does"
        )
    return None


class Updates:
    """Reads the nodes that were updated.

    :param lists: where from.
    :param where: which nodes.
    :param front: the node that had been updated last, asked before.
    :param most: how many nodes to read before giving up.
    """

    def __init__(
        self, lists: NodeLists, where: NodeFilter, front: Stamp | None, most: int
    ) -> None:
        self._lists = lists
        self._where = where
        self._front = front
        self._left = most

    def since(self, mark: float | None, page_size: int) -> Updated:
        """The nodes that were updated since a mark.

        :param mark: see :func:`comparison.mark`.
        :param page_size: how many to ask for at first.
        :raises Untold: there are too many, or the answers don't fit together.
        :raises IronicError: there is no answer.
        """
        for _ in range(_MOST_RESTARTS):
            try:
                return self._since(mark, page_size)
            except exceptions.NotFound as exc:
                LOG.debug("A node was deleted while changes were listed; it begins again: %s", exc)
        raise Untold("nodes go away faster than changes can be listed")

    def _since(self, mark: float | None, size: int) -> Updated:
        page = self._page(size)
        nodes = {node.uuid: node for node in page.nodes}
        while not self._reaches_back(page, nodes, mark):
            # A larger page from the front has no seam.
            if size < comparison.LARGEST_PAGE and len(page.nodes) >= size:
                size = min(comparison.LARGEST_PAGE, size * 4)
                page = self._page(size)
                nodes = {node.uuid: node for node in page.nodes}
                continue
            return self._behind(page, nodes, mark, size)
        return Updated(nodes, size)

    def _behind(
        self, page: Page, nodes: dict[str, Node], mark: float | None, size: int
    ) -> Updated:
        """Go on behind a page that is as large as pages get."""
        while True:
            page = self._page(size, marker=page.nodes[-1].uuid)
            nodes.update((node.uuid, node) for node in page.nodes)
            if self._reaches_back(page, nodes, mark):
                break
        nodes.update((node.uuid, node) for node in self._page(size).nodes)
        return Updated(nodes, size)

    def _page(self, size: int, marker: str | None = None) -> Page:
        if self._left <= 0:
            raise Untold("too many nodes have changed")
        page = self._lists.last_updated(self._where, size, marker=marker)
        self._left -= max(1, len(page.nodes))
        return page

    def _reaches_back(self, page: Page, nodes: dict[str, Node], mark: float | None) -> bool:
        if page.whole:
            return True
        if not page.nodes:
            raise Untold("only Ironic's database takes the nodes of a page for ours")
        # A list with chosen fields can't show the time; one in detail costs four times as much.
        try:
            oldest = self._lists.updated_at(page.nodes[-1].uuid)
        except exceptions.NodeNotFound:
            return False
        if oldest is None and self._front is not None and self._front.uuid not in nodes:
            raise Untold("nodes that were never updated come before those that were")
        return comparison.reaches_back(oldest, mark)
