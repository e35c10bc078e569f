# SPDX-License-Identifier: Apache-2.0

"""Ironic over TLS behind a proxy that is reached over TLS, too: TLS inside TLS."""

import contextlib
import http.server
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_virt import conf
from ironic_virt.baremetal.http.connection import KeystoneChannel

SECONDS = 30.0


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of this machine, with its key in the same file."""
    path = tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(tmp_path / "key.pem"), "-out", str(path)),
        ],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + (tmp_path / "key.pem").read_text())
    return path


def context(certificate: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate)
    return made


@pytest.fixture
def ironic(certificate: Path) -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context(certificate).wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def proxy(certificate: Path) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                accepted, _ = listener.accept()
                with context(certificate).wrap_socket(accepted, server_side=True) as client:
                    request = b""
                    while b"\r\n\r\n" not in request:
                        request += client.recv(65536)
                    host, _, port = request.split()[1].decode().partition(":")
                    with socket.create_connection((host, int(port)), SECONDS) as server:
                        client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                        back = threading.Thread(target=copy, args=(server, client), daemon=True)
                        back.start()
                        copy(client, server)
                        back.join(SECONDS)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]


def test_a_guarded_change_is_sent(certificate, ironic, proxy, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("https_proxy", f"https://127.0.0.1:{proxy}")
    for name in ("no_proxy", "NO_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "service.conf"
    path.write_text(
        "[ironic]\nauth_type = none\n"
        f"endpoint_override = https://127.0.0.1:{ironic}/v1\ncafile = {certificate}\n"
    )
    channel = KeystoneChannel.from_conf(conf.load([str(path)]), lambda: 7.5)
    assert channel.send("PUT", "/nodes/n/states/power", json={"target": "power on"}).status == 200
