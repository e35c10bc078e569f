# SPDX-License-Identifier: Apache-2.0

"""What a refresh asks of Ironic: all nodes now and then, what changed in between.

Between full lists a refresh reads the nodes that were updated last and those
that were created last.  Neither shows a node that was deleted or that left the
filter: a sweep of little more than uuids does, now and then.  Whenever short
answers leave a doubt the answer is a full list.

One refresh at a time, which the inventory sees to.  What is kept between two
changes only when a refresh has come to its end, so that after an error the
next one asks for the same again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import answers, changes
from ironic_virt.baremetal.changes import Changes
from ironic_virt.baremetal.lists import NodeFilter, NodeLists
from ironic_virt.baremetal.node import Node

LOG = logging.getLogger(__name__)

_MOST_SINGLE_READS = 50


class Ironic(Protocol):
    """What is needed of the client."""

    @property
    def lists(self) -> NodeLists:
        """Lists of nodes."""

    def get_node(self, uuid: str) -> Node:
        """One node, fresh."""


class Resync:
    """Asks for the nodes of a filter.

    :param ironic: the client.
    :param node_filter: which nodes; another filter than the last time's means
        a full list.
    :param full_period: seconds between full lists; 0: every refresh is one.
    :param sweep_period: tells the seconds between sweeps; 0: at every refresh.
    :param clock: a monotonic clock in seconds.
    :param wall_clock: seconds since the epoch.
    """

    def __init__(
        self,
        ironic: Ironic,
        node_filter: Callable[[], NodeFilter],
        *,
        full_period: float,
        sweep_period: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._ironic = ironic
        self._node_filter = node_filter
        self._full_period = full_period
        self._sweep_period = sweep_period
        self._clock = clock
        self._wall_clock = wall_clock
        self._where: NodeFilter | None = None
        self._full_at = self._sweep_at = 0.0
        self._mark: float | None = None
        self._page_size = changes.SMALLEST_PAGE

    def list_nodes(self) -> Sequence[Node]:
        """All nodes.

        :raises IronicError: there is no answer.
        """
        lists, where, began = self._ironic.lists, self._node_filter(), self._clock()
        # Asked first: what changes while the list is under way has to lie after it.
        marked, mark = True, None
        try:
            if lists.can_tell_changes():
                mark = self._new_mark(lists, where)
        except exceptions.IronicError as exc:
            if _may_pass(exc):
                raise
            LOG.info("When nodes were changed can't be told; the next list is a full one: %s", exc)
            marked = False
        nodes = lists.whole(where)
        self._where, self._mark = where if marked else None, mark
        self._full_at = self._sweep_at = began
        return nodes

    def changes(self, known: Mapping[str, Node]) -> Changes | None:
        """What changed since the last refresh that came to its end.

        :param known: the nodes as they are known.
        :returns: ``None`` if a full list is due, or the short answers left a doubt.
        :raises IronicError: there is no answer.
        """
        lists, where, began = self._ironic.lists, self._node_filter(), self._clock()
        if where != self._where or began - self._full_at >= self._full_period:
            return None
        if not lists.can_tell_changes():
            return None
        try:
            return self._short_lists(lists, where, began, known)
        except exceptions.IronicError as exc:
            if not _may_pass(exc):
                # Perhaps only the short lists fail: the next refresh does without.
                self._where = None
            raise

    def _short_lists(
        self, lists: NodeLists, where: NodeFilter, began: float, known: Mapping[str, Node]
    ) -> Changes | None:
        mark = self._new_mark(lists, where)
        fresh, page_size = self._updated(lists, where, known)
        if fresh is None:
            LOG.debug("Too many nodes have changed for one page: all are listed anew")
            return None
        arrivals = lists.last_created(where, changes.SMALLEST_PAGE)
        new = changes.newcomers(arrivals.nodes, known)
        fresh.update(new)
        # Older ones than these may be new as well.
        full_of_news = len(new) == len(arrivals.nodes) and not arrivals.whole
        gone: frozenset[str] = frozenset()
        sweep_due = began - self._sweep_at >= self._sweep_period()
        if sweep_due or full_of_news:
            doubts = changes.doubts(lists.sweep(where), known, fresh)
            if len(doubts.unknown) > _MOST_SINGLE_READS:
                return None
            gone = doubts.gone
            settled = self._read_each(doubts.unknown, where, fresh)
            if settled:
                self._sweep_at = began
        self._mark, self._page_size = mark, page_size
        return Changes(fresh, gone)

    def _new_mark(self, lists: NodeLists, where: NodeFilter) -> float | None:
        return changes.mark(lists.newest_update(where), self._wall_clock())

    def _updated(
        self, lists: NodeLists, where: NodeFilter, known: Mapping[str, Node]
    ) -> tuple[dict[str, Node] | None, int]:
        """The nodes updated since the mark, and the size of the next page."""
        size = self._page_size
        while True:
            page = lists.last_updated(where, size)
            if page.whole or self._reaches_back(lists, page.nodes[-1].uuid):
                position = changes.last_difference(page.nodes, known)
                nodes = {node.uuid: node for node in page.nodes}
                return nodes, changes.next_page_size(size, position)
            if size >= changes.LARGEST_PAGE or len(page.nodes) < size:
                return None, size
            size = min(changes.LARGEST_PAGE, size * 4)

    def _reaches_back(self, lists: NodeLists, last: str) -> bool:
        # A list with chosen fields can't show the time; one in detail costs four times as much.
        try:
            oldest = lists.updated_at(last)
        except exceptions.NodeNotFound:
            return False
        return changes.reaches_back(oldest, self._mark)

    def _read_each(self, uuids: Sequence[str], where: NodeFilter, fresh: dict[str, Node]) -> bool:
        """Read nodes one by one into ``fresh``.

        :returns: whether each was there; if not, a sweep has to look again.
        """
        settled = True
        for uuid in uuids:
            try:
                node = changes.as_listed(self._ironic.get_node(uuid), where)
            except exceptions.NodeNotFound:
                node = None
            if node is None:
                settled = False
            else:
                fresh[uuid] = node
        return settled


def _may_pass(error: exceptions.IronicError) -> bool:
    """Whether an error says nothing about the request itself."""
    refused = isinstance(
        error, exceptions.IronicUnauthorized | exceptions.MicroversionNotSupported
    )
    return refused or answers.is_transient(error)
