# SPDX-License-Identifier: Apache-2.0

"""Ironic's allocations: having it reserve one of several nodes, and giving that up.

An allocation is made for an instance and has the instance's uuid, so there is never
a second one: a request that is sent again finds what the first one made.  Ironic
matches by resource class and traits alone and knows nothing of shards or conductor
groups, so each request lists the nodes that it may take.

It decides after it has answered: an allocation is ``allocating`` at first, and then
``active``, with a node, or in ``error``.  Waiting for that is the caller's affair.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from ironic_virt import exceptions, logs
from ironic_virt.baremetal.http import answers, paging
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.http.requests import Call, Sender, path_of

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


_ALLOCATION = answers.make_reader(Allocation, "an allocation")
_PAGE = paging.make_reader("allocations", Allocation, "a page of allocations")


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
    ) -> Allocation:
        """Ask Ironic to reserve one of several nodes.

        :param uuid: the instance's.
        :param candidate_nodes: uuids of nodes; one that Ironic doesn't have is refused.
        :param traits: those that the node must have; it may have more.
        :param extra: stored with the allocation.
        :returns: the allocation as it is now; one that existed before is returned as it was
            made, even if the arguments differ.
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
        try:
            return self._sender.change(
                Call("POST", _PATH, json=body), lambda: self.get(uuid), _allocation_in
            )
        except exceptions.Conflict:
            allocation = self.get(uuid)
            if allocation is None:
                raise
            return allocation

    def get(self, uuid: str) -> Allocation | None:
        """An allocation as it is now; ``None`` if Ironic has none of this uuid."""
        try:
            return self._sender.read(Call("GET", path_of("allocations", uuid)), _allocation_in)
        except exceptions.NotFound as exc:
            answers.confirm_absent(exc, f"Allocation {uuid}")
            return None

    def listed(self) -> list[Allocation]:
        """All allocations, also those of other services.

        :raises IronicError: any page failed; there is no partial result.
        """
        return paging.read_all(self._sender, Call("GET", _PATH), _PAGE)

    def delete(self, uuid: str) -> bool:
        """Give a reservation up; its node is free again.

        :returns: whether there was one.
        :raises Conflict: its node is in use, or about to be: tear that down.
        :raises NodeLocked: its node was locked all the time.
        """
        try:
            return self._sender.change(
                Call("DELETE", path_of("allocations", uuid)),
                lambda: True if self.get(uuid) is None else None,
                answers.accepted,
            )
        except exceptions.NotFound as exc:
            answers.confirm_absent(exc, f"Allocation {uuid}")
            return False


def _allocation_in(answer: Answer) -> Allocation:
    allocation = _ALLOCATION(answer)
    return msgspec.structs.replace(allocation, last_error=logs.reason(allocation.last_error))
