# SPDX-License-Identifier: Apache-2.0

"""Answers over real sockets that come slowly, never end, or are larger than they look."""

import contextlib
import socket
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ironic_virt import conf, exceptions
from ironic_virt.baremetal.http import connection, transport
from ironic_virt.baremetal.http.connection import KeystoneChannel
from tests.ports import reserved_port

MIB = 1 << 20
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EMPTY = OK + b"Content-Length: 2\r\n\r\n{}"
Act = Callable[[socket.socket], None]


class Server:
    """Reads a request on each connection, and lets the test act out the answer.

    :ivar requests: what came, as bytes.
    :ivar broken_off: a peer has gone while it was answered.
    """

    def __init__(self, act: Act) -> None:
        self._act = act
        self.requests: list[bytes] = []
        self.broken_off = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                with peer:
                    self.requests.append(peer.recv(65536))
                    try:
                        self._act(peer)
                    except OSError:
                        self.broken_off.set()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)


Serve = Callable[[Act], Server]
Channel = Callable[..., KeystoneChannel]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[Server] = []

    def start(act: Act) -> Server:
        servers.append(Server(act))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    def of(
        url: str, lines: str = "", *guard: Callable[[], float], seconds: float | None = None
    ) -> KeystoneChannel:
        path = tmp_path / "service.conf"
        path.write_text(f"[ironic]\nauth_type = none\nendpoint_override = {url}\n{lines}\n")
        made = KeystoneChannel.from_conf(conf.load([str(path)]), *guard)
        if seconds is not None:
            # Not by the option: with older keystoneauth1 that takes whole seconds only.
            made._timeout = made._adapter.session.timeout = seconds
        return made

    return of


@pytest.mark.parametrize(
    ("where", "head", "dripping"),
    [
        ("/v1", b"", EMPTY),
        ("/v1", OK + b"Content-Length: 100\r\n\r\n", b"{" + b" " * 98 + b"}"),
        ("/v1", OK + b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\n{}\r\n" * 12 + b"0\r\n\r\n"),
        ("/v1", OK + b"\r\n", b" " * 100),
        ("", OK + b"Content-Length: 100\r\n\r\n", b" " * 100),
    ],
    ids=["headers", "body", "chunks", "until the end", "a discovery"],
)
def test_an_answer_that_drips_is_given_up_at_the_timeout(serve, channel, where, head, dripping):
    def drip(peer: socket.socket) -> None:
        """Send a part at once, and the rest byte by byte: each comes soon, the whole late."""
        peer.sendall(head)
        for index in range(len(dripping)):
            threading.Event().wait(0.1)
            peer.sendall(dripping[index : index + 1])

    server = serve(drip)
    whose = "http://[^/]+/v1/nodes" if where else "http://[^/]+"
    with pytest.raises(
        exceptions.IronicUnreachable, match=rf"no whole answer from {whose} within 0\.4 s"
    ):
        channel(server.url + where, seconds=0.4).send("GET", "/nodes")
    assert server.broken_off.wait(30), "the connection is closed, not left to itself"
    assert len(server.requests) == 1


def test_a_proxy_that_drips_its_answer_is_given_up(serve, channel, monkeypatch) -> None:
    def drip(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 200 Connection established\r\nX-Slow: ")
        while True:
            threading.Event().wait(0.1)
            peer.sendall(b"x")

    proxy = serve(drip)
    monkeypatch.setenv("https_proxy", proxy.url)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(exceptions.IronicUnreachable, match=r"no whole answer .* within 0\.4 s"):
        channel("https://ironic.invalid/v1", seconds=0.4).send("GET", "/nodes")
    assert proxy.broken_off.wait(30)
    assert [request.split()[:2] for request in proxy.requests] == [
        [b"CONNECT", b"ironic.invalid:443"]
    ]


def test_each_request_on_a_kept_connection_has_the_whole_timeout(serve, channel) -> None:
    def act(peer: socket.socket) -> None:
        peer.sendall(EMPTY)
        for _ in range(4):
            assert peer.recv(65536)
            threading.Event().wait(0.15)
            peer.sendall(EMPTY)

    sender = channel(f"{serve(act).url}/v1", seconds=0.4)
    assert [sender.send("GET", "/nodes").body for _ in range(5)] == [b"{}"] * 5


def test_the_addresses_of_a_name_share_the_timeout(serve, channel, monkeypatch) -> None:
    server = serve(lambda peer: peer.sendall(EMPTY))
    port = int(server.url.rpartition(":")[2])
    # Nobody takes what comes to the first address: its queue is full.
    with socket.create_server(("127.0.0.2", port), backlog=0), contextlib.ExitStack() as stack:
        for _ in range(2):
            queued = stack.enter_context(socket.socket())
            queued.setblocking(False)
            queued.connect_ex(("127.0.0.2", port))
        real = socket.getaddrinfo

        def two(host: str, *args: object) -> list[tuple[object, ...]]:
            found = ["127.0.0.2", "127.0.0.1"] if host == "ironic.invalid" else [host]
            return [row for address in found for row in real(address, *args)]  # type: ignore[arg-type]

        monkeypatch.setattr(socket, "getaddrinfo", two)
        sender = channel(f"http://ironic.invalid:{port}/v1", "timeout = 2")
        assert sender.send("GET", "/nodes").body == b"{}"


def endless(piece: bytes, head: bytes = OK) -> Act:
    def act(peer: socket.socket) -> None:
        peer.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            peer.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))

    return act


def bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(bytes(MIB)) for _ in range(size // MIB)) + packer.flush()
    head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    return head + packed


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 MiB are the largest answer."""
    monkeypatch.setattr(connection, "LARGEST_ANSWER", 2 * MIB)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (endless(b" " * 4096), "larger than 2 MiB"),
        (lambda peer: peer.sendall(OK + b"Content-Length: 500000000\r\n\r\n{"), "larger than 2"),
        (lambda peer: peer.sendall(bomb(200 * MIB)), "larger than 2 MiB"),
        (endless(b"x", OK + b"Content-Encoding: br\r\n"), "encoding 'br'"),
        (endless(b"x", OK + b"Content-Encoding: gzip, gzip\r\n"), "encoding 'gzip, gzip'"),
    ],
    ids=["endless", "announced", "compressed", "another coding", "compressed twice"],
)
def test_an_answer_that_is_too_large_is_not_read(serve, channel, small, act, says) -> None:
    sender = channel(f"{serve(act).url}/v1")
    tracemalloc.start()
    try:
        with pytest.raises(exceptions.UnexpectedAnswer, match=says):
            sender.send("GET", "/nodes")
        assert tracemalloc.get_traced_memory()[1] < 32 * MIB
    finally:
        tracemalloc.stop()


def test_what_is_compressed_and_small_enough_is_read(serve, channel, small) -> None:
    server = serve(lambda peer: peer.sendall(bomb(2 * MIB)))
    answer = channel(f"{server.url}/v1").send("GET", "/nodes")
    assert answer.body == bytes(2 * MIB)
    assert b"Accept-Encoding: gzip, deflate\r\n" in server.requests[0]


def test_the_environments_proxies_are_read_once_for_a_server(serve, monkeypatch) -> None:
    # Else the client might use a connection again that is just being closed.
    once = OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n"
    proxy = serve(lambda peer: peer.sendall(once + b"{}"))
    direct = serve(lambda peer: peer.sendall(once + b"[]"))
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    session = transport.session(MIB)
    for _ in range(2):
        assert session.get("http://ironic.example.test/v1").content == b"{}"
        assert session.get(f"{direct.url}/v1/nodes").content == b"[]"
        monkeypatch.delenv("http_proxy", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)


def test_an_error_names_its_cause_once(channel: Channel) -> None:
    with reserved_port() as port, pytest.raises(exceptions.IronicUnreachable) as caught:
        channel(f"http://127.0.0.1:{port}/v1").send("GET", "/nodes", params={"shard": "blue"})
    assert str(caught.value) == (
        f"Ironic: GET /nodes: no answer from http://127.0.0.1:{port}/v1/nodes: "
        "[Errno 111] Connection refused"
    )


@pytest.fixture
def timeouts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The milliseconds that connections get for what was sent to be acknowledged."""
    given: list[int] = []

    def set_option(inner: socket.socket, *option: int) -> None:
        if option[1] == socket.TCP_USER_TIMEOUT:
            given.append(option[2])
        socket.socket.__base__.setsockopt(inner, *option)  # type: ignore[union-attr]

    monkeypatch.setattr(socket.socket, "setsockopt", set_option)
    return given


def test_a_guard_is_asked_when_a_change_is_about_to_leave(serve, channel, timeouts) -> None:
    # The next request must not go out on a connection that is about to be closed.
    answer = OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    server = serve(lambda peer: peer.sendall(answer))
    allowed = True

    def guard() -> float:
        if not allowed:
            raise exceptions.LeaseLost("it could not be renewed in time")
        return 7.5

    guarded = channel(f"{server.url}/v1", "", guard)
    guarded.send("PATCH", "/nodes/n", json=[])
    assert set(timeouts) == {7500}
    allowed = False
    assert guarded.send("GET", "/nodes").status == 200
    with pytest.raises(exceptions.LeaseLost):
        guarded.send("PATCH", "/nodes/n", json=[])
    methods = [request.split()[0] for request in server.requests if request]
    assert methods == [b"PATCH", b"GET"]


def test_a_changes_time_for_retries_is_not_the_next_requests(serve, channel, timeouts) -> None:
    def act(peer: socket.socket) -> None:
        for _ in range(3):
            peer.sendall(EMPTY)
            peer.recv(65536)

    server = serve(act)
    guarded = channel(f"{server.url}/v1", "", lambda: 7.5)
    for method in ("PATCH", "GET", "GET"):
        assert guarded.send(method, "/nodes/n").status == 200
    assert timeouts == [7500, 0]
    assert len(server.requests) == 1, "one connection"
