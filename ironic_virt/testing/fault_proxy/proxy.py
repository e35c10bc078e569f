# SPDX-License-Identifier: Apache-2.0

"""The fault proxy itself: rules before a target, and a record of what passed."""

import contextlib
import re
import socket
import time
from collections.abc import Iterator
from typing import Any, Self

from ironic_virt.testing.fake_ironic.journal import Entry, Journal
from ironic_virt.testing.fault_proxy import server
from ironic_virt.testing.fault_proxy.exchange import Reply, Request
from ironic_virt.testing.fault_proxy.faults import Fault, Hang
from ironic_virt.testing.fault_proxy.rules import Rule, Rules


class FaultProxy:
    """An HTTP proxy in front of an Ironic, for the time of a ``with`` block.  Thread-safe.

    Without a rule it passes everything on.  Links in answers lead to the proxy, so that
    paging stays behind it.  If the target does not answer, the client gets a 502.

    :param target: URL of the Ironic, without the version.
    :param host: address to listen on.
    :param port: 0 for any free one.
    :param timeout: seconds that the target may take for each step of an answer.
    :param remember: how many requests to keep in the record; None for all.
    :raises ValueError: if the target is not a URL.
    :raises OSError: from :meth:`start`, if it can't listen there.
    :ivar rules: in the order in which they apply; the first is next to the client.
    :ivar requests: what passed, each when its answer is sent, and a request that hangs when it
        begins to.  ``status`` is the answer's, also if a fault kept it from the client, and 0
        if there was none; ``fault`` has the kinds of all faults that struck, with ``+`` between
        them.
    """

    def __init__(
        self,
        target: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        timeout: float = 300,
        remember: int | None = None,
    ) -> None:
        if not re.match(r"https?://[^/]", target):
            raise ValueError(f"{target!r} is not an http or https URL")
        self.rules = Rules()
        self.requests = Journal(remember)
        self._target = target.rstrip("/")
        self._links = re.compile(re.escape(self._target.encode()) + rb'(?=[/"?])')
        self._address = (host, port)
        self._timeout = timeout
        self._holder: socket.socket | None = None
        self._connections: server.Connections | None = None

    @property
    def port(self) -> int:
        """The port, once started; the same after :meth:`away`."""
        return self._address[1]

    @property
    def url(self) -> str:
        """Where it is, without the version, once started."""
        return f"http://{self._address[0]}:{self.port}"

    def add(self, fault: Fault, method: str = ".*", path: str = "", **conditions: Any) -> Rule:
        """Let a fault strike requests from now on.

        :param conditions: the parameters of :class:`~.rules.Rule`.
        """
        return self.rules.add(Rule(fault, method, path, **conditions))

    def start(self) -> Self:
        """Listen; ``with`` does it."""
        # Held meanwhile, so that no other program gets the port.
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._holder.bind(self._address)
            self._address = (self._address[0], self._holder.getsockname()[1])
            self._listen()
        except OSError:
            self._holder.close()
            raise
        return self

    def stop(self) -> None:
        """End all connections and release what hangs, which is not passed on."""
        self._cease()
        if self._holder is not None:
            self._holder.close()
            self._holder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.stop()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Refuse connections for the time of a block, having ended those there were."""
        self._cease()
        try:
            yield
        finally:
            self._listen()

    def _listen(self) -> None:
        proxy = self

        class Handler(server.Handler):
            def reply_to(self, request: Request) -> Reply:
                return proxy._reply_to(request, self.server)

        self._connections = server.Connections(self._address, Handler)

    def _cease(self) -> None:
        connections, self._connections = self._connections, None
        if connections is None:
            return
        connections.closing.set()
        for rule in self.rules:
            rule.fault.wake()
        connections.stop()

    def _reply_to(self, request: Request, connections: server.Connections) -> Reply:
        faults: list[Fault] = []
        hangs = False

        def struck(fault: Fault) -> None:
            nonlocal hangs
            faults.append(fault)
            if isinstance(fault, Hang) and not hangs:
                hangs = True
                self._record(request, 0, faults)

        def send(request: Request) -> Reply:
            reply = server.send(self._target, request, connections, self._timeout)
            return self._linked(reply)

        status = 0
        try:
            reply = self.rules.carry_out(request, send, struck)
            status = reply.status
            return reply
        finally:
            if not hangs:
                self._record(request, status, faults)

    def _linked(self, reply: Reply) -> Reply:
        """The target's answer with links to the proxy."""
        own = self.url.encode()
        location = reply.headers.get("Location")
        if location is not None:
            rewritten = self._links.sub(own, location.encode() + b'"')[:-1]
            reply.headers["Location"] = rewritten.decode()
        if "json" in reply.headers.get("Content-Type", ""):
            return reply.with_body(self._links.sub(own, reply.body))
        return reply

    def _record(self, request: Request, status: int, faults: list[Fault]) -> None:
        path, _, query = request.path.partition("?")
        kinds = "+".join(fault.kind for fault in faults)
        version = request.headers.get("X-OpenStack-Ironic-API-Version", "")
        self.requests.add(
            Entry(
                method=request.method,
                path=path,
                query=query,
                version=version,
                body=request.json(),
                status=status,
                fault=kinds or None,
                when=time.time(),
            )
        )
