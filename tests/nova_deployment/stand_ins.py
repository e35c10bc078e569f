# SPDX-License-Identifier: Apache-2.0

"""As much of Glance as Nova asks: every image that is named by a UUID is there.

Neutron's stand-in is that of the real Ironic.
"""

import functools
import hashlib
import json
import re
import shutil
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

_IMAGE = re.compile(r"/v2/images/([0-9a-f-]{36})")


def image(uuid: str, file: Path | None = None) -> dict[str, Any]:
    """An image that fits every node.

    :param file: its content, named after its format.
    """
    return {
        "id": uuid,
        "name": "bare metal",
        "status": "active",
        "visibility": "public",
        "owner": "admin",
        "disk_format": file.suffix[1:] if file else "raw",
        "container_format": "bare",
        "min_disk": 0,
        "min_ram": 0,
        "size": file.stat().st_size if file else 1 << 20,
        "checksum": _md5(file) if file else "ab" * 16,
        "protected": False,
        "tags": [],
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "file": f"/v2/images/{uuid}/file",
        "schema": "/v2/schemas/image",
    }


@functools.cache
def _md5(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "md5").hexdigest()


class StandInGlance:
    """A context manager that serves images on 127.0.0.1.

    :param file: what all images contain; else there is nothing to download.
    :param port: any that is free, if 0.
    """

    def __init__(self, file: Path | None = None, port: int = 0) -> None:
        glance = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if file and self.path.endswith("/file"):
                    self._send_content(file)
                    return
                status, answer = answer_to(self.path, glance.url, file)
                payload = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def _send_content(self, file: Path) -> None:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(file.stat().st_size))
                self.end_headers()
                with file.open("rb") as content:
                    shutil.copyfileobj(content, self.wfile)

            def log_message(self, *args: object) -> None:
                """Keep quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Its root, without a slash at the end."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def answer_to(path: str, url: str, file: Path | None = None) -> tuple[HTTPStatus, dict[str, Any]]:
    if path == "/":
        link = {"rel": "self", "href": f"{url}/v2/"}
        return HTTPStatus.OK, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": [link]}]}
    if path == "/v2/schemas/image":
        # What is not named here Nova takes for a custom property.
        properties = {name: {} for name in image("")}
        return HTTPStatus.OK, {"name": "image", "properties": properties}
    if match := _IMAGE.fullmatch(path):
        return HTTPStatus.OK, image(match[1], file)
    return HTTPStatus.NOT_FOUND, {"message": f"this stand-in for Glance has no {path}"}
