# SPDX-License-Identifier: Apache-2.0

"""A requests session in which every request, also one to Keystone, ends.

* The timeout is for the whole request: connecting, sending, the headers and the last byte
  of the body.  That of requests starts again with each byte.  Resolving a name is not
  included, since it can't be interrupted.
* An answer has a largest size, counted after decompression.
* No redirect is followed: the second URL would get the credentials and the body, and its
  answer would be one to another request.

keystoneauth1 wraps what is raised here in its errors, as their ``original``, except for
:class:`Away`.
"""

from __future__ import annotations

import contextlib
import contextvars
import io
import re
import socket
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import requests
import urllib3
from keystoneauth1 import session as ksa_session
from urllib3 import connection, connectionpool
from urllib3 import exceptions as urllib3_exceptions

# As many requests of one service as may run at once without new connections.
_POOL_SIZE = 64

_CREDENTIALS = re.compile("//[^/]*@")
_REDIRECTS = frozenset({301, 302, 303, 305, 307, 308})

# The encodings that we accept: others may expand a few bytes without limit.
_ENCODINGS = "gzip, deflate"
_BUFFER = 1 << 16


class Redirected(requests.RequestException):
    """The answer leads to another URL."""


class AnswerTooLarge(requests.RequestException):
    """The answer is larger than allowed, or coded in a way that was not asked for."""


class Away(Exception):
    """While a service is discovered, it gives no answer, or a transient one.

    :ivar url: where the request went.
    :ivar response: the answer; ``None``: none came, and the error's ``__cause__`` says why.
    """

    def __init__(self, url: str, response: requests.Response | None = None) -> None:
        super().__init__("the service is away")
        self.url = shown(url)
        self.response = response


# Within a discovery: the statuses that are transient.
_DISCOVERS = contextvars.ContextVar[Collection[int] | None]("what discovers", default=None)


@contextlib.contextmanager
def discovering(may_pass: Collection[int]) -> Iterator[None]:
    """Distinguish a service that does not answer from one that shows no versions.

    keystoneauth1 treats both alike, tries one URL after the other, and then goes on with a
    guess.  Within this block a request without an answer raises :class:`Away` instead, which
    keystoneauth1 does not know.

    :param may_pass: statuses of answers that count as none.
    """
    token = _DISCOVERS.set(may_pass)
    try:
        yield
    finally:
        _DISCOVERS.reset(token)


# Called before bytes of a request leave that may be sent only for a certain time.
_GUARD = contextvars.ContextVar[Callable[[], float] | None]("what allows a request", default=None)


@contextlib.contextmanager
def guarded(guard: Callable[[], float] | None) -> Iterator[None]:
    """Ask a guard at the last moment before a request is handed to the system.

    Until then getting a token and connecting may have taken long.

    :param guard: raises if the request may not be sent any more; returns the seconds for
        which the system may go on sending it again if the other side does not confirm it.
    """
    token = _GUARD.set(guard)
    try:
        yield
    finally:
        _GUARD.reset(token)


