# SPDX-License-Identifier: Apache-2.0

"""Parses Ironic's answers, and turns refusals into errors: one place, one table.

Ironic puts its fault into ``error_message``, which is an object or the JSON of
one, according to where in the server it arose.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from email import utils
from typing import Any, TypeVar

import msgspec

from ironic_virt import exceptions, logs
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.conf import ironic as ironic_conf

T = TypeVar("T")

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding may raise; msgspec's errors are ``ValueError`` from its release 0.20 on."""

TRANSIENT_STATUSES = ironic_conf.RETRIED_STATUSES

# Of 39.0.0's message about a body.
_TOO_DEEP = "JSON is nested too deeply"

# With 404 or 400, if the conductors of a node's group are away, be it for a restart.
_UNSERVED = "No conductor service registered"

# A lock is the only conflict that passes by itself; 39.0.0 has one text for a
# node's lock and two for a parent's or a child's.
_LOCKED = re.compile(r"\bis (presently )?locked\b", re.IGNORECASE)

# Ironic's words in an answer 500 or 503 (24.1.5 and 39.0.0), and what they say: the
# credentials lack a scope; the conductor has not answered its API in time, and may still
# act; the request was refused before anything was done.
_WITHOUT_SCOPE = re.compile(r"\brequires a scope of\b")
_CONDUCTOR_SLOW = re.compile(r"\bTimed out waiting for a reply\b")
_TOO_BUSY = re.compile(r"lack of free conductor workers|temporarily unavailable, please retry")

