# SPDX-License-Identifier: Apache-2.0

"""What a node's management interface can be told to do, and what drivers have noted.

Thread-safe: it keeps nothing.
"""

from __future__ import annotations

import datetime
import urllib.parse
from typing import Any, NoReturn

import msgspec

from ironic_virt import exceptions
from ironic_virt.baremetal import answers
from ironic_virt.baremetal.node import leniently
from ironic_virt.baremetal.sender import Sender


class _Noted(msgspec.Struct):
    driver_internal_info: dict[str, Any] | None = None


_NOTED = msgspec.json.Decoder(_Noted)


class Management:
    """The management interfaces of one Ironic's nodes.

    :param sender: sends the requests.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def inject_nmi(self, uuid: str) -> None:
        """Send a node a non-maskable interrupt; return when the hardware has taken it.

        A second one may break off what the first one has set off.  So a request whose
        reply is lost is not sent again.

        :raises BadRequest: the node's hardware type can't do it.
        :raises IronicError: among others when nobody can tell whether it was sent.
        """
        path = f"/nodes/{urllib.parse.quote(uuid, safe='')}/management/inject_nmi"

        def unknown() -> NoReturn:
            raise exceptions.IronicError(
                "the reply was lost, so the NMI may have been injected or not; it was not "
                "asked for a second time",
                node=uuid,
                method="PUT",
                path=path,
            )

        self._sender.change(
            "PUT",
            path,
            version=str(self._sender.versions.carrying()),
            json={},
            node=uuid,
            applied=unknown,
            result=lambda _: True,
        )

    def power_changed_at(self, uuid: str) -> datetime.datetime | None:
        """When Ironic last switched a node on or off, or rebooted it.

        :returns: in UTC; ``None``: it never has, or has not noted it.
        """
        path = f"/nodes/{urllib.parse.quote(uuid, safe='')}"
        answer = self._sender.read(
            path,
            version=str(self._sender.versions.carrying()),
            params={"fields": "driver_internal_info"},
            node=uuid,
        )
        noted = answers.content(answer, _noted_in, "a node", path=path, node=uuid)
        text = (noted.driver_internal_info or {}).get("last_power_state_change")
        try:
            return datetime.datetime.fromisoformat(str(text)).replace(tzinfo=datetime.UTC)
        except ValueError:
            return None


def _noted_in(body: bytes) -> _Noted:
    return leniently(_NOTED, body, "a node")
