# SPDX-License-Identifier: Apache-2.0

"""What Ironic answers, or that it doesn't."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ironic_virt.exceptions.general import IronicVirtError


class IronicError(IronicVirtError):
    """Ironic refused a request, or did not answer.

    :param message: the server's own message, or what went wrong on the way.
    :param node: the node that the request was about, if it was about one.
    :param request_id: Ironic's id of the request, to look for in its log.
    :param status: the HTTP status, ``None`` if there was no answer.
    :param method: the HTTP method.
    :param path: the path below ``/v1``.
    :param retry_after: the seconds after which the server wants to be asked again.
    """

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        request_id: str | None = None,
        status: int | None = None,
        method: str | None = None,
        path: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.message = message
        self.node = node
        self.request_id = request_id
        self.status = status
        self.method = method
        self.path = path
        self.retry_after = retry_after
        super().__init__(message)

    def __str__(self) -> str:
        # Composed when read: a caller that passes the error on may add the node.
        request = f"{self.method} {self.path}: " if self.method and self.path else ""
        details = (
            f"HTTP {self.status}" if self.status else "",
            f"node {self.node}" if self.node and self.node not in self.message else "",
            f"request {self.request_id}" if self.request_id else "",
        )
        notes = ", ".join(filter(None, details))
        return f"Ironic: {request}{self.message}" + (f" ({notes})" if notes else "")


class IronicUnreachable(IronicError):
    """No answer: refused, reset, timed out, or cut off in the middle."""


class InventoryTooOld(IronicError):
    """The nodes could not be listed for longer than ``[ironic] inventory_max_age``."""


class IronicUnavailable(IronicError):
    """An answer that says "not now", retries used up: 429, 500 and above, no conductor."""


class IronicUnauthorized(IronicError):
    """The credentials in ``[ironic]`` were not accepted (401, 403, 500 for a missing scope)."""


class CertificateNotTrusted(IronicError):
    """TLS rejects a certificate: an option is wrong, and a retry won't help."""


class BadRequest(IronicError):
    """Ironic found the request wrong (400): a state, a value, an image."""


class BodyRefused(BadRequest):
    """Ironic, or a proxy, did not take the request's body: too large, or nested too deeply.

    :ivar status: 413 if it was too large.
    """


class NotFound(IronicError):
    """Ironic has no such resource (404)."""


class NodeNotFound(NotFound):
    """Ironic has no such node."""


class Conflict(IronicError):
    """The request contradicts what Ironic holds (409)."""


class NodeLocked(Conflict):
    """Another operation held the node's lock until the retries were used up."""


class UnexpectedAnswer(IronicError):
    """An answer that is not Ironic's: no JSON, or JSON of another shape."""


class NodeUnreadable(UnexpectedAnswer):
    """A look at a node that lacks what was asked for: nothing can be decided by it.

    The same look may do better in a while.

    :ivar fields: the names of what is missing or can't be read.
    """

    def __init__(self, fields: Iterable[str], *, node: str, **more: Any) -> None:
        self.fields = tuple(fields)
        names = ", ".join(self.fields)
        super().__init__(
            f"the answer about node {node} can't be used: {names} missing or not readable",
            node=node,
            **more,
        )


class MicroversionNotSupported(IronicError):
    """The server can't do what a feature needs.

    :param feature: the feature, in words.
    :param needed: the API version that it needs, ``"1.82"``.
    :param found: the newest version that the server speaks.
    """

    def __init__(self, feature: str, needed: str, found: str) -> None:
        self.feature = feature
        self.needed = needed
        self.found = found
        super().__init__(
            f"{feature} needs Ironic API version {needed}, but the server speaks {found} at most"
        )
