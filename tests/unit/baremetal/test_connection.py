# SPDX-License-Identifier: Apache-2.0

"""From options to single HTTP requests, and what a broken connection becomes."""

import base64
import io
import logging
import pathlib
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
import urllib3
from keystoneauth1 import loading
from oslo_config import cfg
from requests_mock import ANY, Mocker

from ironic_virt import conf, exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.http.connection import DEFAULT_TIMEOUT, KeystoneChannel
from ironic_virt.baremetal.http.endpoint import LOOK_UP_AGAIN, Endpoint
from ironic_virt.conf import ironic as ironic_conf
from tests.unit.baremetal import scripted

IRONIC = "http://ironic.invalid:6385"
KEYSTONE = "http://keystone.invalid/v3"
SECRET = "correct horse battery staple"

# The URL says which version it is of, so Ironic is not asked for it.
NONE = f"auth_type = none\nendpoint_override = {IRONIC}/v1"
BASIC_SECRET = base64.b64encode(f"admin:{SECRET}".encode()).decode()
BASIC = f"auth_type = http_basic\nusername = admin\npassword = {SECRET}"
PASSWORD = (
    f"auth_type = password\nauth_url = {KEYSTONE}\nusername = nova\npassword = {SECRET}\n"
    "project_name = service\nuser_domain_name = Default\nproject_domain_name = Default"
)

# The auth types with which the client asks Ironic for its versions first.
DISCOVERS = {
    "none": f"auth_type = none\nendpoint_override = {IRONIC}",
    "basic": f"{BASIC}\nendpoint_override = {IRONIC}",
    "catalog": PASSWORD,
    "both": f"{PASSWORD}\nendpoint_override = {IRONIC}",
}

Connect = Callable[..., KeystoneChannel]
MakeClient = Callable[..., IronicClient]


def versions(url: str = IRONIC) -> dict[str, Any]:
    """What Ironic shows at its root."""
    v1 = {
        "id": "v1",
        "links": [{"href": f"{url}/v1/", "rel": "self"}],
        "min_version": "1.1",
        "status": "CURRENT",
        "version": "1.115",
    }
    return {"name": "OpenStack Ironic API", "default_version": v1, "versions": [v1]}


@pytest.fixture
def configured(tmp_path: pathlib.Path) -> Callable[..., cfg.ConfigOpts]:
    """The options by these lines in ``[ironic]``."""

    def with_lines(*lines: str) -> cfg.ConfigOpts:
        path = tmp_path / "ironic-virt.conf"
        path.write_text("\n".join(["[ironic]", *lines, ""]))
        return conf.load([str(path)])

    return with_lines


@pytest.fixture
def connect(configured: Callable[..., cfg.ConfigOpts]) -> Connect:
    """A channel by these lines."""
    return lambda lines=NONE: KeystoneChannel.from_conf(configured(lines))


@pytest.fixture
def client(configured: Callable[..., cfg.ConfigOpts]) -> MakeClient:
    """A client by these lines."""
    return lambda *lines, **more: IronicClient.from_conf(configured(*lines), **more)


@pytest.fixture
def http() -> Iterator[Mocker]:
    """A Keystone that knows where Ironic is, and an Ironic that has nothing to list."""
    with Mocker() as mocker:
        mocker.get(IRONIC, json=versions())
        mocker.get(f"{IRONIC}/v1/nodes", json={})
        serve_keystone(mocker, catalog("internal"))
        yield mocker


def sent_to_ironic(http: Mocker) -> list[str]:
    """The URLs, in order."""
    urls = [str(request.url) for request in http.request_history]
    return [url.rstrip("/") for url in urls if not url.startswith(KEYSTONE)]


