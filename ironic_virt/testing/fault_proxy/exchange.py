# SPDX-License-Identifier: Apache-2.0

"""A request and its reply, as faults and rules see them.  No sockets here."""

import dataclasses
import json
import threading
from typing import Any

from werkzeug.datastructures import Headers


class Closing(Exception):
    """The proxy closes: the request is given up and gets no answer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One request on its way to Ironic.

    :ivar path: with the query, as it was sent.
    :ivar closing: set when the proxy closes.
    """

    method: str
    path: str
    headers: Headers
    body: bytes
    closing: threading.Event = dataclasses.field(default_factory=threading.Event)

    def json(self) -> Any:
        """The body; None if there is none, text if it is not JSON."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return self.body.decode("utf-8", "replace")


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """One answer on its way to the client.

    :ivar status: 0 if there is no answer.
    :ivar reset: the client gets a connection reset instead.
    :ivar sent: how many bytes of the body are sent before the connection ends; None: all.
    :ivar pause: seconds between the bytes of the body.
    """

    status: int
    headers: Headers
    body: bytes = b""
    reset: bool = False
    sent: int | None = None
    pause: float | None = None

    def with_body(self, body: bytes) -> "Reply":
        return dataclasses.replace(self, body=body)


def json_reply(status: int, body: bytes, headers: Any = ()) -> Reply:
    """An answer in JSON.

    :param headers: further ones, a mapping or pairs.
    """
    all_headers = Headers([("Content-Type", "application/json")])
    all_headers.update(headers)
    return Reply(status, all_headers, body)
