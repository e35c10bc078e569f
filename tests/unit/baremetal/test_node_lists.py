# SPDX-License-Identifier: Apache-2.0

"""Listing: all that match and nothing else, or an error; never a part."""

import logging

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.node import LIST_FIELDS
from ironic_virt.baremetal.node_filter import NodeFilter
from tests.unit.baremetal import scripted
from tests.unit.baremetal.scripted import ScriptedChannel, client_of, fault, node_json, page

A, B, C = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abc")


def next_link(marker: str) -> str:
    """A link to the next page as Ironic 39.0.0 makes it behind a proxy: with no filter in it."""
    fields = ",".join(LIST_FIELDS)
    query = f"sort_key=id&sort_dir=asc&fields={fields}&limit=1&marker={marker}"
    return f"http://10.0.0.9:6385/behind/proxy/v1/nodes?{query}"


FIRST = page(node_json(A), next=next_link(A))
SECOND = page(node_json(B), next=next_link(B))


def test_filters_are_sent_with_every_page() -> None:
    # Ironic leaves them out of the link to the next page.
    where = {
        "conductor_group": "rack1",
        "shard": "blue",
        "provision_state": "active",
        "instance_uuid": scripted.INSTANCE,
    }
    held = where | {"conductor_group": "Rack1"}
    # A link that has others can't widen them.
    link = next_link(A) + "&shard=green&fields=uuid"
    channel = ScriptedChannel(page(node_json(A, **held), next=link), page(node_json(B, **held)))
    client_of(channel).list_nodes(NodeFilter(**where))
    # The channel is given the path alone: it decides where that is.
    assert channel.lines == ["GET /nodes", "GET /nodes"]
    fields = ",".join((*LIST_FIELDS, "conductor_group", "shard"))
    first, second = (request.params for request in channel.requests)
    assert first == where | {"fields": fields}
    assert second == first | {"marker": A}


def test_the_line_of_a_request_has_the_query(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client_of(ScriptedChannel(page())).list_nodes(NodeFilter(shard="blue"))
    (line,) = (line for line in caplog.messages if line.startswith("GET /nodes?"))
    assert "shard=blue" in line.partition(": 200 in ")[0]


@pytest.mark.parametrize(
    "pages",
    [
        [FIRST] * 2,
        [FIRST, SECOND] * 2,
        [FIRST, page(node_json(B), node_json(A))],
        [FIRST, page(next=next_link(B))],
    ],
    ids=["the marker is dropped", "links alternate", "one comes twice", "an empty page goes on"],
)
def test_a_list_that_does_not_end_is_an_error(pages: list[scripted.Answer]) -> None:
    channel = ScriptedChannel(*pages)
    with pytest.raises(exceptions.UnexpectedAnswer, match=r"on one before|empty page"):
        client_of(channel).list_nodes()
    assert len(channel.requests) <= 3


@pytest.mark.parametrize(
    ("where", "other"),
    [
        (NodeFilter(shard="blue"), {"shard": "green"}),
        (NodeFilter(shard="rack1"), {"shard": "räck2"}),
        (NodeFilter(shard="blue"), {"shard": None}),
        (NodeFilter(shard="blue"), {}),
        (NodeFilter(conductor_group="rack1"), {"conductor_group": ""}),
        (NodeFilter(conductor_group=""), {"conductor_group": "rack1"}),
        (NodeFilter(conductor_group=""), {}),
        (NodeFilter(provision_state="deploying"), {"provision_state": "active"}),
    ],
)
def test_a_list_with_a_node_outside_the_filter_is_refused(where, other) -> None:
    right = {name: getattr(where, name) for name in where.fields()}
    for ask in (
        lambda lists: lists.listed(where).nodes,
        lambda lists: lists.sweep(where),
        lambda lists: lists.last_created(where, 10),
        lambda lists: lists.last_updated(where, 10),
        lambda lists: lists.last_updated_in_detail(where, 10),
    ):
        channel = ScriptedChannel(page(node_json(A, **right), node_json(B, **other)))
        with pytest.raises(exceptions.UnexpectedAnswer, match=rf"node {B} came.*drop the query"):
            ask(client_of(channel).lists)
        asked = channel.requests[0].params
        assert "detail" in asked or set(where.fields()) <= set(asked["fields"].split(","))


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        ("rack1", "Räck1"),
        ("rack1", "RACK1  "),
        ("Räck1", "rack1"),
        ("røst", "rost"),
        ("straße", "strase"),
        ("strasse", "straße"),
        ("gold", "gold\u200b"),
        ("a\u65e5" * 127, "a" * 254),
    ],
)
def test_a_shard_that_is_ours_only_to_the_database_is_left_out(ours, other, caplog) -> None:
    where = NodeFilter(shard=ours)
    rows = (
        node_json(A, shard=ours),
        node_json(B, shard=other),
        node_json(C, shard=ours.capitalize()),
    )
    for ask in (
        lambda lists: lists.listed(where).nodes,
        lambda lists: lists.sweep(where),
        lambda lists: lists.last_created(where, 10).nodes,
        lambda lists: lists.last_updated(where, 10).nodes,
        lambda lists: lists.last_updated_in_detail(where, 10).nodes,
    ):
        caplog.clear()
        client = client_of(ScriptedChannel(page(*rows), page(*rows)))
        for _ in range(2):
            assert [row.uuid for row in ask(client.lists)] == [A, C]
        (record,) = caplog.records
        assert f"[shard-alike] Node {B} is in shard {other!r}" in record.getMessage()


