# SPDX-License-Identifier: Apache-2.0

"""The fake Ironic as a WSGI application, and as an object that tests drive."""

import dataclasses
import http
import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from werkzeug.datastructures import Headers, MIMEAccept
from werkzeug.http import parse_accept_header

from ironic_virt.testing.fake_ironic import bodies, errors, routing, versions
from ironic_virt.testing.fake_ironic.baremetal import Baremetal
from ironic_virt.testing.fake_ironic.clock import Clock, VirtualClock
from ironic_virt.testing.fake_ironic.controls import Controls
from ironic_virt.testing.fake_ironic.faults import Fault, Faults
from ironic_virt.testing.fake_ironic.journal import Entry, Journal
from ironic_virt.testing.fake_ironic.settings import Settings
from ironic_virt.testing.fake_ironic.web import Request

#: Where a server may put a function that gets a :class:`Reply` with a fault
#: that is more than a status or a delay.
CONNECTION_FAULTS = "ironic_virt.fake_ironic.connection_faults"

_NO_TOKEN = {
    "error": {
        "code": 401,
        "title": "Unauthorized",
        "message": "The request you have made requires authentication.",
    }
}


@dataclasses.dataclass(slots=True)
class Reply:
    """An answer on its way out.

    :ivar fault: a fault that keeps it, or a part of it, from the client.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    fault: Fault | None = None


class FakeIronic(Controls):
    """A fake Ironic.

    Call it as a WSGI application, or :meth:`handle` it requests; see
    :class:`~.server.FakeIronicServer` and :meth:`~.controls.Controls.mock` for
    ways to reach it as a client.  Thread-safe.

    :param settings: its configuration; single ones can be given by name.
    :param clock: by default a :class:`~.clock.VirtualClock`.
    :param sleep: carries out delays where time is real.
    :param journal_size: how many requests to remember; None for all.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
        journal_size: int | None = None,
        **options: Any,
    ) -> None:
        self.settings = dataclasses.replace(settings or Settings(), **options)
        self.clock: Clock = clock or VirtualClock()
        self.bm = Baremetal(self.settings, self.clock)
        self.faults = Faults()
        self.requests = Journal(journal_size)
        self.lock = threading.RLock()
        self._sleep = sleep
        self._ids = random.Random(f"request ids {self.settings.seed}")

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        headers: Any = Headers(
            (key[5:].replace("_", "-").title(), value)
            for key, value in environ.items()
            if key.startswith("HTTP_")
        )
        if "CONTENT_TYPE" in environ:
            headers["Content-Type"] = environ["CONTENT_TYPE"]
        host = environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
        reply = self.handle(
            environ["REQUEST_METHOD"],
            environ.get("PATH_INFO", "/").encode("latin-1").decode("utf-8", "replace"),
            environ.get("QUERY_STRING", ""),
            headers,
            _read(environ),
            f"{environ['wsgi.url_scheme']}://{host}",
        )
        if reply.fault is not None:
            environ[CONNECTION_FAULTS](reply)
        start_response(f"{reply.status} {_phrase(reply.status)}", reply.headers)
        # Of HEAD, a client takes what follows for the next answer.
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [reply.body]

    def handle(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        url: str = "http://ironic.test",
    ) -> Reply:
        """Answer one request.

        :param headers: looked up without regard to case if the mapping does so.
        :param url: scheme and host, for links.
        :returns: the reply; its ``fault``, if any, is for the caller to act
            out, once the request has had (or not had) its effect.
        """
        headers = headers or {}
        parsed = _parsed(body)
        fault = self.faults.find(method, path, parsed)
        if fault is None or fault.kind in ("lost", "truncate", "delay"):
            if fault is not None and fault.kind == "delay":
                self._delay(fault.seconds)
            reply = self._answer(method, path, query, headers, body, url)
        elif fault.kind == "status":
            content = [("Content-Type", "application/json"), *fault.headers.items()]
            reply = Reply(fault.status, [*content, *self._request_id()], fault.answer_body())
        else:
            reply = Reply(0, [], b"")
        if fault is not None and fault.kind not in ("status", "delay"):
            reply.fault = fault
        self.requests.add(
            Entry(
                method=method,
                path=path,
                query=query,
                version=headers.get(versions.HEADER) or "",
                body=parsed,
                status=reply.status,
                fault=fault.kind if fault is not None else None,
                when=self.clock.now(),
            )
        )
        return reply

    def _delay(self, seconds: float) -> None:
        if isinstance(self.clock, VirtualClock):
            self.clock.advance(seconds)
        else:
            self._sleep(seconds)

    def _request_id(self) -> list[tuple[str, str]]:
        request_id = f"req-{uuid.UUID(int=self._ids.getrandbits(128), version=4)}"
        return [("x-openstack-request-id", request_id), ("openstack-request-id", request_id)]

    def _answer(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        url: str,
    ) -> Reply:
        settings = self.settings
        low, high = settings.min_version, settings.max_version
        out = [
            (versions.MIN_HEADER, versions.text(low)),
            (versions.MAX_HEADER, versions.text(high)),
        ]
        out += self._request_id()
        public = settings.token is None or path.rstrip("/") in ("", "/v1")
        if not public and headers.get("X-Auth-Token") != settings.token:
            out.append(("WWW-Authenticate", f'Keystone uri="{url}"'))
            return _with_body(Reply(401, out, b""), json.dumps(_NO_TOKEN).encode())
        if method == "OPTIONS" and path.strip("/"):
            # What browsers ask is answered before it comes to the API.
            return Reply(200, [("Content-Length", "0")], b"")
        content_type = headers.get("Content-Type") or ""
        if (refused := bodies.refusal(path, content_type, body)) is not None:
            return _with_body(Reply(refused[0], self._request_id(), b""), refused[1])
        try:
            version = versions.negotiate(headers, low, high)
            out.append((versions.HEADER, versions.text(version)))
            path, suffix = routing.without_suffix(path, headers.get(versions.HEADER) or "")
            names = bodies.argument_names(method, query, headers.get("Content-Type"), body)
            handler, arguments = routing.find_handler(method, path, names)
            accepted = headers.get("Accept") or "*/*"
            if not _is_acceptable(accepted):
                return _with_body(Reply(406, self._request_id(), b""), _unacceptable(accepted))
            request = Request(
                method=method,
                path=path,
                query=query,
                headers=headers,
                body=body,
                url=url,
                minor=version[1],
                bm=self.bm,
                suffix=suffix,
            )
            request.check_encoding()
            with self.lock:
                self.bm.timeline.catch_up()
                answer = handler(request, **arguments)
                if answer.location is not None:
                    out.append(("Location", f"{url}/v1/{answer.location}"))
                if answer.body is None:
                    out.append(("Content-Length", "0"))
                    return Reply(answer.status, out, b"")
                # Encoded under the lock: rows may be shared with the body.
                content = msgspec.json.encode(answer.body)
        except errors.ApiError as exc:
            if isinstance(exc, errors.RoutingError) and not exc.keeps_headers:
                out = self._request_id()
            if isinstance(exc, errors.RoutingError) and exc.allow is not None:
                out.append(("Allow", ", ".join(exc.allow)))
            if not path.strip("/"):
                # The root is served by a controller, so this is Ironic's own shape.
                exc = errors.ApiError(exc.status, exc.message)
            return _with_body(Reply(exc.status, out, b""), exc.body())
        return _with_body(Reply(answer.status, out, b""), content)


def _with_body(reply: Reply, body: bytes) -> Reply:
    reply.headers.append(("Content-Type", "application/json"))
    reply.headers.append(("Content-Length", str(len(body))))
    reply.body = body
    return reply


def _read(environ: dict[str, Any]) -> bytes:
    """The body of a request, which may come in chunks."""
    if environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked":
        body: bytes = environ["wsgi.input"].read()
        return body
    length = int(environ.get("CONTENT_LENGTH") or 0)
    return environ["wsgi.input"].read(length) if length else b""


def _is_acceptable(accepted: str) -> bool:
    """Whether the client accepts JSON; a header that is not a list of types is ignored."""
    types = parse_accept_header(accepted, MIMEAccept)
    return (
        types.best_match(["application/json"]) is not None
        or "/" not in accepted
        or accepted.startswith("application/json")
    )


def _unacceptable(accepted: str) -> bytes:
    message = (
        "406 Not Acceptable\n\nThe resource could not be generated that was acceptable to your"
        f" browser (content of type {accepted}. \n\n "
    )
    return json.dumps({"error_message": message}).encode()


def _parsed(body: bytes) -> Any:
    if not body:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
