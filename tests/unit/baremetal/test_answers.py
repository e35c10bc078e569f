# SPDX-License-Identifier: Apache-2.0

"""From answers to errors: the right kind, and nothing of what was said is lost.

The texts are those of Ironic 39.0.0.
"""

import re
import time
from typing import Any

import msgspec
import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.http import answers
from tests.unit.baremetal import scripted
from tests.unit.baremetal.scripted import INSTANCE, NODE, VIF, answer, fault

LOCKED = (
    f"Node {NODE} is locked by host conductor-1, please retry after the current operation is "
    "completed.",
    *(
        f"Node {NODE} {which}_node a5c63c1f-0e6c-4d57-9d8c-4c2f3e0a6d1b is presently locked and "
        "we are unable to perform any action on it at this time. Please retry after the current "
        "operation is completed."
        for which in ("parent", "child")
    ),
)
OTHER_CONFLICTS = (
    f"Node {NODE} is associated with instance {INSTANCE}.",
    f"Instance {INSTANCE} is already associated with a node, it cannot be associated with this "
    f"other node {NODE}",
    f"Unable to attach VIF because VIF {VIF} is already attached to Ironic Port "
    "a5c63c1f-0e6c-4d57-9d8c-4c2f3e0a6d1b",
    f"Unable to attach VIF {VIF} to node {NODE}. Reason: physical network mismatch",
    "A node with name blocked already exists.",
    "Invalid resource state.",
)
NO_CONDUCTOR = (
    "No valid host was found. Reason: No conductor service registered which supports driver "
    "ipmi for conductor group 'rack9'."
)


def error_of(
    reply: answers.Answer,
    *,
    method: str = "PATCH",
    path: str = f"/nodes/{NODE}",
    node: str | None = NODE,
) -> exceptions.IronicError:
    return answers.error_of(reply, method=method, path=path, node=node)


KINDS: dict[type[exceptions.IronicError], tuple[int, ...]] = {
    exceptions.BadRequest: (400, 405),
    exceptions.BodyRefused: (413,),
    exceptions.IronicUnauthorized: (401, 403),
    exceptions.NotFound: (404,),
    exceptions.Conflict: (409,),
    exceptions.IronicUnavailable: (406, 429, 502, 503, 504),
    exceptions.IronicError: (500, 501),
}


@pytest.mark.parametrize(
    ("kind", "status"), [(kind, status) for kind, some in KINDS.items() for status in some]
)
def test_each_status_is_one_kind_of_error(kind: type[exceptions.IronicError], status: int) -> None:
    """Some are worth another try, and some say nothing of what was done."""
    error = error_of(fault(status, "the reason"))
    assert type(error) is kind
    assert error.status == status
    assert answers.is_transient(error) is (kind is exceptions.IronicUnavailable)
    assert answers.may_have_been_applied(error) is (status >= 500)
    read = error_of(fault(status, "the reason"), method="GET")
    assert type(read) is (exceptions.IronicUnavailable if status >= 500 else kind)


SCOPE = "baremetal:node:get requires a scope of ['system'], request was made with project scope."


@pytest.mark.parametrize(
    ("method", "reply", "kind", "may_be_done"),
    [
        ("GET", fault(500, SCOPE), exceptions.IronicUnauthorized, False),
        ("PUT", fault(500, SCOPE), exceptions.IronicUnauthorized, False),
        ("PUT", scripted.conductor_slow(), exceptions.IronicUnavailable, True),
        ("PUT", answer(500, b"<html>crashed</html>"), exceptions.IronicUnavailable, True),
        ("PUT", answer(500, b"\xff crashed"), exceptions.IronicUnavailable, True),
        ("PUT", answer(500, b'{"message": "crashed"}'), exceptions.IronicUnavailable, True),
        ("PUT", answer(500), exceptions.IronicUnavailable, True),
        ("PUT", fault(500, "no such image", as_text=False), exceptions.IronicError, True),
        ("PUT", scripted.too_busy(), exceptions.IronicUnavailable, False),
        ("PUT", fault(404, NO_CONDUCTOR), exceptions.IronicUnavailable, False),
        ("PATCH", fault(400, NO_CONDUCTOR), exceptions.IronicUnavailable, False),
        ("PUT", answer(503, b"<html>no server</html>"), exceptions.IronicUnavailable, True),
    ],
)
def test_what_ironic_says_decides(method, reply, kind, may_be_done) -> None:
    error = error_of(reply, method=method)
    assert type(error) is kind
    assert answers.may_have_been_applied(error) is may_be_done


