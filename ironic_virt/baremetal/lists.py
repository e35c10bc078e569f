# SPDX-License-Identifier: Apache-2.0

"""Lists of nodes: whole ones, and the short ones that tell what has changed.

All are filtered by Ironic itself; a filter that the server can't apply means
that nothing is asked.  Each method is one request, or one per page.

Thread-safe: it keeps nothing.
"""

from __future__ import annotations

import datetime
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import answers
from ironic_virt.baremetal.connection import Answer
from ironic_virt.baremetal.node import LIST_FIELDS, Node, NodeDecoder, leniently
from ironic_virt.baremetal.sender import Sender
from ironic_virt.baremetal.versions import Feature, Microversion

LOG = logging.getLogger(__name__)

T = TypeVar("T")

FIELD_FEATURES = {
    "conductor_group": Feature.CONDUCTOR_GROUP,
    "shard": Feature.SHARD,
    "retired": Feature.RETIRED,
    "protected": Feature.PROTECTED,
    "instance_name": Feature.INSTANCE_NAME,
}
"""What a server must be able to do to show a field."""

_MOST_RESTARTS = 3


class NodeFilter(msgspec.Struct, frozen=True):
    """Which nodes a list is about; all conditions that are set must hold.

    :ivar conductor_group: ``""`` is the default group, ``None`` any.
    :ivar shard: a shard's key, ``None`` any.
    :ivar provision_state: one state.
    :ivar instance_uuid: the one node with this instance.
    """

    conductor_group: str | None = None
    shard: str | None = None
    provision_state: str | None = None
    instance_uuid: str | None = None

    def features(self) -> list[Feature]:
        """What the server must be able to do to apply the filter."""
        needed = []
        if self.conductor_group is not None:
            needed.append(Feature.CONDUCTOR_GROUP)
        if self.shard is not None:
            needed.append(Feature.SHARD)
        return needed

    def params(self) -> dict[str, str]:
        """The filter as query parameters."""
        return {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None
        }

    def holds(self, node: Node) -> bool:
        """Whether a node that was read by itself passes the filter's group and shard."""
        group = self.conductor_group
        if group is not None and (node.conductor_group or "").lower() != group.lower():
            return False
        return self.shard is None or node.shard == self.shard


class Swept(msgspec.Struct, frozen=True, gc=False):
    """The little that a sweep asks of each node: is it there, and is it free?"""

    uuid: str
    instance_uuid: str | None = None
    provision_state: str | None = None
    maintenance: bool | None = False

    @classmethod
    def of(cls, node: Node) -> Swept:
        """What a sweep would see of a node as it is known."""
        return cls(node.uuid, node.instance_uuid, node.provision_state, node.maintenance)

    def agrees(self, node: Node) -> bool:
        """Whether a node, as known, is as the sweep saw it."""
        return (
            self.instance_uuid == node.instance_uuid
            and self.provision_state == node.provision_state
            and bool(self.maintenance) == node.maintenance
        )


class Page(NamedTuple):
    """The first page of a list.

    :ivar whole: there is nothing after it.
    """

    nodes: list[Node]
    whole: bool


class _SweptPage(msgspec.Struct):
    nodes: list[Swept]
    next: str | None = None


class _Stamp(msgspec.Struct):
    updated_at: Any = None


class _StampPage(msgspec.Struct):
    nodes: list[_Stamp]


_SWEPT = msgspec.json.Decoder(_SweptPage)
_STAMP = msgspec.json.Decoder(_Stamp)
_STAMPS = msgspec.json.Decoder(_StampPage)


