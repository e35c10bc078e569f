# SPDX-License-Identifier: Apache-2.0

"""A proxy in front of Ironic that goes away, or lets single requests fail, as a test wants."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable
from typing import Self

import requests

from tests.ports import reserved_port

_DROPPED = frozenset({"connection", "content-encoding", "content-length", "transfer-encoding"})


class Proxy:
    """Passes requests on; Ironic's links then lead to the proxy, too.

    :param url: Ironic's.
    :ivar fails: asked of each request's path and query; those for which it is true are
        answered with 500.
    """

    def __init__(self, url: str) -> None:
        self._ironic = url
        self._port = 0
        self._stack = contextlib.ExitStack()
        self._server: http.server.ThreadingHTTPServer | None = None
        self.fails: Callable[[str], bool] = lambda path: False

    @property
    def url(self) -> str:
        """Where it is; the same after a pause."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        # Nobody else is given it during a pause.
        self._port = self._stack.enter_context(reserved_port())
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()
        self._stack.close()

    def start(self) -> None:
        """Listen, again where it listened before."""
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_one(self) -> None:
                proxy._answer(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from now on.  May be called again."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length) if length else None
        if self.fails(handler.path):
            handler.send_error(500, "no luck today")
            return
        answer = requests.request(
            handler.command,
            self._ironic + handler.path,
            data=body,
            # With the host that was asked for, which Ironic makes links of.
            headers=dict(handler.headers),
            timeout=300,
        )
        handler.send_response(answer.status_code)
        for name, value in answer.headers.items():
            if name.lower() not in _DROPPED:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(answer.content)))
        handler.end_headers()
        handler.wfile.write(answer.content)
