# SPDX-License-Identifier: Apache-2.0

"""Which API version is spoken, and what an old server is not asked."""

from __future__ import annotations

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import NodeFilter
from ironic_virt.baremetal.versions import BASE, Feature, Microversion, ServerVersions
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
}


def server(lowest: str, highest: str) -> ServerVersions:
    return ServerVersions(Microversion.parse(lowest), Microversion.parse(highest))


def test_the_table_is_complete_and_agrees_with_ironic_s_history() -> None:
    assert {feature: str(feature.version) for feature in Feature} == INTRODUCED


def test_versions_compare_as_numbers_and_read_as_they_are_written() -> None:
    assert Microversion.parse("1.9") < Microversion.parse("1.46") < Microversion.parse("1.115")
    assert str(Microversion.parse("1.115")) == "1.115"


@pytest.mark.parametrize("text", ["", "1", "1.", "1.2.3", "one.two", "latest"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Microversion.parse(text)


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name)
def test_a_feature_is_there_from_its_version_on(feature: Feature) -> None:
    last_without = Microversion(1, feature.version.minor - 1)
    assert server("1.1", str(feature.version)).has(feature)
    assert not server("1.1", str(last_without)).has(feature)


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name)
def test_a_missing_feature_is_named_with_both_versions(feature: Feature) -> None:
    found = str(Microversion(1, feature.version.minor - 1))
    with pytest.raises(exceptions.MicroversionNotSupported) as caught:
        server("1.1", found).require(feature)
    text = str(caught.value)
    assert feature.words in text
    assert INTRODUCED[feature] in text
    assert found in text
    assert (caught.value.needed, caught.value.found) == (INTRODUCED[feature], found)


def test_the_lowest_version_that_carries_all_is_spoken() -> None:
    new = server("1.1", "1.115")
    assert new.carrying() == BASE
    assert new.carrying(Feature.CONDUCTOR_GROUP) == Microversion(1, 46)
    assert new.carrying(Feature.SHARD, Feature.CONDUCTOR_GROUP) == Microversion(1, 82)


def test_a_server_that_has_dropped_old_versions_is_spoken_to_in_its_oldest() -> None:
    assert server("1.90", "1.115").carrying(Feature.SHARD) == Microversion(1, 90)


def test_a_server_older_than_what_the_driver_needs_is_refused() -> None:
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


def test_a_busy_server_is_asked_again_for_its_versions() -> None:
    channel = ScriptedChannel(
        scripted.lost(), scripted.fault(503, "starting"), scripted.versions_answer("1.1", "1.99"),
        versions=None,
    )  # fmt: skip
    assert client_of(channel).versions == server("1.1", "1.99")


def test_an_unknown_range_is_not_remembered() -> None:
    channel = ScriptedChannel(
        scripted.fault(500, "broken"), scripted.versions_answer("1.1", "1.99"), versions=None
    )
    client = client_of(channel)
    with pytest.raises(exceptions.IronicError, match="broken"):
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
    with pytest.raises(exceptions.UnexpectedAnswer, match="names no API versions"):
        _ = client.versions


def not_acceptable() -> scripted.Answer:
    return scripted.fault(
        406,
        "Version 1.82 was requested but the minor version is not supported by this service. "
        "The supported version range is: [1.1, 1.80].",
    )


def test_after_406_the_versions_are_negotiated_anew() -> None:
    channel = ScriptedChannel(
        scripted.versions_answer("1.1", "1.115"),
        not_acceptable(),
        scripted.versions_answer("1.1", "1.60"),
        scripted.node_answer(),
        versions=None,
    )
    client = client_of(channel)
    with pytest.raises(exceptions.IronicError, match="range is") as caught:
        client.get_node(scripted.NODE)
    assert caught.value.status == 406
    client.get_node(scripted.NODE)
    assert channel.requests[-1].version == "1.50"
    assert "shard" not in channel.requests[-1].params["fields"]


def test_who_waits_has_them_negotiated_anew_as_well() -> None:
    channel = ScriptedChannel(
        scripted.versions_answer("1.1", "1.115"),
        not_acceptable(),
        scripted.versions_answer("1.1", "1.60"),
        scripted.node_answer(),
        versions=None,
    )
    waiting = client_of(channel).single_try()
    with pytest.raises(exceptions.IronicError, match="range is"):
        waiting.get_node(scripted.NODE)
    waiting.get_node(scripted.NODE)
    assert channel.requests[-1].version == "1.50"


def test_a_downgrade_under_a_running_service_does_not_lift_its_filter() -> None:
    channel = ScriptedChannel(
        scripted.versions_answer("1.1", "1.115"),
        not_acceptable(),
        scripted.versions_answer("1.1", "1.80"),
        versions=None,
    )
    client = client_of(channel)
    with pytest.raises(exceptions.IronicError):
        client.list_nodes(NodeFilter(shard="blue"))
    with pytest.raises(exceptions.MicroversionNotSupported, match="shard"):
        client.list_nodes(NodeFilter(shard="blue"))
    assert channel.lines == ["GET /", "GET /nodes", "GET /"]
