# SPDX-License-Identifier: Apache-2.0

"""Faults in what Ironic says: its version, its fields, its whole body."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from ironic_virt.testing.fake_ironic import settings, versions
from ironic_virt.testing.fake_ironic.errors import RoutingError
from ironic_virt.testing.fault_proxy.exchange import Reply, Request, json_reply
from ironic_virt.testing.fault_proxy.faults import Fault, PassOn


def _edited(reply: Reply, function: Callable[[Any], Any]) -> Reply:
    """The answer with its document changed; one that is not JSON stays as it is."""
    try:
        document = json.loads(reply.body)
    except ValueError:
        return reply
    return reply.with_body(json.dumps(function(document)).encode())


class MaxVersion(Fault):
    """Behave as an older API server.

    Requests for a later version are answered with 406; ``latest`` becomes this version; the
    headers and documents that state the versions name this one as the latest.

    :param version: such as "1.72".
    :raises ValueError: if it is not a version.
    """

    kind = "max-version"

    def __init__(self, version: str) -> None:
        self._version = settings.parse_version(version)

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        low = settings.MIN_VERSION
        lowest, highest = versions.text(low), versions.text(self._version)
        try:
            version = versions.negotiate(_mapping(request), low, self._version)
        except RoutingError as exc:
            served = {versions.MIN_HEADER: lowest, versions.MAX_HEADER: highest}
            return json_reply(exc.status, exc.body(), served)
        headers = request.headers.copy()
        if headers.pop("OpenStack-API-Version", None) or versions.HEADER in headers:
            headers[versions.HEADER] = versions.text(version)
        reply = pass_on(dataclasses.replace(request, headers=headers))
        maximum = reply.headers.get(versions.MAX_HEADER)
        if maximum is not None:
            reply.headers[versions.MAX_HEADER] = self._lower(maximum)
        if request.path.partition("?")[0].rstrip("/") in ("", "/v1"):
            reply = _edited(reply, self._lowered)
        return reply

    def _lower(self, version: str) -> str:
        return versions.text(min(settings.parse_version(version), self._version))

    def _lowered(self, document: Any) -> Any:
        if isinstance(document, list):
            return [self._lowered(item) for item in document]
        if not isinstance(document, dict):
            return document
        lowered = {name: self._lowered(value) for name, value in document.items()}
        if "min_version" in document and isinstance(document.get("version"), str):
            lowered["version"] = self._lower(document["version"])
        return lowered


def _mapping(request: Request) -> Any:
    # Werkzeug's headers are not a Mapping by type.
    return request.headers


@dataclasses.dataclass(frozen=True)
class Edit(Fault):
    """Send what ``function`` makes of the answer's JSON."""

    kind = "edit"
    function: Callable[[Any], Any]

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        return _edited(pass_on(request), self.function)


@dataclasses.dataclass(frozen=True)
class Omit(Fault):
    """Leave a field out of the resource, or of each resource of a list."""

    kind = "omit"
    field: str

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        def omit(row: dict[str, Any]) -> None:
            row.pop(self.field, None)

        return _edited(pass_on(request), lambda document: _each_row(document, omit))


@dataclasses.dataclass(frozen=True)
class Malform(Fault):
    """Set a field to ``value`` where the resource, or one of a list, has it."""

    kind = "malform"
    field: str
    value: Any = dataclasses.field(default_factory=lambda: {"not": "expected"})

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        def malform(row: dict[str, Any]) -> None:
            if self.field in row:
                row[self.field] = self.value

        return _edited(pass_on(request), lambda document: _each_row(document, malform))


def _each_row(document: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    """Change a resource and the resources of its lists, one level deep, in place."""
    if isinstance(document, dict):
        for value in document.values():
            for row in value if isinstance(value, list) else ():
                if isinstance(row, dict):
                    change(row)
        change(document)
    return document


@dataclasses.dataclass(frozen=True)
class Body(Fault):
    """Let Ironic carry the request out, and send ``content`` for the body.

    :ivar content: bytes, or what becomes JSON.
    """

    kind = "body"
    content: Any

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        content = self.content
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        return pass_on(request).with_body(content)