_TAG = re.compile(r"<(script|style).*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_LONGEST_PAGE = 4_000
_LONGEST_ID = 64


def fault_message(answer: Answer) -> str:
    """The server's own message, as one line; of a page that a proxy made, its words."""
    fault = _json_or_text(answer.body.decode("utf-8", "replace"))
    if isinstance(fault, dict):
        fault = fault.get("error_message", fault)
    if isinstance(fault, str):
        fault = _json_or_text(fault)
    if isinstance(fault, dict):
        texts = (fault.get(key) for key in ("faultstring", "title", "detail", "message"))
        fault = next((text for text in texts if isinstance(text, str) and text.strip()), fault)
    message = "" if fault is None else logs.one_line(str(fault))
    return message or f"HTTP status {answer.status} without a message"


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        if "<" in text:
            text = " ".join(_TAG.sub(" ", text[:_LONGEST_PAGE]).split())
        return text


def accepted(answer: Answer) -> bool:
    """Return True for Ironic's own word, without a body, that a change is taken."""
    if answer.status not in (202, 204):
        page = fault_message(answer)
        raise exceptions.UnexpectedAnswer(f"not Ironic has answered, but a proxy perhaps: {page}")
    return True


def request_id(answer: Answer) -> str | None:
    """The id under which the server has logged the request."""
    for name in ("openstack-request-id", "x-openstack-request-id"):
        if value := answer.headers.get(name):
            return logs.one_line(value, _LONGEST_ID)
    return None


def retry_after(answer: Answer, epoch_seconds: float) -> float | None:
    """The seconds after which the server wants to be asked again (RFC 9110, 10.2.3).

    :param epoch_seconds: the present time, for a server that names a date.
    """
    header = answer.headers.get("Retry-After", "").strip()
    if header.isdecimal():
        return float(header[:10])
    try:
        return max(0.0, utils.parsedate_to_datetime(header).timestamp() - epoch_seconds)
    except (ValueError, OverflowError):
        return None


def make_reader(kind: type[T], meaning: str) -> Callable[[Answer], T]:
    """A function that reads the body of an answer as JSON of a type.

    :param meaning: what the body should be, for the error: ``a node``.
    """
    decoder = msgspec.json.Decoder(kind)
    return lambda answer: decode_json(decoder, answer.body, meaning)


def decode_json(decoder: msgspec.json.Decoder[T], body: bytes, meaning: str) -> T:
    """Decode JSON, also such as Python writes and a strict parser refuses.

    Ironic stores and returns what a user gave it: NaN, numbers without end,
    halves of surrogate pairs.  Such values become texts, which no field for a
    number or a state then takes for one.

    :raises UnexpectedAnswer: the body is not JSON, or has another shape.
    """
    try:
        return decoder.decode(body)
    except UNREADABLE:
        pass
    try:
        data = json.loads(
            body.decode("utf-8", "replace"),
            parse_constant=str,
            parse_float=_finite,
            parse_int=_readable,
        )
        text = json.dumps(data, ensure_ascii=False)
        return decoder.decode(text.encode("utf-8", "replace"))
    except UNREADABLE as exc:
        raise exceptions.UnexpectedAnswer(
            f"the answer is not {meaning}: {logs.one_line(str(exc))}"
        ) from exc


def _finite(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _readable(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:  # thousands of digits
        return text


def error_of(
    answer: Answer, *, method: str, path: str, node: str | None = None
) -> exceptions.IronicError:
    """The error that an answer of status 400 or above stands for.

    A read that is answered 500 or above may be answered in a while.  A change is then
    looked up (:func:`may_have_been_applied`); if it was not made, Ironic's own words are
    final.  A page is a proxy's, or of a server that has crashed: another try may do.
    """
    message = fault_message(answer)
    status = answer.status
    kind: type[exceptions.IronicError]
    if status in (401, 403) or (status == 500 and _WITHOUT_SCOPE.search(message)):
        kind = exceptions.IronicUnauthorized
    elif status in TRANSIENT_STATUSES or status == 406 or _UNSERVED in message:
        # The version was refused though it had been negotiated: another server answers.
        kind = exceptions.IronicUnavailable
    elif status == 404:
        # Only Ironic's own word makes a node gone: a proxy says 404 too.
        gone = node and re.search(rf"\bNode {re.escape(node)} could not be found", message)
        kind = exceptions.NodeNotFound if gone else exceptions.NotFound
    elif status == 409:
        kind = exceptions.NodeLocked if _LOCKED.search(message) else exceptions.Conflict
    elif status == 413 or _TOO_DEEP in message:
        kind = exceptions.BodyRefused
    elif 400 <= status < 500:
        kind = exceptions.BadRequest
    elif method == "GET" or _CONDUCTOR_SLOW.search(message) or not _is_of_ironic(answer):
        kind = exceptions.IronicUnavailable
    else:
        kind = exceptions.IronicError
    return kind(
        message,
        node=node,
        request_id=request_id(answer),
        status=status,
        method=method,
        path=path,
        retry_after=retry_after(answer, time.time()) if status in (429, 503) else None,
    )


def _is_of_ironic(answer: Answer) -> bool:
    """Whether a fault is Ironic's own, and not a proxy's page or a crashed server's."""
    fault = _json_or_text(answer.body.decode("utf-8", "replace"))
    return isinstance(fault, dict) and "error_message" in fault


def is_transient(error: exceptions.IronicError) -> bool:
    """Whether the same request may do better in a while."""
    return isinstance(
        error,
        exceptions.IronicUnreachable
        | exceptions.IronicUnavailable
        | exceptions.NodeLocked
        | exceptions.NodeUnreadable,
    )


def may_have_been_applied(error: exceptions.IronicError) -> bool:
    """Whether the server may have done what it was asked, or may still do it."""
    if isinstance(error, exceptions.IronicUnreachable | exceptions.NodeUnreadable):
        return True
    if isinstance(error, exceptions.IronicUnauthorized) or (error.status or 0) < 500:
        return False
    return error.status != 503 or not _TOO_BUSY.search(error.message)


def confirm_absent(error: exceptions.NotFound, resource: str) -> None:
    """Raise a 404 unless it is Ironic's own: a proxy may send one, too.

    :param resource: as Ironic names it, with its uuid.
    """
    if not re.search(rf"\b{re.escape(resource)} could not be found", error.message):
        raise error
