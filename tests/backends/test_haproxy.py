# SPDX-License-Identifier: Apache-2.0

"""The shipped settings of HAProxy: no request of a process that has ended reaches Ironic late."""

import contextlib
import http.client
import http.server
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_virt.testing.server_process import ServerProcess
from tests.nova_deployment.processes import listens
from tools.real_ironic.ports import free_port

pytestmark = pytest.mark.seldom

SHIPPED = Path(__file__).parents[2] / "etc/deploy/haproxy/ironic.cfg"
SECONDS = 60.0


class Ironic:
    """Keeps the first request until the test releases it.

    :ivar paths: of the requests that have arrived.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.arrived, self.may_go_on = threading.Event(), threading.Event()
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                api.paths.append(self.path)
                api.arrived.set()
                api.may_go_on.wait(SECONDS)
                self.send_response(204)
                self.end_headers()

            do_PUT = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Proxy:
    """HAProxy with the shipped file, before one server that carries out one request at a time."""

    def __init__(self, ironic: Ironic, queue: str) -> None:
        program = shutil.which("haproxy")
        if program is None:
            pytest.skip("haproxy is not installed")
        self.port = free_port()
        directory = Path(tempfile.mkdtemp(prefix="ironic-virt-haproxy-"))
        self._stats = directory / "stats"
        text = SHIPPED.read_text()
        for ours, its in (
            ("127.0.0.1:6385", f"127.0.0.1:{self.port}"),
            ("192.0.2.1:6385 maxconn 8 check", f"127.0.0.1:{ironic.server.server_port} maxconn 1"),
            ("    server api2 192.0.2.2:6385 maxconn 8 check\n", ""),
            ("timeout queue 4s", f"timeout queue {queue}"),
        ):
            assert ours in text
            text = text.replace(ours, its)
        (directory / "cfg").write_text(f"global\n    stats socket {self._stats}\n{text}")
        self._process = ServerProcess(
            [program, "-db", "-f", str(directory / "cfg")],
            directory=directory,
            log=directory / "log",
        )
        deadline = time.monotonic() + SECONDS
        while not listens(self.port):
            assert time.monotonic() < deadline, self._process.log_tail()
            time.sleep(0.05)

    def wait_for_queue(self, length: int) -> None:
        """Return when so many requests wait in it."""
        deadline = time.monotonic() + SECONDS
        while self._queued() != length:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def _queued(self) -> int:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self._stats))
            client.sendall(b"show stat\n")
            rows = client.makefile().read().splitlines()
        names = rows[0].removeprefix("# ").split(",")
        (row,) = (row.split(",") for row in rows[1:] if row.startswith("ironic,BACKEND,"))
        return int(dict(zip(names, row, strict=False))["qcur"])

    def stop(self) -> None:
        self._process.stop()


@contextlib.contextmanager
def proxied(queue: str) -> Iterator[tuple[Ironic, Proxy]]:
    """Ironic busy with a first request."""
    ironic = Ironic()
    proxy = Proxy(ironic, queue)
    first = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=SECONDS)
    try:
        first.request("GET", "/first")
        assert ironic.arrived.wait(SECONDS)
        yield ironic, proxy
    finally:
        ironic.may_go_on.set()
        first.close()
        proxy.stop()
        ironic.server.shutdown()
        ironic.server.server_close()


def change(proxy: Proxy) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=SECONDS)
    connection.request("PUT", "/change", body=b"{}")
    return connection


def test_a_change_whose_sender_has_ended_leaves_the_queue() -> None:
    with proxied("1h") as (ironic, proxy):
        connection = change(proxy)
        proxy.wait_for_queue(1)
        connection.close()
        proxy.wait_for_queue(0)
        ironic.may_go_on.set()
        last = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=SECONDS)
        last.request("GET", "/last")
        assert last.getresponse().status == 204
        last.close()
        assert ironic.paths == ["/first", "/last"]


def test_a_change_leaves_the_queue_after_its_time() -> None:
    with proxied("200ms") as (ironic, proxy), contextlib.closing(change(proxy)) as connection:
        assert connection.getresponse().status == 503
        assert ironic.paths == ["/first"]
