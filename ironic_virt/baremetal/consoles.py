# SPDX-License-Identifier: Apache-2.0

"""Ironic's consoles of nodes: switching them on and off, and where they are.

Any API version has them.  Switching is done after Ironic has answered; waiting for that,
by :attr:`Node.console_enabled`, is the caller's affair.

Ask sparingly: with IPMI, each time that Ironic 39.0.0 is asked where an enabled console is, it
ends the session in progress, and takes several seconds.
"""

from __future__ import annotations

import dataclasses

import msgspec

from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.http.requests import Call, Sender, path_of


@dataclasses.dataclass(frozen=True, slots=True)
class ConsoleInfo:
    """The state of a node's console.

    :ivar kind: ``socat``, ``vnc``, ...; ``None``: off, or it has nothing to say of it.
    :ivar url: with ``vnc`` that of Ironic's own proxy, with a token: never logged.
    """

    enabled: bool
    kind: str | None = None
    url: str | None = dataclasses.field(default=None, repr=False)


class _Info(msgspec.Struct):
    type: str | None = None
    url: str | None = None


class _Console(msgspec.Struct):
    console_enabled: bool
    console_info: _Info | None = None


class _VncAddress(msgspec.Struct):
    vnc_host: str | None = None
    vnc_port: int | None = None


class _Notes(msgspec.Struct):
    driver_internal_info: _VncAddress


_CONSOLE = answers.make_reader(_Console, "a console")
_NOTES = answers.make_reader(_Notes, "a node")


class Consoles:
    """The consoles of one Ironic's nodes.

    :param sender: sends the requests.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, node: str) -> ConsoleInfo:
        """Whether a node's console is on, and where.

        :raises BadRequest: the node's ``driver_info`` lacks something.
        """
        call = Call("GET", _path(node), node=node, is_costly=True)
        console = self._sender.read(call, _CONSOLE)
        info = console.console_info or _Info()
        return ConsoleInfo(console.console_enabled, info.type, info.url)

    def vnc_address(self, node: str) -> tuple[str | None, int | None]:
        """Host and port of a VNC server, where Ironic's own proxy finds it."""
        call = Call("GET", path_of("nodes", node), fields=["driver_internal_info"], node=node)
        notes = self._sender.read(call, _NOTES).driver_internal_info
        return notes.vnc_host, notes.vnc_port

    def switch(self, node: str, on: bool) -> None:
        """Ask for a console to be switched on or off; if it is so already, nothing happens.

        :raises BadRequest: the node has none, or its ``driver_info`` lacks something.
        """
        self._sender.change(
            Call("PUT", _path(node), json={"enabled": on}, node=node),
            # Asking twice does no harm, and while it is being done the node is locked.
            lambda: None,
            answers.accepted,
        )


def _path(node: str) -> str:
    return path_of("nodes", node, "states", "console")