def catalog(
    *interfaces: str, service_type: str = "baremetal", url: str = IRONIC
) -> dict[str, Any]:
    endpoints = [
        {"id": name, "interface": name, "region_id": "here", "region": "here", "url": url}
        for name in interfaces
    ]
    return {
        "token": {
            "methods": ["password"],
            "user": {"id": "u", "name": "nova", "domain": {"id": "d", "name": "Default"}},
            "project": {"id": "p", "name": "service", "domain": {"id": "d", "name": "Default"}},
            "roles": [{"id": "r", "name": "service"}],
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "catalog": [{"type": service_type, "name": "ironic", "endpoints": endpoints}],
        }
    }


def keystone_version() -> dict[str, Any]:
    """What Keystone shows at its root."""
    version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": KEYSTONE}]}
    return {"version": version}


def serve_keystone(http: Mocker, token: dict[str, Any]) -> None:
    http.get(KEYSTONE, json=keystone_version())
    http.post(
        f"{KEYSTONE}/auth/tokens", json=token, headers={"X-Subject-Token": f"token {SECRET}"}
    )


# -- where to, and with what --------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [f"endpoint_override = {IRONIC}{end}" for end in ("", "/", "/v1", "/v1/", "/baremetal")]
    # That of the plugin.
    + [f"endpoint = {IRONIC}"],
)
@pytest.mark.parametrize("shown", [True, False])
def test_a_path_is_below_v1_however_the_endpoint_is_written(connect, http, option, shown) -> None:
    root = f"{IRONIC}/baremetal" if option.endswith("baremetal") else IRONIC
    http.get(ANY, json={})
    if shown:
        http.get(root, json=versions(root))
    assert connect(f"auth_type = none\n{option}").send("GET", "/nodes").status == 200
    assert sent_to_ironic(http)[-1] == f"{root}/v1/nodes"


# -- discovery ------------------------------------------------------------------------


@pytest.mark.parametrize("lines", DISCOVERS.values(), ids=DISCOVERS)
def test_ironic_is_discovered_once_and_without_credentials(connect, http, lines) -> None:
    # Requests go to the configured host, even if Ironic shows another URL.
    http.get(IRONIC, json=versions("https://public.invalid/baremetal"))
    channel = connect(lines)
    assert http.request_history == [], "nobody has asked yet"
    channel.send("GET", "/nodes")
    channel.send("GET", "/nodes")
    assert sent_to_ironic(http) == [IRONIC, f"{IRONIC}/v1/nodes", f"{IRONIC}/v1/nodes"]
    asked = next(sent for sent in http.request_history if sent.url.rstrip("/") == IRONIC)
    assert not {"X-Auth-Token", "Authorization"} & set(asked.headers)


@pytest.mark.parametrize("lines", DISCOVERS.values(), ids=DISCOVERS)
def test_ironic_is_asked_at_the_path_that_it_shows(connect, http, lines) -> None:
    http.get(IRONIC, json=versions(f"{IRONIC}/baremetal"))
    http.get(f"{IRONIC}/baremetal/v1/nodes", json={})
    connect(lines).send("GET", "/nodes")
    assert sent_to_ironic(http)[-1] == f"{IRONIC}/baremetal/v1/nodes"


@pytest.mark.parametrize(
    "lines", [NONE, PASSWORD, f"{PASSWORD}\nendpoint_override = {IRONIC}/v1/"]
)
def test_an_endpoint_that_names_its_version_is_not_discovered(connect, http, lines) -> None:
    serve_keystone(http, catalog("internal", url=f"{IRONIC}/v1"))
    connect(lines).send("GET", "/nodes")
    assert sent_to_ironic(http) == [f"{IRONIC}/v1/nodes"]


