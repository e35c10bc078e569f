# SPDX-License-Identifier: Apache-2.0

"""The events that Ironic's conductors have recorded for a node."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ironic_virt import exceptions, logs
from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.http.requests import Call, Sender, path_of

ERROR = "ERROR"


class NodeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One of a node's events.

    :ivar created_at: when it was written down, in ISO 8601, whole seconds.
    :ivar severity: ``ERROR`` or ``INFO``.
    :ivar event: what happened, in the conductor's words.
    :ivar event_type: what was being done, ``deploying`` for instance.
    :ivar conductor: the host name of the conductor that wrote it.
    """

    uuid: str
    created_at: str | None = None
    severity: str | None = None
    event: str | None = None
    event_type: str | None = None
    conductor: str | None = None


class _Page(msgspec.Struct):
    history: list[NodeEvent]


_PAGE = answers.make_reader(_Page, "a node's history")


class History:
    """The nodes' history in one Ironic.

    Thread-safe: it keeps nothing.

    :param sender: sends the requests.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def newest(self, node: str, limit: int) -> list[NodeEvent]:
        """A node's last events, the newest first; one request or two.

        :param node: its uuid.
        :param limit: how many at most.
        """
        # Only a list in detail has all of an event.
        detail = {"detail": "true"}
        try:
            events = self._read(node, {**detail, "sort_dir": "desc", "limit": str(limit)})
        except exceptions.BadRequest:
            # Ironic 2024.1 can't sort, and begins with the oldest.
            events = self._read(node, detail)[: -limit - 1 : -1]
        return [msgspec.structs.replace(event, event=logs.reason(event.event)) for event in events]

    def _read(self, node: str, params: Mapping[str, str]) -> list[NodeEvent]:
        call = Call("GET", path_of("nodes", node, "history"), params, node=node)
        return self._sender.read(call, _PAGE).history
