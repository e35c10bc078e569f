# SPDX-License-Identifier: Apache-2.0

"""The fault proxy's sockets: a thread for each connection, and none left when it closes."""

import http.client
import http.server
import socket
import socketserver
import struct
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

from werkzeug.datastructures import Headers

from ironic_virt.testing.fake_ironic.errors import ApiError
from ironic_virt.testing.fault_proxy.exchange import Closing, Reply, Request, json_reply

#: Of one connection, and not of what goes through it (RFC 9110, 7.6.1); and what is made again.
_OWN = ("Connection", "Content-Length", "Keep-Alive", "Te", "Transfer-Encoding", "Upgrade")

#: Seconds between the listening thread's checks whether it is to end.
_LOOK = 0.05


class Connections(socketserver.TCPServer):
    """Listens, and can end all that it has accepted.

    :ivar closing: set once it closes.
    """

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type["Handler"]) -> None:
        self.closing = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        super().__init__(address, handler)
        self._listening = threading.Thread(
            target=self.serve_forever, args=(_LOOK,), name="fault-proxy", daemon=True
        )
        self._listening.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self._serve, args=(request, client_address), name="fault-proxy", daemon=True
        )
        with self._lock:
            self._threads.add(thread)
            self._sockets.add(request)
        thread.start()

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            self.forget(request)
            # Without the shutdown of the base class, which sends FIN where a reset is wanted.
            request.close()
            with self._lock:
                self._threads.discard(threading.current_thread())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that break; show what a caller's function raises."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def track(self, sock: socket.socket) -> None:
        """End this one, too, when it closes.

        :raises Closing: if it does already.
        """
        with self._lock:
            if self.closing.is_set():
                raise Closing
            self._sockets.add(sock)

    def forget(self, sock: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(sock)

    def stop(self) -> None:
        """Refuse connections, end those there are, and wait for their threads."""
        self.shutdown()
        self._listening.join()
        self.server_close()
        with self._lock:
            for sock in self._sockets:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
            threads = list(self._threads)
        for thread in threads:
            thread.join()


class Handler(http.server.BaseHTTPRequestHandler):
    """Reads requests from one connection and sends what :meth:`reply_to` returns."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Connections

    def reply_to(self, request: Request) -> Reply:
        raise NotImplementedError

    def _handle(self) -> None:
        if "Transfer-Encoding" in self.headers:
            self.send_error(411, "The fault proxy wants a Content-Length")
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = Headers(self.headers.items())
        request = Request(self.command, self.path, headers, body, self.server.closing)
        try:
            self._send(self.reply_to(request))
        except Closing:
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _handle  # noqa: N815

    def _send(self, reply: Reply) -> None:
        if reply.reset:
            # RST instead of FIN when it is closed.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            return
        lines = [f"HTTP/1.1 {reply.status} {http.client.responses.get(reply.status, 'Unknown')}"]
        lines += [f"{name}: {value}" for name, value in reply.headers if name.title() not in _OWN]
        body = reply.body
        if self.command == "HEAD":
            lines.append(f"Content-Length: {reply.headers.get('Content-Length', len(body))}")
            body = b""
        elif reply.status not in (204, 304):
            lines.append(f"Content-Length: {len(body)}")
        else:
            body = b""
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        sent = body[: reply.sent]
        if reply.pause is None:
            self.wfile.write(head + sent)
        else:
            self.wfile.write(head)
            for place, byte in enumerate(sent):
                if place and self.server.closing.wait(reply.pause):
                    raise Closing
                self.wfile.write(bytes([byte]))
        if reply.sent is not None:
            self.close_connection = True

    def log_message(self, *args: Any) -> None:
        """Say nothing: what passed is recorded."""


def send(target: str, request: Request, connections: Connections, timeout: float) -> Reply:
    """Send a request to the target on a new connection.

    :param target: its URL.
    :param timeout: in seconds, for each step.
    :returns: its answer; 502 if there is none.
    :raises Closing: if the proxy closes meanwhile.
    """
    url = urlsplit(target)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.netloc, timeout=timeout)
    # Links are rewritten in the body, which therefore comes uncompressed.
    dropped = {*_OWN, "Host", "Accept-Encoding"}
    headers = {name: value for name, value in request.headers if name.title() not in dropped}
    try:
        connection.connect()
        sock = connection.sock
        connections.track(sock)
        try:
            path = url.path.rstrip("/") + request.path
            connection.request(request.method, path, request.body or None, headers)
            answer = connection.getresponse()
            return Reply(answer.status, Headers(answer.getheaders()), answer.read())
        finally:
            connections.forget(sock)
    except (OSError, http.client.HTTPException) as exc:
        if connections.closing.is_set():
            raise Closing from None
        error = ApiError(502, f"The fault proxy got no answer from {target}: {exc!r}")
        return json_reply(502, error.body())
    finally:
        connection.close()