class _Session(requests.Session):
    def __init__(self) -> None:
        super().__init__()
        # To merge these with those of a request takes long; requests leaves it out if there are
        # none, which its type does not know.  keystoneauth1 sends the headers that matter.
        self.headers = self.params = None  # type: ignore[assignment]
        self._settings: dict[Any, Any] = {}

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Accept only encodings that we can limit."""
        request.headers = {"Accept-Encoding": _ENCODINGS, **(request.headers or {})}
        return super().prepare_request(request)

    def merge_environment_settings(self, url: Any, proxies: Any, *given: Any) -> Any:
        """Read the environment once for each server: its proxies take a fifth of a request."""
        if proxies:
            return super().merge_environment_settings(url, proxies, *given)
        key = (*url.split("/", 3)[:3], *given)
        if key not in self._settings:
            self._settings[key] = super().merge_environment_settings(url, {}, *given)
        settings = self._settings[key]
        return {**settings, "proxies": dict(settings["proxies"])}

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> requests.Response:  # type: ignore[override]
        may_pass = _DISCOVERS.get()
        if may_pass is None:
            return super().request(method, url, *args, **kwargs)
        try:
            response = super().request(method, url, *args, **kwargs)
        except (Redirected, AnswerTooLarge):
            raise
        # requests' errors, and those of a file that can't be read, are errors of the system.
        except OSError as exc:
            raise Away(url) from exc
        if response.status_code in may_pass:
            raise Away(url, response)
        return response


def session(largest_answer: int, **tls: Any) -> requests.Session:
    """A session for keystoneauth1's.

    :param largest_answer: in bytes.
    :param tls: ``tls_ciphers`` and ``tls_min_version``, as keystoneauth1's adapter has them.
    """
    made = _Session()
    for scheme in ("http://", "https://"):
        made.mount(scheme, _Adapter(pool_maxsize=_POOL_SIZE, **tls))

    def check(response: requests.Response, **_: Any) -> None:
        _refuse_redirect(response)
        response.raw = _Limited(response, largest_answer)

    made.hooks["response"].append(check)
    return made


def _refuse_redirect(response: requests.Response) -> None:
    if response.status_code not in _REDIRECTS:
        return
    response.close()
    there = response.headers.get("Location", "nowhere")
    raise Redirected(
        f"{shown(response.url)} redirects to {shown(there)}, which is not "
        "followed. Put the final URL into the catalogue or [ironic] "
        "endpoint_override"
    )


def shown(url: str) -> str:
    """A URL for people: without the credentials and the query in it."""
    return _CREDENTIALS.sub("//", url, count=1).partition("?")[0][:200]


class _Limited:
    """A body that is read up to a size.

    :param response: what it belongs to; only its content is to be read.
    """

    def __init__(self, response: requests.Response, largest: int) -> None:
        self._raw: Any = response.raw
        # urllib3 2 does so by itself; 1.26 takes a body that was cut off for whole.
        self._raw.enforce_content_length = True
        self._url = shown(response.url)
        self._largest = largest
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            self._refuse(f"has the encoding {encoding[:40]!r}, which was not requested")
        length = response.headers.get("Content-Length", "")
        if length.isdecimal() and int(length[:20]) > largest:
            self._refuse_size()

    def stream(self, amount: int, decode_content: bool = True) -> Iterator[bytes]:
        """The body piece by piece; what is compressed by small ones, which may grow."""
        read = 0
        for piece in self._raw.stream(amount, decode_content=decode_content):
            read += len(piece)
            if read > self._largest:
                self._refuse_size()
            yield piece

    def _refuse_size(self) -> None:
        size = self._largest / (1 << 20)
        self._refuse(f"is larger than {size:g} MiB")

    def _refuse(self, why: str) -> None:
        self._raw.close()
        raise AnswerTooLarge(f"the answer of {self._url} {why}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


class _Reader(io.RawIOBase):
    """Reads from a socket until its deadline."""

    def __init__(self, timed: _TimedSocket, inner: Any) -> None:
        self._timed = timed
        self._inner = inner

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._timed.arm()
        read: int | None = self._inner.readinto(buffer)
        return read

    def close(self) -> None:
        super().close()
        self._inner.close()


class _TimedSocket:
    """A socket whose timeout is one for all that follows, instead of one for each call."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._deadline: float | None = None
        self._is_limited = False
        self.settimeout(inner.gettimeout())

    def settimeout(self, seconds: float | None) -> None:
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._inner.settimeout(seconds)

    def arm(self) -> None:
        """Let the next call take what is left."""
        if self._deadline is not None:
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError("timed out")
            self._inner.settimeout(remaining)

    def sendall(self, data: Any) -> None:
        guard = _GUARD.get()
        # What a guarded request has left on a kept connection is none of the next one's.
        if guard or self._is_limited:
            milliseconds = max(int(guard() * 1000), 1) if guard else 0
            # TLS inside TLS, to a proxy, is an object that has a socket.
            inner = getattr(self._inner, "socket", self._inner)
            inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
            self._is_limited = guard is not None
        # Over TLS, Python's own begins the timeout again with each record.
        view = memoryview(data).cast("B")
        while view:
            self.arm()
            view = view[self._inner.send(view) :]

    def makefile(self, mode: str, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self, self._inner.makefile(mode, buffering=0)), _BUFFER)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Timed:
    """Turns the timeouts of a connection of urllib3 into deadlines; a mixin."""

    host: str
    port: int
    timeout: Any
    sock: Any
    _dns_host: str

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self.sock = _TimedSocket(self.sock)

    def _tunnel(self) -> None:
        # A proxy's answer to CONNECT; TLS, which follows, needs the socket itself.
        plain, self.sock = self.sock, _TimedSocket(self.sock)
        super()._tunnel()  # type: ignore[misc]
        self.sock = plain

    def _new_conn(self) -> socket.socket:
        # urllib3 gives each address of a name the whole timeout.
        name, timeout = self._dns_host, self.timeout
        until = time.monotonic() + timeout if isinstance(timeout, int | float) else None
        try:
            rows = socket.getaddrinfo(
                name, self.port, urllib3.util.connection.allowed_gai_family(), socket.SOCK_STREAM
            )
        except OSError:
            rows = []
        except UnicodeError as exc:
            # No host can have that name: a part of it is empty or too long.
            raise OSError(str(exc)) from exc
        addresses = list(dict.fromkeys(str(row[4][0]) for row in rows)) or [name]
        try:
            for index, address in enumerate(addresses):
                self._dns_host = address
                if until is not None:
                    remaining = max(until - time.monotonic(), 0.001)
                    self.timeout = remaining / (len(addresses) - index)
                try:
                    made: socket.socket = super()._new_conn()  # type: ignore[misc]
                    return made
                except urllib3_exceptions.HTTPError:
                    if index == len(addresses) - 1:
                        raise
        finally:
            self._dns_host, self.timeout = name, timeout
        raise AssertionError("unreachable")


class _HTTPConnection(_Timed, connection.HTTPConnection):
    """Over TCP."""


class _HTTPSConnection(_Timed, connection.HTTPSConnection):
    """Over TLS."""


class _HTTPPool(connectionpool.HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(connectionpool.HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


_POOLS = {"http": _HTTPPool, "https": _HTTPSPool}


class _Adapter(ksa_session.TCPKeepAliveAdapter):
    """Sends with the connections defined here, and with one timeout for all."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def send(self, request: requests.PreparedRequest, **how: Any) -> requests.Response:  # type: ignore[override]
        if isinstance(how.get("timeout"), int | float):
            how["timeout"] = urllib3.Timeout(total=how["timeout"])
        return super().send(request, **how)
