# SPDX-License-Identifier: Apache-2.0

"""Which API version goes with a request, and what a server of another version changes."""

from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.baremetal.http.versions import (
    MIXED_FOR,
    NEWER_FIELDS,
    Microversion,
    Pinned,
    ServerVersions,
)
from ironic_virt.baremetal.node_filter import NodeFilter
from tests.unit.baremetal import scripted
from tests.unit.baremetal.scripted import NODE, ScriptedChannel, answer, client_of, page

BLUE = NodeFilter(shard="blue")


def server(lowest: str, highest: str) -> ServerVersions:
    return ServerVersions.parse(lowest, highest)


@pytest.mark.parametrize("text", ["", "1", "1.", "1.2.3", "one.two", "latest"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Microversion.parse(text)


@pytest.mark.parametrize(
    ("lowest", "newest", "version", "lacking"),
    [
        ("1.1", "1.90", "1.90", {"disable_power_off", "instance_name", "health"}),
        ("1.1", "1.94", "1.94", {"disable_power_off", "instance_name", "health"}),
        ("1.1", "1.95", "1.95", {"instance_name", "health"}),
        ("1.1", "1.103", "1.103", {"instance_name", "health"}),
        ("1.1", "1.104", "1.104", {"health"}),
        ("1.1", "1.108", "1.108", {"health"}),
        ("1.1", "1.109", "1.109", set()),
        ("1.1", "1.115", "1.109", set()),
        ("1.112", "1.115", "1.112", set()),
    ],
)
def test_the_newest_version_that_both_sides_know_is_spoken(lowest, newest, version, lacking):
    pinned = Pinned.to(server(lowest, newest))
    assert (pinned.version, pinned.lacking) == (version, lacking)


# -- negotiation ------------------------------------------------------------------


def test_versions_are_asked_for_again_after_trouble_and_a_proxy() -> None:
    channel = ScriptedChannel(
        scripted.fault(404, "no such page"),
        scripted.lost(),
        scripted.fault(500, "starting"),
        scripted.fault(503, "starting"),
        scripted.versions_answer("1.1", "1.99"),
        versions=None,
    )
    client = client_of(channel)
    with pytest.raises(exceptions.IronicError, match="no such page"):
        _ = client.versions
    assert client.versions == client.versions == server("1.1", "1.99")
    assert not channel.script


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Welcome to nginx!</html>",
        b"[]",
        b"null",
        b"{}",
        b'{"version": null}',
        b'{"version": {"min_version": "1.1"}}',
        b'{"version": {"min_version": "1.1", "version": "latest"}}',
        b'{"version": {"min_version": 1, "version": 2}}',
        b"\xff",
    ],
)
def test_an_answer_that_is_not_ironic_s_is_called_so(body: bytes) -> None:
    client = client_of(ScriptedChannel(answer(200, body), versions=None))
    with pytest.raises(exceptions.UnexpectedAnswer, match=r"names no API versions.*endpoint"):
        _ = client.versions


def says(reply: Answer, highest: str) -> Answer:
    """An answer with the headers of a server that speaks such versions."""
    named = {"Minimum": "1.1", "Maximum": highest}
    more = {f"X-OpenStack-Ironic-API-{name}-Version": text for name, text in named.items()}
    return Answer(reply.status, {**reply.headers, **more}, reply.body)


def not_acceptable(highest: str | None = None) -> Answer:
    """A version is refused; without the headers if a proxy hides them."""
    refusal = scripted.fault(406, "The supported version range is: [1.1, 1.80].")
    return says(refusal, highest) if highest else refusal


def stage(*script: Any, retries: int = 0) -> tuple[IronicClient, ScriptedChannel, scripted.Clock]:
    channel = ScriptedChannel(*script, versions=None)
    clock = scripted.Clock()
    policy = RetryPolicy(retries, 2.0, clock=clock, sleep=clock.sleep)
    return IronicClient(channel, policy), channel, clock


def sent(channel: ScriptedChannel) -> list[tuple[str, str | None]]:
    return [(str(request), request.version) for request in channel.requests]