@pytest.mark.parametrize("lines", DISCOVERS.values(), ids=DISCOVERS)
@pytest.mark.parametrize(
    "answer",
    [
        {"status_code": 401},
        {"status_code": 403},
        {"status_code": 404, "json": {"versions": []}},
        {"status_code": 500},
        {"status_code": 301, "headers": {"Location": f"{IRONIC}/elsewhere"}},
        {"text": "<html>a proxy</html>"},
        {"text": "[" * 100_000},
        {"json": []},
        {"json": "versions"},
        {"json": {"versions": 5}},
        {"json": {"versions": [{"id": None, "links": 7}]}},
        {"json": {"versions": [{"id": "v2", "status": "CURRENT", "links": []}]}},
    ],
    ids=lambda answer: str(answer)[:40],
)
def test_an_ironic_that_shows_no_versions_is_asked_below_v1(connect, http, lines, answer) -> None:
    http.get(IRONIC, **answer)
    assert connect(lines).send("GET", "/nodes").status == 200
    assert not [url for url in sent_to_ironic(http) if "elsewhere" in url]


@pytest.mark.parametrize("lines", DISCOVERS.values(), ids=DISCOVERS)
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (requests.ConnectionError("Connection refused"), "no answer.*: Connection refused"),
        (requests.ConnectTimeout("too slow"), "no whole answer.* within 60 s"),
        (requests.ReadTimeout("too slow"), "no whole answer.* within 60 s"),
        (requests.exceptions.ChunkedEncodingError("cut off"), "no answer.*: cut off"),
        (requests.exceptions.ContentDecodingError("not gzip"), "no answer.*: not gzip"),
        (requests.exceptions.SSLError("EOF occurred"), "no answer.*: EOF occurred"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_ironic_away_during_discovery_is_unreachable(connect, http, lines, broken, said):
    http.get(IRONIC, exc=broken)
    channel = connect(lines)
    with pytest.raises(exceptions.IronicUnreachable, match=said) as caught:
        channel.send("PATCH", "/nodes/n", json=[])
    assert type(caught.value) is exceptions.IronicUnreachable
    assert (caught.value.method, caught.value.path) == ("PATCH", "/nodes/n")
    assert sent_to_ironic(http) == [IRONIC], "asked once, and nothing is sent to a guess"
    http.get(IRONIC, json=versions())
    http.patch(f"{IRONIC}/v1/nodes/n", json={})
    assert channel.send("PATCH", "/nodes/n", json=[]).status == 200


@pytest.mark.parametrize("lines", DISCOVERS.values(), ids=DISCOVERS)
@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_an_answer_that_may_pass_is_that_of_the_request(connect, http, lines, status) -> None:
    http.get(IRONIC, status_code=status, headers={"Retry-After": "7"}, text="not now")
    answer = connect(lines).send("GET", "/nodes")
    assert (answer.status, answer.headers["retry-after"], answer.body) == (status, "7", b"not now")
    assert sent_to_ironic(http) == [IRONIC]


@pytest.mark.parametrize(
    ("lines", "statuses", "tried"),
    [
        ("connect_retries = 1", [None, None], 2),
        ("connect_retries = 0\nstatus_code_retries = 3", [503, 429, None], 3),
        ("status_code_retries = 0\nconnect_retries = 3", [None, None, 503], 3),
        ("status_code_retries = 2", [503, 502, 504], 3),
        ("status_code_retries = 0\nretriable_status_codes = 503", [429, 503], 2),
    ],
)
def test_requests_are_retried_as_often_as_the_options_say(client, http, lines, statuses, tried):
    quick = "connect_retry_delay = 0\nstatus_code_retry_delay = 0\napi_retry_interval = 0"
    http.get(f"{IRONIC}/v1", json={"version": {"min_version": "1.1", "version": "1.115"}})
    answers: list[dict[str, Any]] = [
        {"status_code": status} if status else {"exc": requests.ConnectionError("gone")}
        for status in statuses
    ]
    http.get(f"{IRONIC}/v1/nodes/n", answers)
    with pytest.raises(exceptions.IronicError):
        client(NONE, lines, quick).get_node("n")
    assert sent_to_ironic(http)[0] == f"{IRONIC}/v1"
    assert len(sent_to_ironic(http)) == 1 + tried
    # A discovery likewise.
    http.reset_mock()
    http.get(IRONIC, exc=requests.ConnectionError("gone"))
    retries = int(lines.partition("connect_retries = ")[2][:1] or 0)
    with pytest.raises(exceptions.IronicUnreachable, match="gone"):
        client(DISCOVERS["none"], f"connect_retries = {retries}", quick).get_node("n")
    assert sent_to_ironic(http) == [IRONIC] * (retries + 1)


@pytest.mark.parametrize("lines", DISCOVERS.values(), ids=DISCOVERS)
def test_credentials_that_a_discovery_needs_are_not_logged(
    connect, http, everything_logged, lines
) -> None:
    http.get(IRONIC, [{"status_code": 401}, {"json": versions()}])
    assert connect(lines).send("GET", "/nodes").status == 200
    assert sent_to_ironic(http) == [IRONIC, IRONIC, f"{IRONIC}/v1/nodes"]
    assert SECRET not in everything_logged.getvalue()
    assert BASIC_SECRET not in everything_logged.getvalue()


def test_a_password_in_the_url_is_not_told(connect, http, everything_logged) -> None:
    url = IRONIC.replace("//", "//admin:hunter2@")
    http.get(ANY, [{"status_code": 302}, {"exc": requests.ConnectionError}])
    for error in (exceptions.UnexpectedAnswer, exceptions.IronicUnreachable):
        with pytest.raises(error, match=f"{IRONIC}/v1/nodes") as caught:
            connect(f"auth_type = none\nendpoint_override = {url}").send("GET", "/nodes")
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    # requests-mock itself says which URL it was asked for.
    logged = [line for line in everything_logged.getvalue().splitlines() if " 302" not in line]
    assert {"hunter2" in line for line in logged} == {False}


def test_an_interface_that_is_none_is_an_error_at_once(connect, monkeypatch) -> None:
    lines = f"{PASSWORD}\nvalid_interfaces = secret"
    with pytest.raises(exceptions.InvalidConfiguration, match=r"\] valid_interfaces: 'secret'"):
        connect(lines)
    # What is not looked at before, openstacksdk can't use.
    monkeypatch.setattr(ironic_conf, "check_adapter", lambda conf: None)
    with pytest.raises(exceptions.InvalidConfiguration, match="'secret' is not a valid value"):
        connect(lines)


def test_a_connection_starts_no_thread(connect: Connect, http: Mocker) -> None:
    before = threading.enumerate()
    connect(DISCOVERS["none"]).send("GET", "/nodes")
    assert threading.enumerate() == before


# -- requests and answers ---------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 400, 401, 404, 409, 500, 503])
def test_an_answer_is_handed_over_whatever_its_status(connect, http, status) -> None:
    body = b'{"nodes": []}'
    http.get(f"{IRONIC}/v1/nodes", status_code=status, content=body, headers={"X-Some": "thing"})
    answer = connect().send("GET", "/nodes")
    assert (answer.status, answer.body, answer.headers["x-some"]) == (status, body, "thing")
    assert len(http.request_history) == 1, "retries are the client's"


def test_version_parameters_and_body_are_sent(connect: Connect, http: Mocker) -> None:
    http.register_uri(ANY, ANY, json={})
    channel = connect()
    channel.send(
        "PATCH",
        "/nodes/n",
        params={"a": "1", "shard": ["x", "y"]},
        json=[{"op": 1}],
        version="1.82",
    )
    # conductor_group= is the default group; leaving it out would be any group.
    channel.send("GET", "/nodes", params={"conductor_group": ""})
    patch, listing = http.request_history
    assert patch.headers["X-OpenStack-Ironic-API-Version"] == "1.82"
    assert patch.headers["OpenStack-API-Version"] == "baremetal 1.82"
    assert (patch.query, patch.json()) == ("a=1&shard=x&shard=y", [{"op": 1}])
    assert listing.url == f"{IRONIC}/v1/nodes?conductor_group="
    assert not [name for name in listing.headers if "version" in name.lower()]
    assert "Authorization" not in listing.headers, "none was asked for"


# -- authentication -------------------------------------------------------------------


def test_basic_authentication(connect: Connect, http: Mocker) -> None:
    connect(DISCOVERS["basic"]).send("GET", "/nodes")
    assert http.request_history[-1].headers["Authorization"] == f"Basic {BASIC_SECRET}"


def test_url_and_token_come_from_keystone_once(connect: Connect, http: Mocker) -> None:
    channel = connect(PASSWORD)
    channel.send("GET", "/nodes")
    channel.send("GET", "/nodes")
    nodes = f"{IRONIC}/v1/nodes"
    to_ironic = [request for request in http.request_history if request.url == nodes]
    assert [request.headers["X-Auth-Token"] for request in to_ironic] == [f"token {SECRET}"] * 2
    assert tokens(http) == 1
    renewed = {"X-Subject-Token": "renewed"}
    http.post(f"{KEYSTONE}/auth/tokens", json=catalog("internal"), headers=renewed)
    http.get(nodes, [{"status_code": 401}, {"json": {}}, {"status_code": 401}])
    assert channel.send("GET", "/nodes").status == 200
    assert tokens(http) == 2, "one that has expired is renewed"
    assert http.last_request.headers["X-Auth-Token"] == "renewed"
    assert channel.send("GET", "/nodes").status == 401, "once for each request"
    assert tokens(http) == 3


def test_refused_credentials_are_called_so(connect: Connect, http: Mocker) -> None:
    http.post(f"{KEYSTONE}/auth/tokens", status_code=401, json={"error": {"message": "no"}})
    with pytest.raises(exceptions.IronicUnauthorized) as caught:
        connect(PASSWORD).send("GET", "/nodes")
    assert SECRET not in str(caught.value)


# -- broken connections ---------------------------------------------------------------


@pytest.mark.parametrize(
    "told",
    [
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired",
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch",
        "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca",
    ],
)
@pytest.mark.parametrize(
    ("lines", "whose"),
    [*((lines, IRONIC) for lines in (NONE, *DISCOVERS.values())), (PASSWORD, KEYSTONE)],
)
def test_an_untrusted_certificate_is_a_wrong_option_at_once(connect, http, lines, whose, told):
    at = re.compile(f"{re.escape(whose)}.*")
    http.register_uri(ANY, at, exc=requests.exceptions.SSLError(told))
    with pytest.raises(exceptions.CertificateNotTrusted, match="cafile") as caught:
        IronicClient(connect(lines)).get_node("some-node")
    assert not answers.is_transient(caught.value)


def test_a_file_of_certificates_that_is_missing_is_one_too(connect: Connect) -> None:
    lines = "auth_type = none\nendpoint_override = https://ironic.invalid\ncafile = /no/such.pem"
    with pytest.raises(exceptions.CertificateNotTrusted, match=r"/no/such\.pem.*cafile"):
        connect(lines).send("GET", "/nodes")


def test_a_name_that_no_host_can_have_is_no_answer(connect: Connect) -> None:
    with pytest.raises(exceptions.IronicUnreachable, match=r"http://ironic\.\.invalid"):
        connect(DISCOVERS["none"].replace("ironic.", "ironic..")).send("GET", "/nodes")


def test_what_tls_has_to_be_reaches_the_connections(connect: Connect) -> None:
    if "tls_min_version" not in {opt.dest for opt in loading.get_session_conf_options()}:
        pytest.skip("this keystoneauth1 has no such option")
    channel = connect(f"{NONE}\ntls_min_version = 1.3")
    adapter = channel._adapter.session.session.get_adapter("https://ironic.invalid")
    assert adapter.tls_min_version == "1.3"


@pytest.mark.parametrize("auth", [DISCOVERS["basic"], PASSWORD])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(connect: Connect, http: Mocker, auth: str, status: int) -> None:
    there = "https://elsewhere.invalid/v1/nodes/n"
    http.patch(f"{IRONIC}/v1/nodes/n", status_code=status, headers={"Location": there})
    with pytest.raises(exceptions.UnexpectedAnswer) as caught:
        connect(auth).send("PATCH", "/nodes/n", json=[{"op": 1}], params={"secret": "1"})
    assert f"{IRONIC}/v1/nodes/n redirects to {there}" in str(caught.value)
    assert not [sent for sent in http.request_history if "elsewhere" in sent.url]


def test_credentials_are_not_sent_where_keystone_redirects(connect: Connect, http: Mocker) -> None:
    there = {"Location": "https://elsewhere.invalid/v3/auth/tokens"}
    http.post(f"{KEYSTONE}/auth/tokens", status_code=308, headers=there)
    with pytest.raises(exceptions.UnexpectedAnswer, match=f"{KEYSTONE}.*redirects to.*elsewhere"):
        connect(PASSWORD).send("GET", "/nodes")
    assert not [sent for sent in http.request_history if "elsewhere" in sent.url]


def looking(connect: Connect, clock: Callable[[], float]) -> KeystoneChannel:
    """A channel that looks its endpoint up within a request, when that is due."""
    made = connect(PASSWORD)._adapter
    return KeystoneChannel(made, 5.0, endpoint=Endpoint(made, clock, lambda look: look()))


def test_the_endpoint_is_looked_up_again_after_it_failed(connect: Connect, http: Mocker) -> None:
    now = 1000.0
    http.get(ANY, json={})
    channel = looking(connect, lambda: now)
    channel.send("GET", "/nodes")
    serve_keystone(http, catalog("internal", url="http://moved.invalid:6385"))
    http.get(f"{IRONIC}/v1/nodes", exc=requests.ConnectionError("gone"))
    for _ in range(3):
        with pytest.raises(exceptions.IronicUnreachable):
            channel.send("GET", "/nodes")
    assert tokens(http) == 1, "not at each failure: Keystone may be well off without them"
    now += LOOK_UP_AGAIN
    # A token that still does is kept while there is no other.
    http.post(f"{KEYSTONE}/auth/tokens", status_code=503)
    with pytest.raises(exceptions.IronicUnreachable, match="gone"):
        channel.send("GET", "/nodes")
    asked = tokens(http)
    now += LOOK_UP_AGAIN
    serve_keystone(http, catalog("internal", url="http://moved.invalid:6385"))
    http.get("http://moved.invalid:6385/v1/nodes", json={})
    with pytest.raises(exceptions.IronicUnreachable, match="gone"):
        channel.send("GET", "/nodes")
    assert tokens(http) == asked, "a Keystone that fails is asked more seldom"
    now += LOOK_UP_AGAIN
    assert channel.send("GET", "/nodes").status == 200


def test_a_hanging_keystone_holds_up_nothing_with_a_good_token(connect, http) -> None:
    now, over = 1000.0, threading.Event()
    made = connect(PASSWORD)
    channel = KeystoneChannel(made._adapter, 5.0, endpoint=Endpoint(made._adapter, lambda: now))
    channel.send("GET", "/nodes")

    # Not by the mocker, which lets in one request at a time.
    hangs: list[object] = []

    def hang(session: object) -> None:
        hangs.append(session)
        assert over.wait(60)
        raise requests.ReadTimeout

    http.get(f"{IRONIC}/v1/nodes/hangs", exc=requests.ReadTimeout)
    before = set(threading.enumerate())
    made._auth.get_auth_ref = hang
    for _ in range(5):
        with pytest.raises(exceptions.IronicUnreachable):
            channel.send("GET", "/nodes/hangs")
        now += LOOK_UP_AGAIN
        assert channel.send("GET", "/nodes").status == 200
    (look,) = set(threading.enumerate()) - before
    assert (look.name, look.daemon) == ("ironic-virt-endpoint", True), "a process can end"
    over.set()
    look.join(60)
    assert len(hangs) == 1
    assert channel.send("GET", "/nodes").status == 200


def test_a_look_at_the_catalogue_costs_a_request_nothing(connect: Connect, http: Mocker) -> None:
    now = 1000.0
    looks: list[Callable[[], None]] = []
    endpoint = Endpoint(connect(PASSWORD)._adapter, lambda: now, looks.append)

    def see_no_look() -> None:
        nonlocal now
        now += LOOK_UP_AGAIN
        endpoint.url()
        assert not looks, "nothing has failed there"

    endpoint.url()
    see_no_look()
    for there in ("http://moved.invalid:6385", "http://back.invalid:6385"):
        before = endpoint.url()
        serve_keystone(http, catalog("internal", url=there))
        http.get(there, json=versions(there))
        endpoint.failed()
        # As often again after a look that went well.
        now += LOOK_UP_AGAIN
        assert endpoint.url() == before
        looks.pop()()
        http.reset_mock()
        assert endpoint.url() == f"{there}/v1"
        assert http.request_history == []
    see_no_look()


@pytest.mark.parametrize("lines", [NONE, DISCOVERS["both"]])
def test_an_endpoint_that_is_an_option_is_not_looked_up_again(connect, http, lines) -> None:
    now = 1000.0
    looks: list[Callable[[], None]] = []
    endpoint = Endpoint(connect(lines)._adapter, lambda: now, looks.append)
    endpoint.url()
    endpoint.failed()
    now += LOOK_UP_AGAIN
    endpoint.url()
    assert not looks


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (catalog(), "endpoint_override"),
        (catalog("admin"), "endpoint_override"),
        (catalog("internal", service_type="compute"), "endpoint_override"),
        (catalog("internal"), "gone"),
    ],
    ids=["no endpoint", "another interface", "another service", "no answer"],
)
def test_what_was_not_there_at_the_start_is_looked_up_again(connect, http, token, says) -> None:
    now = 1000.0
    http.get(IRONIC, exc=requests.ConnectionError("gone"))
    serve_keystone(http, token)
    channel = looking(connect, lambda: now)
    moved = "http://moved.invalid:6385"
    http.get(moved, json=versions(moved))
    http.get(f"{moved}/v1/nodes", json={})
    for _ in range(2):
        with pytest.raises(exceptions.IronicUnreachable, match=says):
            channel.send("GET", "/nodes")
        serve_keystone(http, catalog("internal", url=moved))
        now += LOOK_UP_AGAIN / 2
    assert tokens(http) == 1
    assert channel.send("GET", "/nodes").status == 200


