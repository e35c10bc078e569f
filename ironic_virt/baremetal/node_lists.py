# SPDX-License-Identifier: Apache-2.0

"""Lists of nodes: whole ones, and the short ones that tell what has changed.

All are filtered by Ironic itself.  The fields that are filtered by are asked for as well: a page
with a node that the filter leaves out is refused, since then something has dropped the filter.
A node whose shard only looks the same to Ironic's database is left out.
Each method is one request, or one per page.

Thread-safe: it keeps nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.http import answers, paging
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.http.requests import Call, Sender, path_of
from ironic_virt.baremetal.node import LIST_FIELDS, Node
from ironic_virt.baremetal.node_decoder import NodeDecoder
from ironic_virt.baremetal.node_filter import NodeFilter, RowT

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_RESTARTS = 3


SWEPT_FIELDS = ("uuid", "instance_uuid", "provision_state", "maintenance")


class Swept(msgspec.Struct, frozen=True, gc=False):
    """The little that a sweep asks of each node: is it there, and is it free?

    :ivar conductor_group: only if it is filtered by, and the shard likewise.
    :ivar malformed: names of fields that could not be read.
    """

    uuid: str
    instance_uuid: str | None
    provision_state: str | None
    maintenance: bool | None
    conductor_group: str | None = None
    shard: str | None = None
    malformed: tuple[str, ...] = ()

    @classmethod
    def of(cls, node: Node) -> Swept:
        """What a sweep would see of a node as it is known."""
        return cls(
            node.uuid,
            node.instance_uuid,
            node.provision_state,
            node.maintenance,
            node.conductor_group,
            node.shard,
            node.malformed,
        )

    def agrees(self, node: Node) -> bool:
        """Whether a node, as known, is as the sweep saw it."""
        # A row that can't be read says no more than that the node is there.
        return bool(self.malformed) or (
            self.provision_state == node.provision_state
            and self.instance_uuid == node.instance_uuid
            and (self.maintenance or False) == node.maintenance
        )


class Page(NamedTuple):
    """The first page of a list.

    :ivar whole: there is nothing after it.
    """

    nodes: list[Node]
    whole: bool


class Listed(NamedTuple, Generic[T]):
    """A whole list.

    :ivar pages: how many requests it took.
    """

    nodes: list[T]
    pages: int


class Stamp(NamedTuple):
    """When a node was last updated, by Ironic's clocks.

    :ivar at: seconds since the epoch; ``None`` for never.
    """

    uuid: str
    at: float | None


class StampedPage(NamedTuple):
    """The first page of a list in detail, as other lists show the nodes.

    :ivar stamps: when each was updated, in the same order; also of nodes that are left out.
    :ivar whole: there is nothing after it.
    """

    nodes: list[Node]
    stamps: list[Stamp]
    whole: bool


class _SweptPage(msgspec.Struct):
    nodes: list[Swept]
    next: str | None = None


class _Stamp(msgspec.Struct):
    uuid: str
    updated_at: Any = None


class _StampPage(msgspec.Struct):
    nodes: list[_Stamp]


class _Shard(msgspec.Struct):
    name: str | None = None


class _Shards(msgspec.Struct):
    shards: list[_Shard]


_SHARDS = answers.make_reader(_Shards, "a list of shards")
_SWEPT = msgspec.json.Decoder(_SweptPage)
_STAMP = answers.make_reader(_Stamp, "a node")
_STAMPS = answers.make_reader(_StampPage, "a page of nodes")


class NodeLists:
    """Asks for lists of nodes.

    :param sender: sends the requests.
    :param decoder: reads the nodes.
    """

    def __init__(self, sender: Sender, decoder: NodeDecoder) -> None:
        self._sender = sender
        self._decoder = decoder

    def listed(self, where: NodeFilter, fields: Iterable[str] | None = None) -> Listed[Node]:
        """All nodes that match; see :meth:`IronicClient.list_nodes`."""
        names = self._decoder.list_fields if fields is None else tuple(fields)
        return _complete(lambda: self._pages(where, names, self._decoder.page))

    def sweep(self, where: NodeFilter) -> list[Swept]:
        """All nodes that match, with next to nothing of each.

        :raises IronicError: any page failed; there is no partial result.
        """
        whole = _complete(lambda: self._pages(where, SWEPT_FIELDS, self._swept_page))
        return whole.nodes

    def last_updated(self, where: NodeFilter, limit: int, *, marker: str | None = None) -> Page:
        """The nodes that were updated last, in that order, those of one second by id.

        Those that never were come last, on PostgreSQL first; behind a marker
        they are left out.

        :param marker: the uuid of a node that was updated: begin behind it.
        :raises NotFound: Ironic has no node with the marker's uuid.
        """
        return self._first_page(where, "updated_at", limit, marker)

    def last_updated_in_detail(self, where: NodeFilter, limit: int) -> StampedPage:
        """The nodes updated last, with their times; a row costs Ironic four times as much."""

        def parse(answer: Answer) -> StampedPage:
            nodes, link = self._decoder.page(answer.body, self._decoder.list_fields)
            return StampedPage(
                [as_listed(node, where) for node in self._passing(where, nodes)],
                [Stamp(stamp.uuid, _moment(stamp.updated_at)) for stamp in _STAMPS(answer).nodes],
                not link,
            )

        return self._sender.read(_in_detail(where, limit, "desc"), parse)

    def last_created(self, where: NodeFilter, limit: int) -> Page:
        """The nodes that were created last."""
        return self._first_page(where, "id", limit)

    def first_update(self, where: NodeFilter, direction: str) -> Stamp | None:
        """The node that comes first by the time of its update; ``None``: there are no nodes.

        :param direction: ``desc``: those updated last come first; ``asc``: last.
        """
        page = self._sender.read(_in_detail(where, 1, direction), _STAMPS)
        if not page.nodes:
            return None
        return Stamp(page.nodes[0].uuid, _moment(page.nodes[0].updated_at))

    def updated_at(self, uuid: str) -> float | None:
        """When a node was updated, in seconds since the epoch; ``None`` for never.

        :raises NodeNotFound: Ironic has no such node.
        """
        call = Call("GET", path_of("nodes", uuid), node=uuid)
        return _moment(self._sender.read(call, _STAMP).updated_at)

    def shards(self) -> list[str]:
        """The names of the shards that have a node, sorted.

        :raises IronicError: they could not be listed.
        """
        shards = self._sender.read(Call("GET", "/shards"), _SHARDS).shards
        return sorted(shard.name for shard in shards if shard.name)

    def _swept_page(self, body: bytes, fields: Collection[str]) -> tuple[list[Swept], str | None]:
        try:
            page = _SWEPT.decode(body)
        except answers.UNREADABLE:
            # Malformed data costs the node that has it, never the sweep.
            nodes, following = self._decoder.page(body, fields)
            return [Swept.of(node) for node in nodes], following
        return page.nodes, page.next

    def _first_page(
        self, where: NodeFilter, sort_key: str, limit: int, marker: str | None = None
    ) -> Page:
        params = where.params() | {
            "limit": str(limit),
            "sort_key": sort_key,
            "sort_dir": "desc",
        }
        if marker is not None:
            params["marker"] = marker

        def parse(answer: Answer) -> Page:
            nodes, link = self._decoder.page(answer.body, self._decoder.list_fields)
            return Page(self._passing(where, nodes), not link)

        return self._sender.read(
            Call("GET", "/nodes", params, _fields_of(self._decoder.list_fields, where)), parse
        )

    def _passing(self, where: NodeFilter, rows: list[RowT]) -> list[RowT]:
        """The rows that pass a filter, and a warning of those that only look so to Ironic."""
        others = {row.uuid: row for row in where.others(rows)}
        for row in others.values():
            if self._decoder.warned.is_news((row.uuid, row.shard)):
                LOG.warning(
                    "[shard-alike] Node %s is in shard %r, which Ironic's database takes for "
                    "shard %r of this service; it is left alone. Rename one of the two shards",
                    *(row.uuid, row.shard, where.shard),
                )
        return [row for row in rows if row.uuid not in others] if others else rows

    def _pages(
        self,
        where: NodeFilter,
        names: tuple[str, ...],
        decode: Callable[[bytes, Collection[str]], tuple[list[RowT], str | None]],
    ) -> Iterator[list[RowT]]:
        def parse(answer: Answer) -> tuple[list[RowT], str | None]:
            return decode(answer.body, [name for name in names if name not in answer.lacking])

        call = Call("GET", "/nodes", where.params(), _fields_of(names, where))
        return (
            self._passing(where, rows) for rows in paging.read_pages(self._sender, call, parse)
        )


def _fields_of(names: Iterable[str], where: NodeFilter) -> list[str]:
    """The fields to ask for: also those that show whether Ironic has filtered."""
    return list(dict.fromkeys((*names, *where.fields())))


def _in_detail(where: NodeFilter, limit: int, direction: str) -> Call:
    """The nodes by the time of their last update, with that time."""
    order = {"limit": str(limit), "sort_key": "updated_at", "sort_dir": direction}
    return Call("GET", "/nodes", where.params() | {"detail": "true"} | order)


def _complete(pages: Callable[[], Iterator[list[T]]]) -> Listed[T]:
    """All pages, or an error."""
    for restart in range(_MOST_RESTARTS):
        rows: list[T] = []
        count = 0
        try:
            for page in pages():
                rows += page
                count += 1
            return Listed(rows, count)
        except exceptions.NotFound as exc:
            # The marker was deleted between two pages: the list is void.
            if not rows or restart == _MOST_RESTARTS - 1:
                raise
            LOG.info("A node was deleted while nodes were listed; the list begins again: %s", exc)
    raise AssertionError("unreachable")


def as_listed(node: Node, where: NodeFilter) -> Node:
    """Reduce a node to the fields that an ordinary list shows."""
    fields = {*LIST_FIELDS, *where.fields(), "failure_domain"}
    shown = {name: getattr(node, name) for name in fields}
    malformed = tuple(name for name in node.malformed if name in fields)
    return Node(**shown, malformed=malformed)


def _moment(text: Any) -> float | None:
    """A timestamp as Ironic writes it; one that can't be read says nothing."""
    try:
        when = datetime.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    return when.timestamp()