@pytest.mark.parametrize("as_text", [True, False], ids=["JSON in a text", "an object"])
def test_an_error_keeps_the_servers_words_and_its_subject(as_text: bool) -> None:
    error = error_of(fault(400, "The image is too large.", as_text=as_text))
    assert error.message == "The image is too large."
    assert error.node == NODE
    assert error.request_id == scripted.REQUEST_ID
    assert (error.method, error.path) == ("PATCH", f"/nodes/{NODE}")
    assert str(error) == (
        f"Ironic: PATCH /nodes/{NODE}: The image is too large. "
        f"(HTTP 400, node {NODE}, request {scripted.REQUEST_ID})"
    )


def test_the_text_names_the_node_once_even_if_known_later() -> None:
    assert str(error_of(fault(400, f"Node {NODE} is odd."))).count(f"node {NODE}") == 0
    error = exceptions.IronicUnreachable("Connection refused", method="GET", path="/nodes")
    assert str(error) == "Ironic: GET /nodes: Connection refused"
    error.node = NODE
    assert str(error) == f"Ironic: GET /nodes: Connection refused (node {NODE})"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "HTTP status 502 without a message"),
        (b"   \n", "HTTP status 502 without a message"),
        (b"upstream timed out", "upstream timed out"),
        (
            b"<html><head><title>502 Bad Gateway</title><style>h1 {color: red}</style></head>\n"
            b"<body><h1>502 Bad Gateway</h1><hr>nginx</body></html>",
            "502 Bad Gateway 502 Bad Gateway nginx",
        ),
        (b'{"error_message": ""}', "HTTP status 502 without a message"),
        (b'{"error_message": "plain words"}', "plain words"),
        (b'{"error_message": "<html><body>Sorry.</body></html>"}', "Sorry."),
        (b'{"error_message": {"faultstring": "", "detail": "the detail"}}', "the detail"),
        (b'{"error_message": {"title": "the title", "message": "no"}}', "the title"),
        (b'{"error_message": null}', "HTTP status 502 without a message"),
        (b'{"message": "from a gateway"}', "from a gateway"),
        (b'{"surprise": 1}', "{'surprise': 1}"),
        (b"[1, 2]", "[1, 2]"),
        (b"17", "17"),
        (b"\xff\xfe not UTF-8", "\ufffd\ufffd not UTF-8"),
        (b"[" * 100_000, "[" * 477 + "... (100000 characters)"),
        (
            b'{"error_message": "a\\u001b[2Jb\\r\\n2026-01-01 forged\\u2028line"}',
            "a [2Jb 2026-01-01 forged line",
        ),
        ('{"error_message": "a\u202eb"}'.encode(), "a b"),
    ],
    ids=lambda value: re.sub(r"[^a-z0-9]+", " ", str(value[:40]), flags=re.IGNORECASE).strip(),
)
def test_whatever_the_body_is_there_is_a_message(body: bytes, message: str) -> None:
    assert answers.fault_message(answer(502, body)) == message


@pytest.mark.parametrize(
    "body",
    [
        {"error_message": "long " * 200_000},
        {"surprise": "long " * 200_000},
        b"<html>" + b"very long " * 1000 + b"</html>",
    ],
    ids=["fault", "no fault", "a proxy's page"],
)
def test_a_message_is_cut_to_a_readable_length(body: object) -> None:
    message = answers.fault_message(answer(500, body))
    assert len(message) <= 500
    assert message.startswith(("long long", "{'surprise': 'long", "very long"))


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("7", 7),
        ("0", 0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 60),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 0),
        ("9" * 5000, 9_999_999_999),
        ("-3", None),
        ("soon", None),
        ("Thu, 01 Jan 99999999999999 00:00:00 GMT", None),
        ("", None),
    ],
)
def test_when_to_ask_again_is_read_as_seconds_or_as_a_date(said, seconds) -> None:
    assert answers.retry_after(answer(503, Retry_After=said), 40.0) == seconds


