# SPDX-License-Identifier: Apache-2.0

"""As much of Keystone as tempest asks for: everyone gets a token, and a catalog of one service."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

_TOKEN = {
    "methods": ["password"],
    "issued_at": "2026-01-01T00:00:00.000000Z",
    "expires_at": "2100-01-01T00:00:00.000000Z",
    "user": {"id": "user", "name": "admin", "domain": {"id": "default", "name": "Default"}},
    "project": {"id": "project", "name": "admin", "domain": {"id": "default", "name": "Default"}},
    "roles": [{"id": "admin", "name": "admin"}],
}


class _Quiet(WSGIRequestHandler):
    def log_message(self, *args: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def keystone(ironic: str) -> Iterator[str]:
    """Serve it on a free port; its URL.

    :param ironic: the URL that the catalog names.
    """
    endpoints = [
        {"id": kind, "interface": kind, "region": "RegionOne", "region_id": "RegionOne"}
        | {"url": ironic}
        for kind in ("public", "internal", "admin")
    ]
    catalog = [{"id": "1", "type": "baremetal", "name": "ironic", "endpoints": endpoints}]
    answer = json.dumps({"token": _TOKEN | {"catalog": catalog}}).encode()

    def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        headers = [("X-Subject-Token", "token"), ("Content-Type", "application/json")]
        start("201 Created", headers)
        return [answer]

    with make_server("127.0.0.1", 0, application, handler_class=_Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v3"
        finally:
            server.shutdown()
            thread.join()
