# SPDX-License-Identifier: Apache-2.0

"""The fake Ironic without sockets: for ``requests``, and so for openstacksdk.

Faults become the exceptions that ``requests`` would raise.
"""

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import requests
import requests_mock
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from urllib3 import HTTPResponse

if TYPE_CHECKING:
    from ironic_virt.testing.fake_ironic.app import FakeIronic, Reply


def _act_out(reply: "Reply", request: requests.PreparedRequest) -> None:
    """:raises requests.RequestException: as the reply's fault wants."""
    kind = reply.fault.kind if reply.fault is not None else None
    if kind in ("reset", "lost"):
        raise requests.ConnectionError(
            "('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))",
            request=request,
        )
    if kind == "hang":
        raise requests.ReadTimeout("Read timed out.", request=request)
    if kind == "truncate":
        raise requests.exceptions.ChunkedEncodingError(
            f"('Connection broken: IncompleteRead({len(reply.body) // 2} bytes read,"
            f" {len(reply.body) - len(reply.body) // 2} more expected)')",
            request=request,
        )


def _response(request: requests.PreparedRequest, reply: "Reply") -> requests.Response:
    response = requests.Response()
    response.status_code = reply.status
    response.headers = CaseInsensitiveDict(reply.headers)
    response.raw = HTTPResponse(
        body=io.BytesIO(reply.body),
        headers=dict(reply.headers),
        status=reply.status,
        preload_content=False,
    )
    response.url = request.url or ""
    response.request = request
    response.encoding = "utf-8"
    return response


class FakeIronicAdapter(BaseAdapter):
    """Hands a session's requests to a fake Ironic in this process."""

    def __init__(self, fake: "FakeIronic") -> None:
        super().__init__()
        self._fake = fake

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        url = urlsplit(request.url or "")
        body = request.body or b""
        reply = self._fake.handle(
            request.method or "GET",
            unquote(url.path),
            url.query,
            request.headers,
            body.encode() if isinstance(body, str) else bytes(body),
            f"{url.scheme}://{url.netloc}",
        )
        _act_out(reply, request)
        return _response(request, reply)

    def close(self) -> None:
        pass


def make_mock(fake: "FakeIronic", url: str) -> requests_mock.Mocker:
    """A ``requests_mock.Mocker`` that serves ``url`` from a fake Ironic."""
    adapter = FakeIronicAdapter(fake)
    host = urlsplit(url).netloc.lower()

    def answer(request: Any) -> requests.Response | None:
        prepared: requests.PreparedRequest = request._request
        if urlsplit(prepared.url or "").netloc.lower() != host:
            return None
        return adapter.send(prepared)

    mocker = requests_mock.Mocker(real_http=True)
    mocker.add_matcher(answer)
    return mocker
