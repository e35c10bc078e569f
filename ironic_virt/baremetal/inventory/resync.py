# SPDX-License-Identifier: Apache-2.0

"""The requests of a refresh: all nodes now and then, changes in between.

Between full lists a refresh reads the nodes that were updated last and those
that were created last.  Neither shows a node that was deleted or that left the
filter: a sweep of little more than uuids does, now and then.  Whenever short
answers leave a doubt the answer is a full list.

A small fleet is listed whole each time: nothing is cheaper than one request.

One refresh at a time, which the inventory sees to.  What is kept between two
changes only when a refresh has come to its end, so that after an error the
next one asks for the same again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.inventory import comparison, recent_updates
from ironic_virt.baremetal.inventory.comparison import Changes
from ironic_virt.baremetal.inventory.recent_updates import Updates
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.baremetal.node_lists import NodeLists, Stamp

LOG = logging.getLogger(__name__)

_MOST_SINGLE_READS = 50

SWEEP_PERIOD = 300.0
"""Seconds after which nodes that were deleted, or left the filter, are found."""
SHORT_FROM = 2
"""Pages from which on two short lists are no more requests than a full one."""
SHORT_FROM_NODES = 250
"""Nodes from which on they take Ironic less time, also if all fit into one page."""
SWEEP_FROM = 4
"""Pages from which on a sweep now and then is cheaper than a full list."""


class _Asked(NamedTuple):
    """A mark, and which nodes it is about."""

    where: NodeFilter
    mark: float | None


class ListSource(Protocol):
    """The part of the client that is used here."""

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
    :param short_from: the least pages of a full list for which short lists are worth it.
    :param short_from_nodes: the least nodes for which they are, even on fewer pages.
    :param sweep_from: the least pages of a full list for which sweeps are worth it.
    """

    def __init__(
        self,
        ironic: ListSource,
        node_filter: Callable[[], NodeFilter],
        *,
        full_period: float,
        sweep_period: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        short_from: int = SHORT_FROM,
        short_from_nodes: int = SHORT_FROM_NODES,
        sweep_from: int = SWEEP_FROM,
    ) -> None:
        self._ironic = ironic
        self._node_filter = node_filter
        self._full_period = full_period
        self._sweep_period = sweep_period
        self._clock = clock
        self._wall_clock = wall_clock
        self._where: NodeFilter | None = None
        self._full_at = self._sweep_at = 0.0
        self._short_from = short_from
        self._short_from_nodes = short_from_nodes
        self._sweep_from = sweep_from
        self._pages = 0
        # Whether the last full list was too small for short ones.
        self._is_small = False
        self._mark: float | None = None
        # The mark that this refresh has asked for, before it came to a full list.
        self._asked: _Asked | None = None
        self._page_size = comparison.SMALLEST_PAGE
        self._told = logs.LogOnce()

    def list_nodes(self) -> Sequence[Node]:
        """All nodes.

        :raises IronicError: there is no answer.
        """
        lists, node_filter, began = self._ironic.lists, self._node_filter(), self._clock()
        # Asked first: what changes while the list is under way has to lie after it.
        mark = self._mark_before(lists, node_filter)
        nodes, self._pages = lists.listed(node_filter)
        self._is_small = self._pages < self._short_from and len(nodes) < self._short_from_nodes
        self._where = None if mark is None else node_filter
        self._mark = None if mark is None else mark.mark
        self._asked = None
        self._full_at = self._sweep_at = began
        return nodes

    def _mark_before(self, lists: NodeLists, where: NodeFilter) -> _Asked | None:
        """A mark for a list that begins now; ``None``: not known."""
        if self._asked is not None and self._asked.where == where:
            return self._asked
        if self._where == where:
            # That of the former refresh shows some changes twice, and loses none.
            return _Asked(where, self._mark)
        if self._is_small:
            return None
        try:
            return _Asked(where, self._mark_of(recent_updates.newest(lists, where)))
        except recent_updates.Untold as exc:
            self._tell(exc)
        except exceptions.IronicError as exc:
            if _may_pass(exc):
                raise
            LOG.info(
                "The times of changes could not be read; the next list is a full one: %s", exc
            )
        return None

    def changes(self, known: Mapping[str, Node]) -> Changes | None:
        """What changed since the last refresh that came to its end.

        :param known: the nodes as they are known.
        :returns: ``None`` if a full list is due, or the short answers left a doubt.
        :raises IronicError: there is no answer.
        """
        lists, node_filter, began = self._ironic.lists, self._node_filter(), self._clock()
        self._asked = None
        if node_filter != self._where or began - self._full_at >= self._full_period:
            return None
        if self._is_small:
            return None
        if self._pages < self._sweep_from and self._sweep_is_due(began):
            return None
        try:
            return self._short_lists(lists, node_filter, began, known)
        except recent_updates.Unsorted as exc:
            self._tell(exc)
            return None
        except recent_updates.Untold as exc:
            LOG.debug("All nodes are listed again: %s", exc)
            return None
        except exceptions.IronicError as exc:
            if not _may_pass(exc):
                # Perhaps only the short lists fail: the next refresh does without.
                self._where = None
            raise

    def _short_lists(
        self, lists: NodeLists, where: NodeFilter, began: float, known: Mapping[str, Node]
    ) -> Changes | None:
        size, page = self._page_size, None
        if self._pages < self._sweep_from:
            size = min(size, comparison.LARGEST_DETAILED_PAGE)
        if size <= comparison.LARGEST_DETAILED_PAGE:
            page = lists.last_updated_in_detail(where, size)
            first = page.stamps[0] if page.stamps else None
            front = recent_updates.checked(lists, where, first)
        else:
            front = recent_updates.newest(lists, where)
        # Not after the first page: what changes while pages are read has to lie after it.
        mark = self._mark_of(front)
        self._asked = _Asked(where, mark)
        most = comparison.most_rows(len(known))
        if page is not None and (
            page.whole
            or not page.stamps
            or comparison.reaches_back(page.stamps[-1].at, self._mark)
        ):
            # It holds all that was updated since the mark.
            fresh, page_size = {node.uuid: node for node in page.nodes}, size
        elif self._pages < self._sweep_from:
            # A full list is no more requests than further pages and the times of their ends.
            self._page_size = comparison.LARGEST_DETAILED_PAGE
            return None
        else:
            larger = size if page is None else size * 4
            fresh, page_size = Updates(lists, where, front, most).since(self._mark, larger)
        page_size = comparison.next_page_size(page_size, comparison.last_difference(fresh, known))
        arrivals = lists.last_created(where, comparison.SMALLEST_PAGE)
        new = {node.uuid: node for node in arrivals.nodes if node.uuid not in known}
        fresh.update(new)
        # Older ones than these may be new as well.
        all_new = len(new) == len(arrivals.nodes) and not arrivals.whole
        if all_new and self._pages < self._sweep_from:
            return None
        gone: frozenset[str] = frozenset()
        if self._sweep_is_due(began) or all_new:
            doubts = comparison.doubts(lists.sweep(where), known, fresh)
            if len(doubts.unknown) > _MOST_SINGLE_READS:
                # A sweep of a large fleet takes time, in which nodes change.
                late, _ = Updates(lists, where, front, most).since(mark, page_size)
                fresh.update(late)
                doubts = doubts.without(late)
            if len(doubts.unknown) > _MOST_SINGLE_READS:
                return None
            gone = doubts.gone
            settled = self._read_each(doubts.unknown, where, fresh)
            if settled:
                self._sweep_at = began
        self._mark, self._page_size = mark, page_size
        return Changes(fresh, gone)

    def _sweep_is_due(self, now: float) -> bool:
        return now - self._sweep_at >= self._sweep_period()

    def _mark_of(self, front: Stamp | None) -> float | None:
        return comparison.mark(None if front is None else front.at, self._wall_clock())

    def _tell(self, why: Exception) -> None:
        """Log once why every list is a full one."""
        if self._told.is_news(str(why)):
            LOG.info("The changed nodes can't be found, so all nodes are listed: %s", why)

    def _read_each(self, uuids: Sequence[str], where: NodeFilter, fresh: dict[str, Node]) -> bool:
        """Read nodes one by one into ``fresh``.

        :returns: whether each was there; if not, a sweep has to look again.
        """
        settled = True
        for uuid in uuids:
            try:
                node = comparison.as_listed(self._ironic.get_node(uuid), where)
            except exceptions.NodeNotFound:
                node = None
            except exceptions.NodeUnreadable as exc:
                # A full list has it, marked as what it is.
                raise recent_updates.Untold(str(exc)) from exc
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
    # Other lists may be answered when one is answered 500 each time.
    return refused or (answers.is_transient(error) and error.status != 500)
