# SPDX-License-Identifier: Apache-2.0

"""Ironic's allocations: having it reserve one of several nodes, and giving that up.

An allocation is made for an instance and has the instance's uuid, so there is never
a second one: a request that is sent again finds what the first one made.  Ironic
matches by resource class and traits alone and knows nothing of shards or conductor
groups, so it is always told which nodes it may take.

It decides after it has answered: an allocation is ``allocating`` at first, and then
``active``, with a node, or in ``error``.  Waiting for that is the caller's affair.

Thread-safe: it keeps nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from ironic_virt import exceptions, logs
from ironic_virt.baremetal.http import answers, paging
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.http.sender import Sender, path_of

_PATH = "/allocations"

ALLOCATING = "allocating"
ACTIVE = "active"
ERROR = "error"


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation of a node, as Ironic has it.

    :ivar uuid: also the ``instance_uuid`` of its node.
    :ivar state: ``allocating``, ``active`` or ``error``.
    :ivar node_uuid: the node that it has; ``None`` while it has none.
    :ivar last_error: why it has none.
    :ivar extra: what its maker has noted.
    """

    uuid: str
    state: str | None = None
    node_uuid: str | None = None
    resource_class: str | None = None
    candidate_nodes: list[str] | None = None
    last_error: str | None = None
    extra: dict[str, Any] | None = None


class _Page(msgspec.Struct):
    allocations: list[Allocation]
    next: str | None = None


_ONE = msgspec.json.Decoder(Allocation)
_PAGE = msgspec.json.Decoder(_Page)


class Allocations:
    """The allocations of one Ironic.

    :param sender: sends the requests.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self,
        uuid: str,
        *,
        resource_class: str,
        candidate_nodes: Collection[str],
        traits: Collection[str] = (),
        extra: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Allocation:
        """Ask Ironic to reserve one of several nodes.

        :param uuid: the instance's.
        :param candidate_nodes: uuids of nodes; one that Ironic doesn't have is refused.
        :param traits: those that the node must have; it may have more.
        :param extra: to be noted with it.
        :returns: the allocation as it is now; one that was there before is returned
            as it was made, whatever is asked for now.
        :raises ValueError: there are no candidates: Ironic would take any node.
        :raises BadRequest: among others if a candidate doesn't exist.
        """
        if not candidate_nodes:
            raise ValueError(f"no candidates for allocation {uuid}: Ironic would take any node")
        body: dict[str, Any] = {
            "uuid": uuid,
            "resource_class": resource_class,
            "candidate_nodes": list(candidate_nodes),
            "traits": sorted(traits),
            "extra": dict(extra or {}),
        }
        if name is not None:
            body["name"] = name
        try:
            return self._sender.change(
                "POST",
                _PATH,
                json=body,
                applied=lambda: self._look(uuid),
                result=lambda answer: _allocation_in(answer, "POST", _PATH),
            )
        except exceptions.Conflict:
            found = self.get(uuid)
            if found is None:
                raise
            return found

    def get(self, uuid: str) -> Allocation | None:
        """An allocation as it is now; ``None`` if Ironic has none of this uuid."""
        path = _path_of(uuid)
        try:
            answer = self._sender.read(path)
        except exceptions.NotFound as exc:
            _confirm_absent(exc, uuid)
            return None
        return _allocation_in(answer, "GET", path)

    def listed(self) -> list[Allocation]:
        """All allocations, also those of other services.

        :raises IronicError: any page failed; there is no partial result.
        """

        def page(params: Mapping[str, str]) -> tuple[list[Allocation], str | None]:
            answer = self._sender.read(_PATH, params=params)
            found = answers.content(answer, _page_in, "a page of allocations", path=_PATH)
            return found.allocations, found.next

        return [row for rows in paging.pages(page, {}, _PATH) for row in rows]

    def delete(self, uuid: str) -> bool:
        """Give a reservation up; its node is free again.

        :returns: whether there was one.
        :raises Conflict: its node is in use, or about to be: tear that down.
        :raises NodeLocked: its node was locked all the time.
        """
        path = _path_of(uuid)
        try:
            return self._sender.change(
                "DELETE",
                path,
                applied=lambda: True if self._look(uuid) is None else None,
                result=lambda _: True,
            )
        except exceptions.NotFound as exc:
            _confirm_absent(exc, uuid)
            return False

    def _look(self, uuid: str) -> Allocation | None:
        path = _path_of(uuid)
        try:
            answer = self._sender.once("GET", path)
        except exceptions.NotFound as exc:
            _confirm_absent(exc, uuid)
            return None
        return _allocation_in(answer, "GET", path)


def _path_of(uuid: str) -> str:
    return path_of("allocations", uuid)


def _confirm_absent(error: exceptions.NotFound, uuid: str) -> None:
    """Raise unless the 404 is Ironic's own: a proxy may send one, too."""
    if not re.search(rf"\bAllocation {re.escape(uuid)} could not be found", error.message):
        raise error


def _allocation_in(answer: Answer, method: str, path: str) -> Allocation:
    return answers.content(answer, _one_in, "an allocation", method=method, path=path)


def _one_in(body: bytes) -> Allocation:
    found = answers.decode_leniently(_ONE, body, "an allocation")
    return msgspec.structs.replace(found, last_error=logs.reason(found.last_error))


def _page_in(body: bytes) -> _Page:
    return answers.decode_leniently(_PAGE, body, "a page of allocations")
