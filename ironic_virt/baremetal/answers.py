# SPDX-License-Identifier: Apache-2.0

"""From Ironic's answers to our errors: one place, one table.

Ironic puts its fault into ``error_message``, which is an object or the JSON of
one, according to where in the server it arose.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ironic_virt import exceptions
from ironic_virt.baremetal.connection import Answer

TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
"""Another try may do, whatever the request was."""

LOST_STATUSES = frozenset({502, 504})
"""A gateway gave up waiting: the request may have been applied."""

# A lock is the only conflict that passes by itself; 39.0.0 has one text for a
# node's lock and two for a parent's or a child's.
_LOCKED = re.compile(r"\bis (presently )?locked\b|\blocked by host\b", re.IGNORECASE)


def fault_message(answer: Answer) -> str:
    """The server's own message, as short as it sent it."""
    try:
        data: Any = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        text = answer.body.decode("utf-8", "replace").strip()
        return text[:500] or f"HTTP status {answer.status} with an empty body"
    fault = data.get("error_message", data) if isinstance(data, dict) else data
    if isinstance(fault, str):
        try:
            fault = msgspec.json.decode(fault)
        except msgspec.DecodeError:
            return str(fault)
    if isinstance(fault, dict):
        for key in ("faultstring", "title", "detail", "message"):
            if isinstance(fault.get(key), str) and fault[key]:
                return str(fault[key])
    return str(fault)


def request_id(answer: Answer) -> str | None:
    """The id under which the server has logged the request."""
    for name in ("openstack-request-id", "x-openstack-request-id"):
        if value := answer.headers.get(name):
            return value
    return None


def error_of(
    answer: Answer, *, method: str, path: str, node: str | None = None
) -> exceptions.IronicError:
    """The error that an answer of status 400 or above stands for."""
    message = fault_message(answer)
    status = answer.status
    kind: type[exceptions.IronicError]
    if status in (401, 403):
        kind = exceptions.IronicUnauthorized
    elif status == 404:
        kind = exceptions.NodeNotFound if node and "/" not in path[7:] else exceptions.NotFound
        if node and re.search(rf"\bNode {re.escape(node)} could not be found", message):
            kind = exceptions.NodeNotFound
    elif status == 409:
        kind = exceptions.NodeLocked if _LOCKED.search(message) else exceptions.Conflict
    elif status in TRANSIENT_STATUSES:
        kind = exceptions.IronicUnavailable
    elif 400 <= status < 500:
        kind = exceptions.BadRequest
    else:
        kind = exceptions.IronicError
    return kind(
        message,
        node=node,
        request_id=request_id(answer),
        status=status,
        method=method,
        path=path,
    )


def is_transient(error: exceptions.IronicError) -> bool:
    """Whether the same request may do better in a while."""
    return isinstance(
        error,
        exceptions.IronicUnreachable | exceptions.IronicUnavailable | exceptions.NodeLocked,
    )


def may_have_been_applied(error: exceptions.IronicError) -> bool:
    """Whether the server may have done what it was asked, its reply lost."""
    return isinstance(error, exceptions.IronicUnreachable) or error.status in LOST_STATUSES