@pytest.mark.parametrize(("status", "seconds"), [(429, 7), (503, 7), (502, None), (409, None)])
def test_only_who_is_busy_says_when_to_ask_again(status: int, seconds: float | None) -> None:
    assert error_of(answer(status, Retry_After="7")).retry_after == seconds


def test_a_date_is_counted_from_now() -> None:
    error = error_of(answer(503, Retry_After="Thu, 01 Jan 2970 00:00:00 GMT"))
    assert error.retry_after is not None
    assert 900 * 365 * 86400 < error.retry_after + time.time() - 50 * 365 * 86400 < 1e11


def test_the_request_id_is_found_under_its_older_name_too() -> None:
    old = answers.Answer(500, {"x-openstack-request-id": "req-1"}, b"")
    assert answers.request_id(old) == "req-1"
    assert answers.request_id(answers.Answer(500, {}, b"")) is None
    long = answers.Answer(500, {"openstack-request-id": "req-" + "x" * 1000}, b"")
    assert len(answers.request_id(long) or "") <= 100


# -- bodies ---------------------------------------------------------------------


class Shown(msgspec.Struct):
    a: float | str
    b: Any = None


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"a": 1.5, "b": [7]}', Shown(1.5, [7])),
        (b'{"a": 1.5, "b": [NaN, 7]}', Shown(1.5, ["NaN", 7])),
        (b'{"a": -Infinity, "b": 1.5}', Shown("-Infinity", 1.5)),
        (b'{"a": 1e999, "b": NaN}', Shown("1e999", "NaN")),
        (b'{"a": 2.5, "b": [NaN, ' + b"9" * 5000 + b"]}", Shown(2.5, ["NaN", "9" * 5000])),
        (b'{"a": "\\ud800", "b": 7}', Shown("?", 7)),
        (b'{"a": "\xff\xc3\xa9"}', Shown("\ufffd\u00e9")),
        ('{"a": "\u00e9", "b": NaN}'.encode(), Shown("\u00e9", "NaN")),
    ],
)
def test_what_python_writes_and_no_parser_takes_becomes_a_text(body: bytes, shown: Shown) -> None:
    assert answers.make_reader(Shown, "shown")(answer(200, body)) == shown


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 3000, b'{"b": NaN}', b'{"a": [NaN]}'])
def test_what_can_not_be_read_at_all_is_said(body: bytes) -> None:
    with pytest.raises(exceptions.UnexpectedAnswer, match=r"^Ironic: the answer is not a show: "):
        answers.make_reader(Shown, "a show")(answer(200, body))


# -- conflicts ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        *((message, exceptions.NodeLocked) for message in LOCKED),
        *((message, exceptions.Conflict) for message in OTHER_CONFLICTS),
    ],
)
def test_of_conflicts_only_a_lock_passes_by_itself(message, kind) -> None:
    error = error_of(fault(409, message))
    assert type(error) is kind
    assert answers.is_transient(error) == (kind is exceptions.NodeLocked)


# -- gone, or not ---------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/vifs", "/validate", "/states/provision"])
def test_a_node_is_gone_when_ironic_says_so_to_any_request(path: str) -> None:
    error = error_of(scripted.no_such_node(), path=f"/nodes/{NODE}{path}")
    assert type(error) is exceptions.NodeNotFound
    assert error.node == NODE


@pytest.mark.parametrize(
    "reply",
    [
        fault(404, f"VIF {VIF} could not be found."),
        fault(404, "Node a5c63c1f-0e6c-4d57-9d8c-4c2f3e0a6d1b could not be found."),
        answer(404, b"<html><h1>Not Found</h1></html>"),
        answer(404, b""),
    ],
    ids=["a VIF", "another node", "a proxy", "an empty body"],
)
def test_no_other_404_makes_a_node_gone(reply: answers.Answer) -> None:
    # A record is deleted on NodeNotFound: a wrong URL must never cause that.
    assert type(error_of(reply)) is exceptions.NotFound
    about_all = error_of(scripted.no_such_node(), path="/nodes", node=None)
    assert type(about_all) is exceptions.NotFound
