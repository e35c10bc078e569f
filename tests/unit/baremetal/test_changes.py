# SPDX-License-Identifier: Apache-2.0

"""Which answers are asked for again, and which are none."""

from typing import Any

import pytest

from ironic_virt import exceptions
from tests.unit.baremetal.scripted import (
    NODE,
    OTHER_NODE,
    ScriptedChannel,
    answer,
    client_of,
    fault,
)

LISTS: dict[str, Any] = {
    "ports": lambda client: client.ports.listed(NODE),
    "portgroups": lambda client: client.ports.groups(NODE),
    "connectors": lambda client: client.volumes.connectors(NODE),
    "targets": lambda client: client.volumes.targets(NODE),
}


@pytest.mark.parametrize("kind", LISTS)
def test_lists_of_a_node_are_of_this_node_alone_and_of_all_pages(kind: str) -> None:
    link = f"http://elsewhere/v1/{kind}?marker=p1"
    first, second, *others = (
        {"uuid": uuid, "type": "iqn", "connector_id": "iqn.1", **whose}
        for uuid, whose in (
            *(("p1", {"node_uuid": NODE}), ("p2", {"node_uuid": NODE})),
            *(("p3", {"node_uuid": OTHER_NODE}), ("p4", {})),
        )
    )
    pages = [answer(200, {kind: [first], "next": link}), answer(200, {kind: [second]})]

    def listed(channel: ScriptedChannel) -> list[str]:
        return [row.uuid for row in LISTS[kind](client_of(channel))]

    channel = ScriptedChannel(*pages)
    assert listed(channel) == ["p1", "p2"]
    params, further = (request.params for request in channel.requests)
    assert params["node"] == NODE
    assert "node_uuid" in params.get("fields", "") or params["detail"] == "true"
    assert further == params | {"marker": "p1"}
    with pytest.raises(exceptions.BadRequest):
        listed(ScriptedChannel(pages[0], fault(400, "no page two")))
    for other in others:
        with pytest.raises(exceptions.UnexpectedAnswer, match="drop the query"):
            listed(ScriptedChannel(answer(200, {kind: [other]})))


@pytest.mark.parametrize(
    "ask", [lambda client: client.validate_node(NODE), lambda client: client.consoles.get(NODE)]
)
def test_a_result_that_a_conductor_fails_at_is_asked_for_twice(ask: Any) -> None:
    """Ironic answers 500 also if the hardware can't be asked, each time after a minute."""
    channel = ScriptedChannel(*[fault(500, "for good")] * 3)
    with pytest.raises(exceptions.IronicError, match="for good"):
        ask(client_of(channel))
    assert len(channel.requests) == 2


NO_VIFS = (b"", b"[]", b"null", b"{}", b'{"vifs": null}', b'{"vifs": [1]}', b'{"vifs": [{}]}')
NO_VALIDATION = (b"", b"[]", b'{"power": true}', b"<html>", b'{"a": {"reason": 7}}')


@pytest.mark.parametrize(
    ("what", "body"),
    [*(("vifs", body) for body in NO_VIFS), *(("validation", body) for body in NO_VALIDATION)],
)
def test_what_is_none_is_an_error_that_names_the_node(what: str, body: bytes) -> None:
    client = client_of(ScriptedChannel(answer(200, body)))
    with pytest.raises(exceptions.UnexpectedAnswer) as caught:
        client.ports.vifs(NODE) if what == "vifs" else client.validate_node(NODE)
    assert caught.value.node == NODE