class NodeLists:
    """Asks for lists of nodes.

    :param sender: sends the requests.
    :param decoder: reads the nodes.
    """

    def __init__(self, sender: Sender, decoder: NodeDecoder) -> None:
        self._sender = sender
        self._decoder = decoder

    def can_tell_changes(self) -> bool:
        """Whether the server shows when nodes were updated, in a filtered list."""
        return self._sender.versions.has(Feature.DETAIL)

    def whole(
        self,
        where: NodeFilter,
        *,
        fields: Iterable[str] = LIST_FIELDS,
        page_size: int | None = None,
    ) -> list[Node]:
        """All nodes that match; see :meth:`IronicClient.list_nodes`."""
        return _complete(lambda: self.pages(where, fields=fields, page_size=page_size))

    def pages(
        self,
        where: NodeFilter,
        *,
        fields: Iterable[str] = LIST_FIELDS,
        page_size: int | None = None,
    ) -> Iterator[list[Node]]:
        """The same, one page at a time."""
        return self._pages(where, tuple(fields), self._decoder.page, page_size)

    def sweep(self, where: NodeFilter) -> list[Swept]:
        """All nodes that match, with next to nothing of each.

        :raises IronicError: any page failed; there is no partial result.
        """
        return _complete(lambda: self._pages(where, Swept.__struct_fields__, self._swept_page))

    def last_updated(self, where: NodeFilter, limit: int) -> Page:
        """The nodes that were updated last, in that order; those that never were come last."""
        return self._first_page(where, "updated_at", limit)

    def last_created(self, where: NodeFilter, limit: int) -> Page:
        """The nodes that were created last."""
        return self._first_page(where, "id", limit)

    def newest_update(self, where: NodeFilter) -> float | None:
        """When any of the nodes was last updated, in seconds since the epoch by Ironic's clocks.

        :returns: ``None`` if none ever was.
        """
        params = where.params() | {
            "detail": "true",
            "limit": "1",
            "sort_key": "updated_at",
            "sort_dir": "desc",
        }
        version = self._version(where, Feature.DETAIL)
        answer = self._sender.read("/nodes", version=str(version), params=params)
        page = answers.content(answer, _stamps_in, "a page of nodes", path="/nodes")
        return _moment(page.nodes[0].updated_at) if page.nodes else None

    def updated_at(self, uuid: str) -> float | None:
        """When a node was updated, in seconds since the epoch; ``None`` for never.

        :raises NodeNotFound: Ironic has no such node.
        """
        path = f"/nodes/{urllib.parse.quote(uuid, safe='')}"
        version = str(self._sender.versions.carrying())
        answer = self._sender.read(path, version=version, node=uuid)
        stamp = answers.content(answer, _stamp_in, "a node", path=path, node=uuid)
        return _moment(stamp.updated_at)

    def _swept_page(self, body: bytes) -> tuple[list[Swept], str | None]:
        try:
            page = _SWEPT.decode(body)
        except (ValueError, RecursionError):
            # Malformed data costs the node that has it, never the sweep.
            nodes, following = self._decoder.page(body)
            return [Swept.of(node) for node in nodes], following
        return page.nodes, page.next

    def _first_page(self, where: NodeFilter, sort_key: str, limit: int) -> Page:
        params = where.params() | {
            "fields": ",".join(LIST_FIELDS),
            "limit": str(limit),
            "sort_key": sort_key,
            "sort_dir": "desc",
        }
        answer = self._sender.read("/nodes", version=str(self._version(where)), params=params)
        nodes, following = answers.content(
            answer, self._decoder.page, "a page of nodes", path="/nodes"
        )
        return Page(nodes, not following)

    def _pages(
        self,
        where: NodeFilter,
        names: tuple[str, ...],
        decode: Callable[[bytes], tuple[list[T], str | None]],
        page_size: int | None = None,
    ) -> Iterator[list[T]]:
        shown = [FIELD_FEATURES[name] for name in names if name in FIELD_FEATURES]
        version = str(self._version(where, *shown))
        query = where.params() | {"fields": ",".join(names)}
        params: Mapping[str, str] = query
        if page_size is not None:
            params = query | {"limit": str(page_size)}
        while True:
            answer: Answer = self._sender.read("/nodes", version=version, params=params)
            nodes, following = answers.content(answer, decode, "a page of nodes", path="/nodes")
            yield nodes
            if not following:
                return
            last, params = params, _query_of(following) | query
            if params == last:
                raise exceptions.UnexpectedAnswer(
                    "the link to the next page leads to the same page", method="GET", path="/nodes"
                )

    def _version(self, where: NodeFilter, *features: Feature) -> Microversion:
        return self._sender.versions.carrying(*where.features(), *features)


def _complete(pages: Callable[[], Iterator[list[T]]]) -> list[T]:
    """All pages, or an error."""
    for restart in range(_MOST_RESTARTS):
        rows: list[T] = []
        try:
            for page in pages():
                rows += page
            return rows
        except exceptions.NotFound as exc:
            # The marker was deleted between two pages: the list is void.
            if not rows or restart == _MOST_RESTARTS - 1:
                raise
            LOG.info("A node went away while nodes were listed; beginning anew: %s", exc)
    raise AssertionError("unreachable")


def _stamp_in(body: bytes) -> _Stamp:
    return leniently(_STAMP, body, "a node")


def _stamps_in(body: bytes) -> _StampPage:
    return leniently(_STAMPS, body, "a page of nodes")


def _moment(text: Any) -> float | None:
    """A timestamp as Ironic writes it; one that can't be read says nothing."""
    try:
        when = datetime.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    return when.timestamp()


def _query_of(link: str) -> dict[str, str]:
    """The query of a link to the next page.

    Not the rest of it: the host may be one that only a proxy knows.  And not
    as it stands: Ironic leaves all filters out of the link, so that following
    it would list everybody's nodes from page two on.
    """
    parsed = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)
    return {name: values[-1] for name, values in parsed.items()}