def test_behind_a_page_of_such_nodes_the_list_goes_on() -> None:
    alike, ours = node_json(A, shard="Räck1"), node_json(B, shard="rack1")
    channel = ScriptedChannel(page(alike, next=next_link(A)), page(ours))
    nodes = client_of(channel).list_nodes(NodeFilter(shard="rack1"))
    assert [node.uuid for node in nodes] == [B]
    assert channel.requests[1].params["marker"] == A


def test_a_list_is_filtered_as_ironic_compares() -> None:
    # It takes groups as lower case; on MariaDB it compares shards without regard to case.
    alike = node_json(A, shard="Blue", conductor_group="RACK1")
    unreadable = node_json(B, shard=7, conductor_group="rack1")
    where = NodeFilter(shard="blue", conductor_group="Rack1")
    nodes = client_of(ScriptedChannel(page(alike, unreadable))).list_nodes(where)
    assert [node.malformed for node in nodes] == [(), ("shard",)]
    swept = client_of(ScriptedChannel(page(alike, unreadable))).lists.sweep(where)
    assert [row.uuid for row in swept] == [A, B]


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        *(([fault(status, "no page two today")], status) for status in (400, 403)),
        ([fault(500, "no page two today")] * 2, 500),
        ([scripted.lost()] * 2, None),
    ],
    ids=["400", "403", "it stays broken", "it stays away"],
)
def test_a_failure_on_page_two_is_an_error_and_no_shorter_list(answers, status) -> None:
    channel = ScriptedChannel(FIRST, *answers)
    with pytest.raises(exceptions.IronicError, match=r"no page two today|reset by peer") as caught:
        client_of(channel, retries=1).list_nodes()
    assert caught.value.status == status
    assert channel.script == []


def test_page_two_is_asked_for_again_while_the_server_is_busy() -> None:
    channel = ScriptedChannel(FIRST, fault(503, "busy"), scripted.lost(), page(node_json(B)))
    assert [node.uuid for node in client_of(channel).list_nodes()] == [A, B]
    assert [request.params.get("marker") for request in channel.requests] == [None, A, A, A]


def test_a_marker_deleted_between_pages_restarts_the_list() -> None:
    channel = ScriptedChannel(FIRST, scripted.no_such_node(A), SECOND, page(node_json(C)))
    nodes = client_of(channel).list_nodes()
    assert [node.uuid for node in nodes] == [B, C], "nothing twice, nothing of the void list"


