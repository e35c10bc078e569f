# SPDX-License-Identifier: Apache-2.0

"""What a service says of itself over HTTP: ``/metrics`` for Prometheus, perhaps ``/healthz``.

``/healthz`` answers 200, or 503 with a line for each thing that is wrong; nothing is asked of
Ironic or of the database for it.  Any other path is 404.

Threads are those of :mod:`threading`, also where eventlet has replaced them.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from wsgiref import simple_server

import prometheus_client

from ironic_virt import exceptions
from ironic_virt.conf import ironic as ironic_conf

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication

    from oslo_config import cfg

_TEXT = [("Content-Type", "text/plain; charset=utf-8")]


def application(
    registry: prometheus_client.CollectorRegistry,
    troubles: Callable[[], Sequence[str]] | None = None,
) -> WSGIApplication:
    """The pages.

    :param troubles: says what is wrong, a sentence each; without it there is no ``/healthz``.
    """
    metrics = prometheus_client.make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO")
        if path == "/metrics":
            shown: Iterable[bytes] = metrics(environ, start_response)
            return shown
        if path == "/healthz" and troubles is not None:
            problems = troubles()
            start_response("503 Service Unavailable" if problems else "200 OK", list(_TEXT))
            return ["".join(f"{line}\n" for line in problems or ["ok"]).encode()]
        start_response("404 Not Found", list(_TEXT))
        return [b"not found: see /metrics\n"]

    return answer


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # The base class's own asks DNS for the name, which may take as long as DNS does.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _Quiet(simple_server.WSGIRequestHandler):
    # Seconds after which a client that sends nothing is given up.
    timeout = 30

    def log_message(self, *args: Any) -> None:
        """Log nothing: Prometheus asks again and again."""


@contextlib.contextmanager
def served(conf: cfg.ConfigOpts, pages: WSGIApplication) -> Iterator[None]:
    """Serve the pages in a thread while the block runs, where ``[ironic] metrics_port`` says.

    :raises InvalidConfiguration: one can't listen there.
    """
    host, port = conf[ironic_conf.GROUP].metrics_host, conf[ironic_conf.GROUP].metrics_port
    try:
        (family, *_rest), *_others = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        kind: Any = type("Server", (_Server,), {"address_family": family})
        server: simple_server.WSGIServer = simple_server.make_server(
            host, port, pages, kind, _Quiet
        )
    except OSError as error:
        raise exceptions.InvalidConfiguration(
            "[ironic] metrics_port", f"can't listen on {host}:{port}: {error}"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="ironic-virt-status", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
