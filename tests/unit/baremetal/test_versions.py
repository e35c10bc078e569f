# SPDX-License-Identifier: Apache-2.0

"""Which API version is spoken, and what an old server is not asked."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.negotiation import OLDER_FOR_A_WHILE, PERIOD
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.baremetal.http.versions import BASE, Feature, Microversion, ServerVersions
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.sharding.selector import TargetSet
from tests.unit.baremetal import scripted
from tests.unit.baremetal.scripted import ScriptedChannel, answer, client_of, page

# Source: Ironic's REST API version history.
INTRODUCED = {
    Feature.VOLUMES: "1.32",
    Feature.DETAIL: "1.43",
    Feature.CONDUCTOR_GROUP: "1.46",
    Feature.PROTECTED: "1.48",
    Feature.OWNER: "1.50",
    Feature.ALLOCATIONS: "1.52",
    Feature.JSON_CONFIG_DRIVE: "1.56",
    Feature.VENDOR_DATA: "1.59",
    Feature.RETIRED: "1.61",
    Feature.LESSEE: "1.65",
    Feature.DEPLOY_STEPS: "1.69",
    Feature.HISTORY: "1.78",
    Feature.SHARD: "1.82",
    Feature.HOLD: "1.85",
    Feature.DISABLE_POWER_OFF: "1.95",
    Feature.INSTANCE_NAME: "1.104",
    Feature.HEALTH: "1.109",
}


def server(lowest: str, highest: str) -> ServerVersions:
    return ServerVersions(Microversion.parse(lowest), Microversion.parse(highest))


def test_the_table_is_complete_and_agrees_with_ironic_s_history() -> None:
    assert {feature: str(feature.version) for feature in Feature} == INTRODUCED


@pytest.mark.parametrize("text", ["", "1", "1.", "1.2.3", "one.two", "latest"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Microversion.parse(text)


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name)
def test_a_feature_is_there_from_its_version_on_and_named_before(feature: Feature) -> None:
    assert server("1.1", str(feature.version)).has(feature)
    found = str(Microversion(1, feature.version.minor - 1))
    assert not server("1.1", found).has(feature)
    with pytest.raises(exceptions.MicroversionNotSupported) as caught:
        server("1.1", found).require(feature)
    assert all(said in str(caught.value) for said in (feature.words, INTRODUCED[feature], found))
    assert (caught.value.needed, caught.value.found) == (INTRODUCED[feature], found)


def test_the_lowest_version_that_carries_all_is_spoken() -> None:
    new = server("1.1", "1.115")
    assert new.carrying() == BASE
    assert new.carrying(Feature.CONDUCTOR_GROUP) == Microversion(1, 46)
    assert new.carrying(Feature.SHARD, Feature.CONDUCTOR_GROUP) == Microversion(1, 82)
    without_old_ones = server("1.90", "1.115")
    assert without_old_ones.carrying(Feature.SHARD) == Microversion(1, 90)
    with pytest.raises(exceptions.MicroversionNotSupported, match=r"1\.38.*1\.37"):
        server("1.1", "1.37").carrying()


# -- negotiation ------------------------------------------------------------------


def test_the_server_is_asked_once_and_without_a_version() -> None:
    channel = ScriptedChannel(
        scripted.versions_answer("1.1", "1.115"), page(), page(), versions=None
    )
    client = client_of(channel)
    client.list_nodes()
    client.list_nodes()
    assert channel.lines == ["GET /", "GET /nodes", "GET /nodes"]
    assert channel.requests[0].version is None


def test_a_server_in_trouble_is_asked_again_for_its_versions_and_a_proxy_later() -> None:
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
    assert client.versions == server("1.1", "1.99")


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


def not_acceptable() -> scripted.Answer:
    return scripted.fault(
        406,
        "Version 1.82 was requested but the minor version is not supported by this service. "
        "The supported version range is: [1.1, 1.80].",
    )


def speaks(highest: str) -> scripted.Answer:
    return scripted.versions_answer("1.1", highest)


def stage(*script: Any, retries: int = 0) -> tuple[IronicClient, ScriptedChannel, scripted.Clock]:
    channel = ScriptedChannel(*script, versions=None)
    clock = scripted.Clock()
    policy = RetryPolicy(retries, 2.0, clock=clock, sleep=clock.sleep, rng=random.Random(1))
    return IronicClient(channel, policy), channel, clock


BLUE = NodeFilter(shard="blue")


def test_after_406_the_versions_are_asked_for_again_and_it_is_sent_once_more() -> None:
    new = speaks("1.115")
    client, channel, _ = stage(
        *(speaks("1.90"), not_acceptable(), new, scripted.node_answer()),
        # A change likewise.
        *(not_acceptable(), new, scripted.answer(202)),
    )
    client.get_node(scripted.NODE)
    assert channel.requests[-1].version == "1.104"
    client.set_power_state(scripted.NODE, "power on", applied=lambda _: False)
    look, power = (f"{what} /nodes/{scripted.NODE}" for what in ("GET", "PUT"))
    power += "/states/power"
    assert channel.lines == ["GET /", look, "GET /", look, power, "GET /", power]


def test_two_refusals_are_no_more_than_a_server_in_trouble() -> None:
    client, channel, _ = stage(*[speaks("1.115"), not_acceptable()] * 2)
    with pytest.raises(exceptions.IronicUnavailable, match="range is"):
        client.list_nodes(BLUE)
    assert len(channel.requests) == 4


def test_an_older_server_that_answers_for_a_while_is_outlived() -> None:
    # One that has not been upgraded yet, behind the same URL as others.
    client, channel, clock = stage(
        speaks("1.115"),
        not_acceptable(),
        *[speaks("1.72")] * 4,
        speaks("1.115"),
        scripted.page(),
        retries=10,
    )
    assert client.list_nodes(BLUE) == []
    assert channel.requests[-1].version == "1.82"
    assert sum(clock.slept) > 4
    assert not channel.script


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.list_nodes(BLUE),
        lambda client: client.get_node(scripted.NODE),
        lambda client: client.has(Feature.SHARD),
        lambda client: client.require(Feature.SHARD),
    ],
)
def test_what_ironic_could_before_is_put_off_and_not_done_without(
    ask: Callable[[IronicClient], object],
) -> None:
    client, channel, clock = stage(speaks("1.115"), *[speaks("1.72")] * 3)
    _ = client.versions
    clock.now += PERIOD
    _ = client.versions
    for _ in range(2):
        clock.now += 2
        with pytest.raises(exceptions.IronicUnavailable, match=r"1\.72 at most.*1\.115 before"):
            ask(client)
    assert set(channel.lines) == {"GET /"}, "asked again each time, and nothing else"


def test_a_server_that_stays_older_is_believed_in_the_end_and_tells_no_shard() -> None:
    client, channel, clock = stage(
        speaks("1.115"), *[speaks("1.72")] * 2, scripted.node_answer(), speaks("1.72")
    )
    _ = client.versions
    for seconds in (PERIOD, OLDER_FOR_A_WHILE):
        clock.now += seconds
        _ = client.versions
    node = client.get_node(scripted.NODE)
    assert channel.requests[-1].version == "1.65"
    assert "shard" not in channel.requests[-1].params["fields"]
    assert {"shard", "instance_name"} <= node.unasked
    assert not {"retired", "conductor_group"} & node.unasked
    with pytest.raises(exceptions.IronicUnavailable, match="shard of the node is not known"):
        TargetSet(shard_key="blue").why_outside(node)
    assert TargetSet().why_outside(node) is None
    clock.now += 2
    with pytest.raises(exceptions.MicroversionNotSupported, match="shard"):
        client.list_nodes(BLUE)


def test_a_newer_server_is_noticed_without_a_restart() -> None:
    client, channel, clock = stage(
        speaks("1.72"), scripted.node_answer(), speaks("1.115"), scripted.node_answer(shard="blue")
    )
    assert "shard" in client.get_node(scripted.NODE).unasked
    clock.now += PERIOD
    node = client.get_node(scripted.NODE)
    assert (node.shard, node.unasked) == ("blue", frozenset())
    assert not channel.script


def test_a_version_that_is_needed_is_asked_for_again_at_once() -> None:
    client, channel, clock = stage(speaks("1.72"), speaks("1.72"), speaks("1.115"), page())
    _ = client.versions
    clock.now += 2
    with pytest.raises(exceptions.MicroversionNotSupported, match="shard"):
        client.list_nodes(BLUE)
    clock.now += 2
    assert client.list_nodes(BLUE) == []
    assert not channel.script


def test_while_versions_can_not_be_asked_the_known_ones_stay() -> None:
    client, channel, clock = stage(
        speaks("1.115"), scripted.lost(), scripted.page(), scripted.page()
    )
    _ = client.versions
    clock.now += PERIOD
    assert client.list_nodes(BLUE) == client.list_nodes(BLUE) == []
    assert channel.lines == ["GET /", "GET /", "GET /nodes", "GET /nodes"]


def test_all_who_ask_at_once_share_one_answer_or_one_error() -> None:
    held_up = scripted.HeldUp(scripted.lost())
    channel = mock.Mock(send=mock.Mock(side_effect=held_up))
    client = client_of(channel, retries=0)
    clients = [client, *(client.single_try() for _ in range(19))]
    calls = [functools.partial(one.get_node, f"node-{n}") for n, one in enumerate(clients)]
    caught = held_up.errors_of(calls)
    assert channel.send.call_count == 1, "one request, whose end was everybody's"
    assert len({id(error) for error in caught}) == len(caught) == 20
    assert {type(error) for error in caught} == {exceptions.IronicUnreachable}