@pytest.mark.parametrize(("newest", "said"), [("1.115", "1.112"), ("1.95", "latest")])
def test_an_older_server_that_takes_the_version_changes_nothing(newest: str, said: str) -> None:
    """Nor do headers that are not versions."""
    client, _, _ = stage(scripted.versions_answer("1.1", newest), says(page(), said))
    assert client.list_nodes(BLUE) == []
    assert client.versions == server("1.1", newest)


def test_an_older_api_server_costs_one_request_in_some_minutes() -> None:
    """One of several behind one URL that is not upgraded yet."""
    new, old = (says(scripted.node_answer(), newest) for newest in ("1.115", "1.90"))
    client, channel, clock = stage(
        *(scripted.versions_answer("1.1", "1.115"), new, not_acceptable("1.90"), old),
        *(new, old) * 3,
        *(new, new),
    )
    for _ in range(8):
        client.get_node(NODE)
        clock.now += 1
    versions = [request.version for request in channel.requests]
    assert versions == [None, "1.109", "1.109", *["1.90"] * 7]
    assert clock.slept == []
    fields = channel.requests[-1].params["fields"].split(",")
    assert "shard" in fields, "which decides whose the node is"
    assert not set(fields) & NEWER_FIELDS.keys()
    clock.now += MIXED_FOR
    client.get_node(NODE)
    client.get_node(NODE)
    assert [request.version for request in channel.requests[-2:]] == ["1.90", "1.109"]
    assert not channel.script


@pytest.mark.parametrize("highest", ["1.95", None])
def test_after_406_a_change_is_sent_with_what_the_server_speaks(highest: str | None) -> None:
    body = scripted.whole_json()
    client, channel, _ = stage(
        scripted.versions_answer("1.1", "1.115"), not_acceptable(highest), answer(200, body)
    )
    client.patch_node(NODE, [{"op": "add", "path": "/extra/a", "value": 1}])
    patch = f"PATCH /nodes/{NODE}"
    assert sent(channel) == [("GET /", None), (patch, "1.109"), (patch, highest or "1.90")]


def test_a_server_without_old_versions_is_asked_in_its_own() -> None:
    refusal = not_acceptable()
    headers = {"X-OpenStack-Ironic-API-Minimum-Version": "1.112"}
    headers["X-OpenStack-Ironic-API-Maximum-Version"] = "1.130"
    old = scripted.versions_answer("1.1", "1.90")
    client, channel, _ = stage(old, Answer(406, headers, refusal.body), page())
    client.list_nodes(BLUE)
    assert [request.version for request in channel.requests] == [None, "1.90", "1.112"]


def test_two_refusals_are_no_more_than_a_server_in_trouble() -> None:
    first = scripted.versions_answer("1.1", "1.115")
    client, channel, clock = stage(first, *[not_acceptable()] * 2, page(), retries=1)
    assert client.list_nodes(BLUE) == []
    assert len(channel.requests) == 4
    assert len(clock.slept) == 1


@pytest.mark.parametrize(
    "first",
    [
        lambda client: client.versions,
        lambda client: client.list_nodes(BLUE),
        lambda client: client.get_node(NODE),
        lambda client: client.set_power_state(NODE, "power on", applied=lambda _: False),
    ],
)
def test_a_server_that_is_too_old_is_one_clear_error_each_time(first: Any) -> None:
    class Old(ScriptedChannel):
        def send(self, method: str, path: str, **more: Any) -> Answer:
            super().send(method, path, **more)
            if path == "":
                return says(scripted.versions_answer("1.1", "1.89"), "1.89")
            return not_acceptable("1.89")

    channel = Old(*[answer(200)] * 3, versions=None)
    client = client_of(channel)
    for count in (1, 2):
        with pytest.raises(
            exceptions.MicroversionNotSupported, match=r"this driver needs .*1\.90.*1\.89"
        ):
            first(client)
        assert len(channel.requests) == count, "asked once, and again the next time"