def tokens(http: Mocker) -> int:
    return sum(sent.method == "POST" for sent in http.request_history)


def test_all_who_need_a_token_share_the_end_of_one_request(connect: Connect, http: Mocker) -> None:
    held_up = scripted.HeldUp(requests.ConnectTimeout("too slow"))
    http.post(f"{KEYSTONE}/auth/tokens", text=held_up)
    channel = connect(PASSWORD)
    caught = held_up.errors_of([lambda: channel.send("GET", "/nodes")] * 12)
    assert [type(error) for error in caught] == [exceptions.IronicUnreachable] * 12
    assert tokens(http) == 1


def test_a_body_that_is_cut_off_is_no_answer(connect: Connect, http: Mocker) -> None:
    http.get(
        ANY,
        raw=urllib3.HTTPResponse(
            body=io.BytesIO(b'{"nodes": [{"uuid": "a"}, {"uu'),
            headers={"Content-Length": "5000"},
            status=200,
            preload_content=False,
            enforce_content_length=False,
        ),
    )
    with pytest.raises(exceptions.IronicUnreachable):
        connect().send("GET", "/nodes")


@pytest.mark.parametrize(("lines", "used"), [("", DEFAULT_TIMEOUT), ("timeout = 7", 7)])
def test_every_request_has_a_timeout_to_keystone_too(connect, http, lines, used) -> None:
    serve_keystone(http, catalog("public", "internal"))
    connect(f"{PASSWORD}\n{lines}").send("GET", "/nodes")
    assert {request.timeout for request in http.request_history} == {used}
    asked = {request.url for request in http.request_history}
    assert {f"{KEYSTONE}/auth/tokens", f"{IRONIC}/v1/nodes"} <= asked


