# SPDX-License-Identifier: Apache-2.0

"""The fake Ironic over HTTP: threads, keep-alive, and faults that clients can feel."""

import errno
import select
import socket
import struct
import threading
from types import TracebackType
from typing import Any, Self

from cheroot import wsgi
from cheroot.server import HTTPConnection

from ironic_virt.testing.fake_ironic.app import CONNECTION_FAULTS, FakeIronic, Reply
from ironic_virt.testing.fake_ironic.clock import RealClock

#: Seconds between two checks of a hanging request that its client and the server are there.
_HANG_POLL = 0.2

#: Seconds between two checks whether the server is to stop; cheroot's 0.5 would be most of
#: the time of many tests.
_STOP_POLL = 0.05


class _Connection(HTTPConnection):
    """A connection that can end in a reset."""

    is_reset = False

    def reset(self) -> None:
        """Send RST instead of FIN when it is closed."""
        self.is_reset = True
        linger = struct.pack("ii", 1, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def close(self) -> None:
        if not self.is_reset:
            super().close()
            return
        # Without the shutdown that cheroot does, which would send FIN first.
        self.rfile.close()
        self.socket.close()


class _Gateway(wsgi.Gateway_10):
    """Lets faults reach the client's connection."""

    def get_environ(self) -> Any:
        environ: dict[str, Any] = super().get_environ()  # type: ignore[no-untyped-call]
        environ[CONNECTION_FAULTS] = self._act_out
        return environ

    def _act_out(self, reply: Reply) -> None:
        connection: _Connection = self.req.conn
        kind = reply.fault.kind if reply.fault is not None else ""
        if kind == "truncate":
            lines = [f"HTTP/1.1 {reply.status} Truncated"]
            lines += [f"{name}: {value}" for name, value in reply.headers]
            head = "\r\n".join([*lines, "", ""]).encode()
            connection.socket.sendall(head + reply.body[: len(reply.body) // 2])
        elif kind == "hang":
            self._hang(connection.socket)
        else:
            connection.reset()
        # The server drops a connection that fails so, and says nothing about it.
        raise ConnectionResetError(errno.ECONNRESET, "by an injected fault")

    def _hang(self, connection: socket.socket) -> None:
        while self.req.server.ready:
            readable, _, _ = select.select([connection], [], [], _HANG_POLL)
            if readable and not connection.recv(1, socket.MSG_PEEK):
                return


def _discard(msg: str = "", level: int = 20, traceback: bool = False) -> None:
    """Dropped connections are part of the game; cheroot need not print them."""


class FakeIronicServer:
    """A fake Ironic served over HTTP, from ``with`` to its end.

    :param fake: the fake Ironic; by default a new one on a real clock.
    :param host: address to listen on.
    :param port: 0 for any free one.
    :param threads: how many requests are answered at a time.  Hanging ones
        count.
    :param idle: seconds after which a connection on which nothing is asked is closed;
        a request that is just then sent on it is lost.
    :param options: settings of a new fake Ironic; see :class:`~.settings.Settings`.
    :raises OSError: from :meth:`start`, if the port is taken.
    """

    def __init__(
        self,
        fake: FakeIronic | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        threads: int = 16,
        idle: int = 10,
        **options: Any,
    ) -> None:
        self.fake = fake or FakeIronic(clock=RealClock(), **options)
        self._server = wsgi.Server(
            (host, port), self.fake, numthreads=threads, request_queue_size=128, timeout=idle
        )
        self._server.expiration_interval = _STOP_POLL
        self._server.gateway = _Gateway
        self._server.ConnectionClass = _Connection
        self._server.error_log = _discard  # type: ignore[method-assign]
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port, once started."""
        port: int = self._server.bind_addr[1]
        return port

    @property
    def url(self) -> str:
        """The API's address, without the version, once started."""
        host = str(self._server.bind_addr[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def start(self) -> Self:
        self._server.prepare()
        self._thread = threading.Thread(target=self._server.serve, name="fake-ironic", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.stop()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
