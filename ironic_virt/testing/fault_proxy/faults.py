# SPDX-License-Identifier: Apache-2.0

"""Faults: what happens to a request, to its answer, or to the connection.

A fault gets the request and what passes it on, and returns the answer.  Those about the
content of answers are in ``contents``.
"""

import dataclasses
import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from werkzeug.datastructures import Headers

from ironic_virt.testing.fake_ironic.errors import injected_body
from ironic_virt.testing.fault_proxy.exchange import Closing, Reply, Request, json_reply

PassOn = Callable[[Request], Reply]


class Fault:
    """One kind of trouble; subclass it for another one.

    :cvar kind: its name in the record of requests.
    """

    kind: ClassVar[str]

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        """Answer a request.

        :param pass_on: sends it to Ironic, or to the next fault.
        :raises Closing: if the proxy closes meanwhile.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Let go what waits, now and later."""

    def wake(self) -> None:
        """Make waiting requests check whether the proxy closes."""


@dataclasses.dataclass(frozen=True)
class Delay(Fault):
    """Pass the request on ``seconds`` later."""

    kind = "delay"
    seconds: float

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        if request.closing.wait(self.seconds):
            raise Closing
        return pass_on(request)


class Hang(Fault):
    """Keep the request until :meth:`release`; pass it on then, even if its client has gone.

    If the proxy closes first, the request is not passed on.

    :param applied: pass the request on at once, and keep the answer.
    """

    kind = "hang"

    def __init__(self, applied: bool = False) -> None:
        self._applied = applied
        self._released = False
        self._changed = threading.Condition()

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        reply = pass_on(request) if self._applied else None
        with self._changed:
            self._changed.wait_for(lambda: self._released or request.closing.is_set())
        if request.closing.is_set():
            raise Closing
        return pass_on(request) if reply is None else reply

    def release(self) -> None:
        with self._changed:
            self._released = True
            self._changed.notify_all()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


@dataclasses.dataclass(frozen=True)
class Drip(Fault):
    """Send the body byte by byte, ``seconds`` apart."""

    kind = "drip"
    seconds: float

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        return dataclasses.replace(pass_on(request), pause=self.seconds)


class ResetBefore(Fault):
    """Reset the connection; Ironic never sees the request."""

    kind = "reset-before"

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        return Reply(0, Headers(), reset=True)


class ResetAfter(Fault):
    """Let Ironic carry the request out, and reset the connection instead of the answer."""

    kind = "reset-after"

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        return dataclasses.replace(pass_on(request), reset=True)


@dataclasses.dataclass(frozen=True)
class Truncate(Fault):
    """Announce the whole body, send ``sent`` bytes of it (by default half), and hang up."""

    kind = "truncate"
    sent: int | None = None

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        reply = pass_on(request)
        sent = len(reply.body) // 2 if self.sent is None else self.sent
        return dataclasses.replace(reply, sent=sent)


@dataclasses.dataclass(frozen=True)
class Redirect(Fault):
    """Answer with a redirect to ``url``, to which the path and the query are added.

    Ironic does not see the request.

    :ivar keep_path: if not, the path is left out, and the query with it.
    :ivar keep_query: if not, the query is left out.
    :ivar status: 301, 302, 303, 307 or 308.
    """

    kind = "redirect"
    url: str
    keep_path: bool = True
    keep_query: bool = True
    status: int = 307

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        location = self.url
        if self.keep_path:
            target = urlsplit(request.path)
            location = location.rstrip("/") + target.path
            if self.keep_query and target.query:
                location += f"?{target.query}"
        return Reply(self.status, Headers([("Location", location)]))


@dataclasses.dataclass(frozen=True)
class Status(Fault):
    """Answer with a status; Ironic does not see the request.

    :ivar body: text of an error in Ironic's shape, or JSON, or bytes.
    :ivar headers: such as ``{"Retry-After": "5"}``.
    """

    kind = "status"
    status: int
    body: Any = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        return json_reply(self.status, injected_body(self.status, self.body), self.headers)
