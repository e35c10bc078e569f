# SPDX-License-Identifier: Apache-2.0

"""From options to single HTTP requests, and what a broken connection becomes."""

from __future__ import annotations

import base64
import io
import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
import requests_mock
import urllib3

from ironic_virt import conf, exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.connection import (
    DEFAULT_TIMEOUT,
    KeystoneChannel,
    ObservedChannel,
)

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


def catalog(*interfaces: str, service_type: str = "baremetal") -> dict[str, Any]:
    endpoints = [
        {"id": name, "interface": name, "region_id": "here", "region": "here", "url": IRONIC}
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
        requests.exceptions.SSLError("certificate verify failed"),
        requests.TooManyRedirects("round and round"),
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
