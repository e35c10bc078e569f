# SPDX-License-Identifier: Apache-2.0

"""From options to single HTTP requests, and what a broken connection becomes."""

from __future__ import annotations

import base64
import io
import logging
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
import requests_mock
import urllib3

from ironic_virt import conf, exceptions
from ironic_virt.baremetal import answers
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.connection import (
    DEFAULT_TIMEOUT,
    LOOK_UP_AGAIN,
    KeystoneChannel,
    ObservedChannel,
)
from tests.unit.baremetal import scripted

IRONIC = "http://ironic.invalid:6385"
KEYSTONE = "http://keystone.invalid/v3"
SECRET = "correct horse battery staple"

NONE = f"auth_type = none\nendpoint_override = {IRONIC}"
BASIC = f"auth_type = http_basic\nusername = admin\npassword = {SECRET}"
PASSWORD = (
    f"auth_type = password\nauth_url = {KEYSTONE}\nusername = nova\npassword = {SECRET}\n"
    "project_name = service\nuser_domain_name = Default\nproject_domain_name = Default"
)

Connect = Callable[..., KeystoneChannel]


@pytest.fixture
def connect(tmp_path: pathlib.Path) -> Connect:
    """A channel by these lines in ``[ironic]``."""

    def with_lines(lines: str = NONE) -> KeystoneChannel:
        path = tmp_path / "ironic-virt.conf"
        path.write_text(f"[ironic]\n{lines}\n")
        return KeystoneChannel.from_conf(conf.load([str(path)]))

    return with_lines


@pytest.fixture
def http() -> Iterator[requests_mock.Mocker]:
    with requests_mock.Mocker() as mocker:
        yield mocker


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


def serve_keystone(http: requests_mock.Mocker, token: dict[str, Any]) -> None:
    version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": KEYSTONE}]}
    http.get(KEYSTONE, json={"version": version})
    http.post(
        f"{KEYSTONE}/auth/tokens", json=token, headers={"X-Subject-Token": f"token {SECRET}"}
    )


# -- where to, and with what --------------------------------------------------------


@pytest.mark.parametrize(
    "endpoint", [IRONIC, f"{IRONIC}/", f"{IRONIC}/v1", f"{IRONIC}/v1/", f"{IRONIC}/baremetal"]
)
def test_a_path_is_below_v1_however_the_endpoint_is_written(
    connect: Connect, http: requests_mock.Mocker, endpoint: str
) -> None:
    http.get(requests_mock.ANY, json={})
    connect(f"auth_type = none\nendpoint_override = {endpoint}").send("GET", "/nodes")
    root = f"{IRONIC}/baremetal" if endpoint.endswith("baremetal") else IRONIC
    assert [request.url for request in http.request_history] == [f"{root}/v1/nodes"]


def test_the_endpoint_of_the_plugin_will_do(connect: Connect, http: requests_mock.Mocker) -> None:
    http.get(f"{IRONIC}/v1/nodes", json={})
    assert connect(f"auth_type = none\nendpoint = {IRONIC}").send("GET", "/nodes").status == 200


def test_no_discovery_precedes_a_request(connect: Connect, http: requests_mock.Mocker) -> None:
    # A discovery that fails must not lead to a wrong URL.
    http.get(f"{IRONIC}/v1/nodes", json={})
    connect().send("GET", "/nodes")
    assert len(http.request_history) == 1


def test_an_answer_is_status_headers_and_body(
    connect: Connect, http: requests_mock.Mocker
) -> None:
    http.get(f"{IRONIC}/v1/nodes", content=b'{"nodes": []}', headers={"X-Some": "thing"})
    answer = connect().send("GET", "/nodes")
    assert (answer.status, answer.body) == (200, b'{"nodes": []}')
    assert answer.headers["x-some"] == "thing"


@pytest.mark.parametrize("status", [204, 400, 401, 404, 409, 500, 503])
def test_whatever_the_status_the_answer_is_handed_over(
    connect: Connect, http: requests_mock.Mocker, status: int
) -> None:
    http.get(f"{IRONIC}/v1/nodes", status_code=status)
    assert connect().send("GET", "/nodes").status == status
    assert len(http.request_history) == 1, "retries are the client's"