def test_a_list_that_never_comes_to_its_end_is_given_up() -> None:
    channel = ScriptedChannel(*[FIRST, scripted.no_such_node(A)] * 3)
    with pytest.raises(exceptions.NotFound):
        client_of(channel).list_nodes()
    assert channel.script == []


def test_a_first_page_that_is_not_found_is_no_deleted_marker() -> None:
    # The URL is wrong: asking it again is of no use.
    channel = ScriptedChannel(scripted.answer(404, b"<h1>Not Found</h1>"))
    with pytest.raises(exceptions.NotFound):
        client_of(channel).list_nodes()


@pytest.mark.parametrize(("newest", "health"), [("1.115", "ok"), ("1.90", None)])
def test_a_list_shows_a_newer_field_if_the_server_has_it(newest: str, health: str | None) -> None:
    shown = {"health": health} if health else {}
    channel = ScriptedChannel(page(node_json(A, **shown)), versions=("1.1", newest))
    [node] = client_of(channel).list_nodes(fields=("uuid", "health"))
    assert (node.health, node.malformed) == (health, ())


def test_an_instances_node_is_looked_for_everywhere() -> None:
    mine = scripted.whole_json(A, instance_uuid=scripted.INSTANCE)
    channel = ScriptedChannel(page(mine), page(), page(mine, {**mine, "uuid": B}))
    channel.script.append(page({**mine, "uuid": B, "instance_uuid": scripted.OTHER_INSTANCE}))
    client = client_of(channel)
    node = client.node_of_instance(scripted.INSTANCE)
    assert node is not None
    assert node.uuid == A
    assert set(channel.requests[0].params) == {"instance_uuid", "fields"}
    assert client.node_of_instance(scripted.INSTANCE) is None
    for says in (f"{A}, {B}", f"node {B} came.*drop the query"):
        with pytest.raises(exceptions.UnexpectedAnswer, match=says):
            client.node_of_instance(scripted.INSTANCE)


@pytest.mark.parametrize(
    ("newest", "version", "lacks"),
    [("1.115", "1.109", set()), ("1.90", "1.90", {"disable_power_off", "instance_name"})],
)
def test_a_single_node_is_read_with_all_fields_the_server_has(newest, version, lacks) -> None:
    held = {"conductor_group": "rack1", "protected": True, "instance_info": {"image_source": "x"}}
    held |= {"shard": "blue", "retired": True, "disable_power_off": True, "instance_name": "web"}
    channel = ScriptedChannel(scripted.node_answer(**held), versions=("1.1", newest))
    node = client_of(channel).get_node(scripted.NODE)
    assert {name: getattr(node, name) for name in held} == held
    [request] = channel.requests
    assert str(request) == f"GET /nodes/{scripted.NODE}"
    assert request.version == version
    assert held.keys() - request.params["fields"].split(",") == lacks


def test_a_node_name_with_a_slash_stays_one_part_of_the_path() -> None:
    channel = ScriptedChannel(scripted.node_answer())
    client_of(channel).get_node("../ports?x=1")
    assert channel.lines == ["GET /nodes/..%2Fports%3Fx%3D1"]


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html></html>", b"[]", b"{}", b"\xff", b"17", b"null", b"{"),
        *(b'{"nodes": 1, "uuid": 1}', b'{"nodes": null}', b'{"nodes": {}}'),
        *(b'{"nodes": [{"uuid": "a"}', b'{"nodes": [], "next": 7}', b"[" * 100_000),
        b'{"nodes": [{"uuid": "a", "properties": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
    ],
    ids=lambda body: repr(body[:40]),
)
def test_an_invalid_page_of_nodes_is_an_error_and_not_empty(body: bytes) -> None:
    client = client_of(ScriptedChannel(*[scripted.answer(200, body)] * 2))
    with pytest.raises(exceptions.UnexpectedAnswer, match="GET /nodes") as caught:
        client.list_nodes()
    assert caught.value.request_id == scripted.REQUEST_ID
    with pytest.raises(exceptions.UnexpectedAnswer) as caught:
        client.get_node(scripted.NODE)
    assert caught.value.node == scripted.NODE
