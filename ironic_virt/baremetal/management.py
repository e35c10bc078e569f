# SPDX-License-Identifier: Apache-2.0

"""Requests to a node's management interface."""

from __future__ import annotations

import datetime
from typing import Any, NoReturn

import msgspec

from ironic_virt import exceptions
from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.http.requests import Call, Sender, path_of

_BROKE_OFF = 500


class _Noted(msgspec.Struct):
    driver_internal_info: dict[str, Any] | None = None


_NOTED = answers.make_reader(_Noted, "a node")


class Management:
    """The management interfaces of one Ironic's nodes.

    :param sender: sends the requests.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def inject_nmi(self, uuid: str) -> None:
        """Send a node a non-maskable interrupt; return when the hardware has taken it.

        A second one may break off what the first one has set off.  So a request whose
        reply is lost, or that Ironic broke off at, is not sent again.

        :raises BadRequest: the node's hardware type can't do it.
        :raises IronicError: among others when it is not known whether it was sent.
        """
        path = path_of("nodes", uuid, "management", "inject_nmi")

        def unknown(
            why: str = "the reply was lost", cause: exceptions.IronicError | None = None
        ) -> NoReturn:
            raise exceptions.IronicError(
                f"{why}, so the NMI may have been injected or not; it was not asked for a "
                "second time. Ask again if no dump comes",
                node=uuid,
                request_id=cause.request_id if cause else None,
                method="PUT",
                path=path,
            )

        try:
            self._sender.change(
                Call("PUT", path, json={}, node=uuid),
                unknown,
                answers.accepted,
                final=lambda error: error.status == _BROKE_OFF,
            )
        except exceptions.IronicError as exc:
            # The last try: nothing checks it afterwards.
            if not answers.may_have_been_applied(exc):
                raise
            # Of a hardware that did not answer in time Ironic says no more than that.
            broke_off = f"Ironic broke off ({exc.message})"
            unknown(broke_off if exc.status == _BROKE_OFF else "the reply was lost", exc)

    def power_changed_at(self, uuid: str) -> datetime.datetime | None:
        """When Ironic last switched a node on or off, or rebooted it.

        :returns: in UTC; ``None``: it never has, or has not noted it.
        """
        call = Call("GET", path_of("nodes", uuid), fields=["driver_internal_info"], node=uuid)
        noted = self._sender.read(call, _NOTED)
        text = (noted.driver_internal_info or {}).get("last_power_state_change")
        try:
            return datetime.datetime.fromisoformat(str(text)).replace(tzinfo=datetime.UTC)
        except ValueError:
            return None