def test_a_version_is_sent_under_both_of_its_names(
    connect: Connect, http: requests_mock.Mocker
) -> None:
    http.get(f"{IRONIC}/v1/nodes", json={})
    connect().send("GET", "/nodes", version="1.82")
    headers = http.request_history[0].headers
    assert headers["X-OpenStack-Ironic-API-Version"] == "1.82"
    assert headers["OpenStack-API-Version"] == "baremetal 1.82"


def test_without_a_version_none_is_sent(connect: Connect, http: requests_mock.Mocker) -> None:
    http.get(f"{IRONIC}/v1", json={})
    connect().send("GET", "")
    assert not [name for name in http.request_history[0].headers if "version" in name.lower()]


def test_parameters_and_body_are_sent(connect: Connect, http: requests_mock.Mocker) -> None:
    http.patch(requests_mock.ANY, json={})
    connect().send("PATCH", "/nodes/n", params={"a": "1", "shard": ["x", "y"]}, json=[{"op": 1}])
    request = http.request_history[0]
    assert request.query == "a=1&shard=x&shard=y"
    assert request.json() == [{"op": 1}]


def test_an_empty_parameter_is_sent(connect: Connect, http: requests_mock.Mocker) -> None:
    # conductor_group= is the default group; leaving it out would be any group.
    http.get(requests_mock.ANY, json={})
    connect().send("GET", "/nodes", params={"conductor_group": ""})
    assert http.request_history[0].url == f"{IRONIC}/v1/nodes?conductor_group="


# -- authentication -------------------------------------------------------------------


def test_without_authentication_no_credentials_are_sent(
    connect: Connect, http: requests_mock.Mocker
) -> None:
    http.get(f"{IRONIC}/v1/nodes", json={})
    connect().send("GET", "/nodes")
    assert "Authorization" not in http.request_history[0].headers


def test_basic_authentication(connect: Connect, http: requests_mock.Mocker) -> None:
    http.get(f"{IRONIC}/v1/nodes", json={})
    connect(f"{BASIC}\nendpoint_override = {IRONIC}").send("GET", "/nodes")
    expected = base64.b64encode(f"admin:{SECRET}".encode()).decode()
    assert http.request_history[0].headers["Authorization"] == f"Basic {expected}"


def test_the_url_comes_from_the_catalog_once(connect: Connect, http: requests_mock.Mocker) -> None:
    serve_keystone(http, catalog("internal"))
    http.get(f"{IRONIC}/v1/nodes", json={})
    channel = connect(PASSWORD)
    channel.send("GET", "/nodes")
    channel.send("GET", "/nodes")
    to_ironic = [request for request in http.request_history if request.url.startswith(IRONIC)]
    assert [request.headers["X-Auth-Token"] for request in to_ironic] == [f"token {SECRET}"] * 2
    assert sum(request.method == "POST" for request in http.request_history) == 1


def test_an_expired_token_is_renewed(connect: Connect, http: requests_mock.Mocker) -> None:
    serve_keystone(http, catalog("internal"))
    http.get(f"{IRONIC}/v1/nodes", [{"status_code": 401}, {"json": {}}])
    assert connect(PASSWORD).send("GET", "/nodes").status == 200
    assert sum(request.method == "POST" for request in http.request_history) == 2


@pytest.mark.parametrize(
    "token",
    [catalog(), catalog("admin"), catalog("internal", service_type="compute")],
    ids=["no endpoint", "another interface", "another service"],
)
def test_a_catalog_without_ironic_is_an_error_that_names_the_options(
    connect: Connect, http: requests_mock.Mocker, token: dict[str, Any]
) -> None:
    serve_keystone(http, token)
    with pytest.raises(exceptions.IronicUnreachable, match="endpoint_override"):
        connect(PASSWORD).send("GET", "/nodes")


