# SPDX-License-Identifier: Apache-2.0

"""A channel from our client to a fake Ironic in the same process.

It takes a tenth of the time of :class:`KeystoneChannel` over ``fake.adapter()``; what
keystoneauth1 and requests do has its own tests, and tests over HTTP.
"""

import functools
import json as encoding
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlencode

from requests.structures import CaseInsensitiveDict

from ironic_virt import exceptions
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.testing.fake_ironic import FakeIronic

_JSON = "application/json"
_NO_ANSWER = {
    "reset": "Connection reset by peer",
    "lost": "Connection reset by peer",
    "hang": "Read timed out.",
    "truncate": "Connection broken: IncompleteRead",
}


class InProcessChannel:
    def __init__(self, fake: FakeIronic, url: str) -> None:
        self._fake = fake
        self._url = url

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | Sequence[str]] | None = None,
        json: Any = None,
        version: str | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Have the fake answer a request."""
        headers = CaseInsensitiveDict({"Accept": _JSON, "Content-Type": _JSON})
        if version is not None:
            headers["X-OpenStack-Ironic-API-Version"] = version
            headers["OpenStack-API-Version"] = f"baremetal {version}"
        reply = self._fake.handle(
            method,
            unquote(f"/v1{path}"),
            _query(tuple((params or {}).items())),
            headers,
            b"" if json is None else encoding.dumps(json).encode(),
            self._url,
        )
        kind = reply.fault.kind if reply.fault is not None else ""
        if kind in _NO_ANSWER:
            raise exceptions.IronicUnreachable(_NO_ANSWER[kind], method=method, path=path)
        return Answer(reply.status, CaseInsensitiveDict(reply.headers), reply.body)


@functools.lru_cache
def _query(params: tuple[tuple[str, str | Sequence[str]], ...]) -> str:
    return urlencode(params, doseq=True)
