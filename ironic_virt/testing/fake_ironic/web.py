# SPDX-License-Identifier: Apache-2.0

"""A request as handlers see it, and what they answer with."""

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote_to_bytes

from ironic_virt.testing.fake_ironic import checks, errors
from ironic_virt.testing.fake_ironic.checks import Parser

if TYPE_CHECKING:
    from ironic_virt.testing.fake_ironic.baremetal import Baremetal


@dataclasses.dataclass(slots=True)
class Request:
    """One request to the API.

    :ivar url: scheme and host that the client used, for links.
    :ivar minor: the minor number of the agreed API version.
    :ivar bm: the bare metal to act on.
    :ivar suffix: what old versions take off the path: ``.json``.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    url: str
    minor: int
    bm: "Baremetal"
    suffix: str = ""

    def json(self) -> Any:
        """The body; an empty one counts as an empty object.

        :raises ApiError: 500 if it is not JSON, as Ironic answers.
        """
        if not self.body:
            return {}
        try:
            return json.loads(self.body)
        except ValueError as exc:
            raise errors.ApiError(500, str(exc)) from None

    def arguments(
        self, parsers: Mapping[str, Parser], required: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The arguments in the query and in the body; see :func:`checks.parse`."""
        given: dict[str, Any] = {}
        for name, value in parse_qsl(self.query, keep_blank_values=True):
            if name not in given:
                given[name] = value
            elif isinstance(given[name], list):
                given[name].append(value)
            else:
                given[name] = [given[name], value]
        if self.method != "GET" and self._is_json:
            given.update(self._named_values())
        return checks.parse(given, parsers, required)

    @property
    def _is_json(self) -> bool:
        return (self.headers.get("Content-Type") or "").startswith("application/json")

    def check_encoding(self) -> None:
        """Refuse what is not UTF-8.

        :raises RoutingError: 400.
        """
        try:
            unquote_to_bytes(self.query).decode()
            if self.method not in ("GET", "HEAD") and self._is_json:
                self.body.decode()
        except UnicodeDecodeError:
            raise errors.RoutingError(400) from None

    def _named_values(self) -> dict[str, Any]:
        """The values of a body that is an object; others are ignored, as Ironic does."""
        try:
            body = self.json()
        except errors.ApiError:
            return {}
        return body if isinstance(body, dict) else {}

    def require(self, minor: int, error: errors.ApiError | None = None) -> None:
        """Refuse versions before 1.``minor``; by default with a 404.

        :raises ApiError: ``error``.
        """
        if self.minor < minor:
            raise error or errors.RoutingError(404)

    def link(self, rel: str, resource: str, ident: str) -> dict[str, str]:
        """A link to a resource; ``rel`` "bookmark" leaves the API version out."""
        version = "" if rel == "bookmark" else "/v1"
        return {"href": f"{self.url}{version}/{resource}/{ident}", "rel": rel}

    def links(self, resource: str, ident: str) -> list[dict[str, str]]:
        return [self.link("self", resource, ident), self.link("bookmark", resource, ident)]


@dataclasses.dataclass(slots=True)
class Answer:
    """What a handler answers.

    :ivar body: to be sent as JSON; None sends no body.
    :ivar location: path below ``/v1``, for the Location header.
    """

    status: int = 200
    body: Any = None
    location: str | None = None