def test_a_catalog_is_asked_for_again_after_it_lacked_ironic(
    connect: Connect, http: requests_mock.Mocker
) -> None:
    serve_keystone(http, catalog())
    channel = connect(PASSWORD)
    with pytest.raises(exceptions.IronicUnreachable):
        channel.send("GET", "/nodes")
    channel._adapter.session.auth.invalidate()
    serve_keystone(http, catalog("internal"))
    http.get(f"{IRONIC}/v1/nodes", json={})
    assert channel.send("GET", "/nodes").status == 200


def test_refused_credentials_are_called_so(connect: Connect, http: requests_mock.Mocker) -> None:
    serve_keystone(http, catalog("internal"))
    http.post(f"{KEYSTONE}/auth/tokens", status_code=401, json={"error": {"message": "no"}})
    with pytest.raises(exceptions.IronicUnauthorized) as caught:
        connect(PASSWORD).send("GET", "/nodes")
    assert SECRET not in str(caught.value)


def test_a_keystone_that_does_not_answer_is_unreachable(
    connect: Connect, http: requests_mock.Mocker
) -> None:
    http.register_uri(requests_mock.ANY, requests_mock.ANY, exc=requests.ConnectionError("no"))
    with pytest.raises(exceptions.IronicUnreachable):
        connect(PASSWORD).send("GET", "/nodes")