# -- what is logged -------------------------------------------------------------------


@pytest.fixture
def everything_logged() -> Iterator[io.StringIO]:
    """What all loggers say at DEBUG, also those that don't pass it on."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    named = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    named += [
        logging.getLogger(name) for name in ("keystoneauth", "openstack", "urllib3", "requests")
    ]
    loggers = [logging.getLogger(), *named]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
    yield stream
    for logger, level in zip(loggers, levels, strict=True):
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.mark.parametrize("status", [202, 400, 401, 500])
@pytest.mark.parametrize("auth", [PASSWORD, DISCOVERS["basic"]])
def test_neither_bodies_nor_credentials_are_logged(connect, http, everything_logged, auth, status):
    http.get(f"{IRONIC}/v1", json={"version": {"min_version": "1.1", "version": "1.115"}})
    http.get(f"{IRONIC}/v1/nodes/some-node", status_code=404)
    http.put(ANY, status_code=status, json={"private": SECRET, "error_message": "e"})
    client = IronicClient(connect(auth))
    try:
        client.set_provision_state(
            "some-node", "active", applied=bool, configdrive={"user_data": SECRET}
        )
    except exceptions.IronicError:
        assert status != 202
    texts = [sent.text for sent in http.request_history if sent.method == "PUT"]
    assert SECRET in texts[-1], "the request did carry it"
    logged = everything_logged.getvalue()
    assert "/nodes/some-node/states/provision" in logged, "and was logged, but without it"
    assert SECRET not in logged
    assert BASIC_SECRET not in logged


def test_a_client_by_the_options_lets_its_requests_be_observed(client, http) -> None:
    told: list[str] = []
    made = client(NONE, "api_max_retries = 0", observe=lambda *request: told.append(request[2]))
    http.get(f"{IRONIC}/v1", status_code=502)
    for one in (made, made.single_try()):
        with pytest.raises(exceptions.IronicUnavailable):
            _ = one.versions
    assert told == ["502", "502"]


@pytest.mark.parametrize(("given", "waited"), [(1.5, 1.5), (90.0, 4.0)])
def test_a_client_for_hasty_requests_waits_no_longer_than_usual(client, http, given, waited):
    http.get(f"{IRONIC}/v1", json={"version": {"min_version": "1.1", "version": "1.115"}})
    http.get(f"{IRONIC}/v1/nodes/n1", status_code=404)
    made = client(NONE, "timeout = 4")
    for one in (made.single_try().within(given), made):
        with pytest.raises(exceptions.NotFound):
            one.get_node("n1")
    timeouts = [request.timeout for request in http.request_history]
    assert timeouts == [waited, waited, 4.0], "also for the versions"


def test_an_unreadable_answer_of_keystone_is_forgotten(connect: Connect, http: Mocker) -> None:
    token = catalog("public")
    serve_keystone(http, token)
    http.get(KEYSTONE, json={"version": {"id": "v3.14", "status": [], "links": []}})
    http.get(f"{IRONIC}/v1/nodes", json={"nodes": []})
    channel = connect(PASSWORD)
    with pytest.raises(exceptions.IronicUnreachable, match="Keystone's answer can't be read"):
        channel.send("GET", "/nodes")
    serve_keystone(http, token)
    assert channel.send("GET", "/nodes").status == 200