# -- broken connections ---------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        requests.ConnectionError("Connection refused"),
        requests.ConnectTimeout("too slow to connect"),
        requests.ReadTimeout("too slow to answer"),
        requests.exceptions.ChunkedEncodingError("cut off"),
        requests.exceptions.ContentDecodingError("not gzip"),
        requests.exceptions.SSLError("EOF occurred in violation of protocol"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_answer_is_one_kind_of_error(
    connect: Connect, http: requests_mock.Mocker, broken: Exception
) -> None:
    http.get(requests_mock.ANY, exc=broken)
    with pytest.raises(exceptions.IronicUnreachable) as caught:
        connect().send("GET", "/nodes")
    assert (caught.value.method, caught.value.path) == ("GET", "/nodes")
    assert len(http.request_history) == 1, "retries are the client's"


@pytest.mark.parametrize(
    "told",
    [
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired",
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch",
        "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca",
    ],
)
@pytest.mark.parametrize("lines", [NONE, PASSWORD])
def test_a_certificate_that_is_not_trusted_is_a_wrong_option_at_once(
    connect: Connect, http: requests_mock.Mocker, lines: str, told: str
) -> None:
    http.register_uri(requests_mock.ANY, requests_mock.ANY, exc=requests.exceptions.SSLError(told))
    with pytest.raises(exceptions.CertificateNotTrusted, match="cafile") as caught:
        IronicClient(connect(lines)).get_node("some-node")
    assert not answers.is_transient(caught.value)


def test_a_file_of_certificates_that_is_missing_is_one_too(connect: Connect) -> None:
    lines = "auth_type = none\nendpoint_override = https://ironic.invalid\ncafile = /no/such.pem"
    with pytest.raises(exceptions.CertificateNotTrusted, match=r"/no/such\.pem.*cafile"):
        connect(lines).send("GET", "/nodes")


def test_what_tls_has_to_be_reaches_the_connections(connect: Connect) -> None:
    channel = connect(f"{NONE}\ntls_min_version = 1.3")
    adapter = channel._adapter.session.session.get_adapter("https://ironic.invalid")
    assert adapter.tls_min_version == "1.3"


@pytest.mark.parametrize("auth", [f"{BASIC}\nendpoint_override = {IRONIC}", PASSWORD])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(
    connect: Connect, http: requests_mock.Mocker, auth: str, status: int
) -> None:
    there = "https://elsewhere.invalid/v1/nodes/n"
    serve_keystone(http, catalog("internal"))
    http.patch(f"{IRONIC}/v1/nodes/n", status_code=status, headers={"Location": there})
    with pytest.raises(exceptions.UnexpectedAnswer) as caught:
        connect(auth).send("PATCH", "/nodes/n", json=[{"op": 1}], params={"secret": "1"})
    assert f"{IRONIC}/v1/nodes/n redirects to {there}" in str(caught.value)
    assert not [sent for sent in http.request_history if "elsewhere" in sent.url]


def test_credentials_are_not_sent_where_keystone_redirects(
    connect: Connect, http: requests_mock.Mocker
) -> None:
    serve_keystone(http, catalog("internal"))
    there = {"Location": "https://elsewhere.invalid/v3/auth/tokens"}
    http.post(f"{KEYSTONE}/auth/tokens", status_code=308, headers=there)
    with pytest.raises(exceptions.UnexpectedAnswer, match=f"{KEYSTONE}.*redirects to.*elsewhere"):
        connect(PASSWORD).send("GET", "/nodes")
    assert not [sent for sent in http.request_history if "elsewhere" in sent.url]


def test_the_endpoint_is_looked_up_again_after_it_failed(
    connect: Connect, http: requests_mock.Mocker
) -> None:
    now = 1000.0
    serve_keystone(http, catalog("internal"))
    http.get(requests_mock.ANY, json={})
    made = connect(PASSWORD)
    channel = KeystoneChannel(made._adapter, 5.0, clock=lambda: now)
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
    now += LOOK_UP_AGAIN
    serve_keystone(http, catalog("internal", url="http://moved.invalid:6385"))
    http.get("http://moved.invalid:6385/v1/nodes", json={})
    assert channel.send("GET", "/nodes").status == 200


def tokens(http: requests_mock.Mocker) -> int:
    return sum(sent.method == "POST" for sent in http.request_history)


def test_all_who_need_a_token_share_the_end_of_one_request(
    connect: Connect, http: requests_mock.Mocker
) -> None:
    count = 12
    asked, release = threading.Semaphore(0), threading.Event()

    def hang(request: object, context: object) -> None:
        asked.release()
        assert release.wait(60)
        raise requests.ConnectTimeout("too slow")

    serve_keystone(http, catalog("internal"))
    http.post(f"{KEYSTONE}/auth/tokens", text=hang)
    channel = connect(PASSWORD)
    caught: list[Exception] = []

    def send() -> None:
        try:
            channel.send("GET", "/nodes")
        except exceptions.IronicError as exc:
            caught.append(exc)

    threads = [threading.Thread(target=send) for _ in range(count)]
    with scripted.joined() as waiters:
        for thread in threads:
            thread.start()
        assert asked.acquire(timeout=60)
        for _ in range(count - 1):
            assert waiters.acquire(timeout=60)
        release.set()
    for thread in threads:
        thread.join(60)
    assert [type(error) for error in caught] == [exceptions.IronicUnreachable] * count
    assert tokens(http) == 1


def test_a_body_that_is_cut_off_is_no_answer(connect: Connect, http: requests_mock.Mocker) -> None:
    http.get(
        requests_mock.ANY,
        raw=urllib3.HTTPResponse(
            body=io.BytesIO(b'{"nodes": [{"uuid": "a"}, {"uu'),
            headers={"Content-Length": "5000"},
            status=200,
            preload_content=False,
            enforce_content_length=True,
        ),
    )
    with pytest.raises(exceptions.IronicUnreachable):
        connect().send("GET", "/nodes")


@pytest.mark.parametrize(("lines", "used"), [("", DEFAULT_TIMEOUT), ("timeout = 7", 7)])
def test_every_request_has_a_timeout(
    connect: Connect, http: requests_mock.Mocker, lines: str, used: float
) -> None:
    http.get(requests_mock.ANY, json={})
    connect(f"{NONE}\n{lines}").send("GET", "/nodes")
    assert http.request_history[0].timeout == used


@pytest.mark.parametrize(("lines", "used"), [("", DEFAULT_TIMEOUT), ("timeout = 7", 7)])
def test_keystone_is_not_waited_for_for_ever(
    connect: Connect, http: requests_mock.Mocker, lines: str, used: float
) -> None:
    serve_keystone(http, catalog("public", "internal"))
    http.get(f"{IRONIC}/v1/nodes", json={})
    connect(f"{PASSWORD}\n{lines}").send("GET", "/nodes")
    assert {request.timeout for request in http.request_history} == {used}
    assert f"{KEYSTONE}/auth/tokens" in {request.url for request in http.request_history}


# -- what is logged -------------------------------------------------------------------


@pytest.fixture
def everything_logged() -> Iterator[io.StringIO]:
    """What all loggers say at DEBUG, also those that don't pass it on."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    named = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    named += [logging.getLogger(name) for name in ("keystoneauth", "urllib3", "requests")]
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
@pytest.mark.parametrize("auth", [PASSWORD, f"{BASIC}\nendpoint_override = {IRONIC}"])
def test_neither_bodies_nor_credentials_are_logged(
    connect: Connect,
    http: requests_mock.Mocker,
    everything_logged: io.StringIO,
    auth: str,
    status: int,
) -> None:
    serve_keystone(http, catalog("internal"))
    http.get(f"{IRONIC}/v1", json={"version": {"min_version": "1.1", "version": "1.115"}})
    http.put(requests_mock.ANY, status_code=status, json={"private": SECRET, "error_message": "e"})
    client = IronicClient(connect(auth))
    try:
        client.set_provision_state(
            "some-node", "active", applied=bool, configdrive={"user_data": SECRET}
        )
    except exceptions.IronicError:
        assert status != 202
    sent = http.request_history[-1]
    assert SECRET in sent.text, "the request did carry it"
    logged = everything_logged.getvalue()
    assert "/nodes/some-node/states/provision" in logged, "and was logged, but without it"
    assert SECRET not in logged
    assert base64.b64encode(f"admin:{SECRET}".encode()).decode() not in logged


def test_each_request_is_told_of_with_its_answer_or_that_there_was_none(
    connect: Connect, http: requests_mock.Mocker
) -> None:
    told: list[tuple[str, int | None, float]] = []
    clock = iter([1.0, 1.5, 2.0, 4.0, 5.0, 5.25])
    channel = ObservedChannel(
        connect(), lambda *request: told.append(request), clock=lambda: next(clock)
    )
    http.get(f"{IRONIC}/v1/nodes", [{"text": "{}"}, {"status_code": 503}])
    http.put(f"{IRONIC}/v1/nodes", exc=requests.exceptions.ConnectTimeout)
    assert channel.send("GET", "/nodes").status == 200
    assert channel.send("GET", "/nodes").status == 503
    with pytest.raises(exceptions.IronicUnreachable):
        channel.send("PUT", "/nodes")
    assert told == [("GET", 200, 0.5), ("GET", 503, 2.0), ("PUT", None, 0.25)]


def test_a_client_by_the_options_lets_its_requests_be_observed(
    tmp_path: pathlib.Path, http: requests_mock.Mocker
) -> None:
    path = tmp_path / "ironic-virt.conf"
    path.write_text(f"[ironic]\n{NONE}\napi_max_retries = 0\n")
    told: list[int | None] = []
    client = IronicClient.from_conf(
        conf.load([str(path)]), lambda method, status, seconds: told.append(status)
    )
    http.get(f"{IRONIC}/v1", status_code=502)
    with pytest.raises(exceptions.IronicUnavailable):
        _ = client.versions
    with pytest.raises(exceptions.IronicUnavailable):
        _ = client.single_try().versions
    assert told == [502, 502]


@pytest.mark.parametrize(("given", "waited"), [(1.5, 1.5), (90.0, 4.0)])
def test_a_client_for_hasty_requests_waits_no_longer_than_usual(
    tmp_path: pathlib.Path, http: requests_mock.Mocker, given: float, waited: float
) -> None:
    http.get(f"{IRONIC}/v1", json={"version": {"min_version": "1.1", "version": "1.115"}})
    http.get(f"{IRONIC}/v1/nodes/n1", status_code=404)
    path = tmp_path / "ironic-virt.conf"
    path.write_text(f"[ironic]\n{NONE}\ntimeout = 4\n")
    client = IronicClient.from_conf(conf.load([str(path)]))
    for one in (client.single_try().within(given), client):
        with pytest.raises(exceptions.NotFound):
            one.get_node("n1")
    timeouts = [request.timeout for request in http.request_history if "n1" in request.path]
    assert timeouts == [waited, 4.0]
