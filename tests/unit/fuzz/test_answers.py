# SPDX-License-Identifier: Apache-2.0

"""After any answer of Ironic, the client raises only our errors, and offers no unread node."""

import contextlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.inventory.snapshot import may_be_free
from ironic_virt.baremetal.node_decoder import NodeDecoder
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.driver import network_data
from ironic_virt.driver.resources import why_not_free
from tests.unit.baremetal import scripted
from tests.unit.baremetal.scripted import INSTANCE, NODE, OTHER_NODE, VIF
from tests.unit.fuzz import malformed

PORT = {
    "uuid": VIF,
    "node_uuid": NODE,
    "address": "02:00:00:00:00:01",
    "portgroup_uuid": OTHER_NODE,
    "physical_network": "physnet",
    "internal_info": {"tenant_vif_port_id": INSTANCE},
    "extra": {"vif_port_id": INSTANCE},
}
GROUP = PORT | {"uuid": OTHER_NODE, "mode": "802.3ad", "properties": {"miimon": "100"}}
VOLUME = {
    "uuid": VIF,
    "node_uuid": NODE,
    "volume_type": "iscsi",
    "boot_index": 0,
    "volume_id": INSTANCE,
    "properties": {"target_iqn": "iqn"},
    "type": "iqn",
    "connector_id": "iqn.1",
    "extra": {},
}
ALLOCATION = {
    "uuid": INSTANCE,
    "state": "active",
    "node_uuid": NODE,
    "resource_class": "gold",
    "candidate_nodes": [NODE],
    "last_error": None,
    "extra": {"a": 1},
}
NODES = {
    "nodes": [scripted.whole_json(), scripted.whole_json(OTHER_NODE, traits=["A", "B"])],
}
LISTED = {"nodes": [one | {"updated_at": "2026-01-01T00:00:00+00:00"} for one in NODES["nodes"]]}
ALLOCATION_LIST = {"allocations": [ALLOCATION, ALLOCATION | {"uuid": VIF}]}
EVENT = {"uuid": VIF, "created_at": "2026-01-01T00:00:00", "severity": "ERROR", "event": "x"}
POWER = {"driver_internal_info": {"last_power_state_change": "2026-01-01T00:00:00.000000"}}
VERSIONS = {"id": "v1", "version": {"id": "v1", "min_version": "1.1", "version": "1.115"}}
ALL = NodeFilter()

Ask = Callable[[IronicClient], Any]


def links(client: IronicClient) -> Any:
    """The network data of a node's ports."""
    found, _ = network_data.links_of(client.ports.listed(NODE), client.ports.groups(NODE))
    return network_data.with_links({"links": [{"id": "a", "vif_id": INSTANCE}]}, found)


def patched(client: IronicClient) -> Any:
    return client.patch_node(NODE, [{"op": "add", "path": "/extra/a/b", "value": 1}])


ASKED: Mapping[str, tuple[Ask, list[Any]]] = {
    "versions": (lambda client: client.versions, []),
    "nodes": (lambda client: client.list_nodes(), [NODES]),
    "in a shard": (lambda client: client.list_nodes(NodeFilter(shard="a")), [NODES]),
    "node": (lambda client: client.get_node(NODE), [scripted.whole_json()]),
    "node of an instance": (lambda client: client.node_of_instance(INSTANCE), [NODES]),
    "sweep": (lambda client: client.lists.sweep(ALL), [NODES]),
    "in detail": (lambda client: client.lists.last_updated_in_detail(ALL, 9), [LISTED]),
    "updated": (lambda client: client.lists.updated_at(NODE), [LISTED["nodes"][0]]),
    "newest": (lambda client: client.lists.first_update(ALL, "desc"), [LISTED]),
    "shards": (lambda client: client.lists.shards(), [{"shards": [{"name": "a"}]}]),
    "patch": (patched, [scripted.whole_json()]),
    "validate": (
        lambda client: client.validate_node(NODE),
        [{"power": {"result": False, "reason": "no BMC"}}],
    ),
    "allocation": (lambda client: client.allocations.get(INSTANCE), [ALLOCATION]),
    "allocations": (lambda client: client.allocations.listed(), [ALLOCATION_LIST]),
    "links": (links, [{"ports": [PORT]}, {"portgroups": [GROUP]}]),
    "vifs": (lambda client: client.ports.vifs(NODE), [{"vifs": [{"id": VIF}]}]),
    "connectors": (lambda client: client.volumes.connectors(NODE), [{"connectors": [VOLUME]}]),
    "targets": (lambda client: client.volumes.targets(NODE), [{"targets": [VOLUME]}]),
    "history": (lambda client: client.history.newest(NODE, 3), [{"history": [EVENT]}]),
    "power": (lambda client: client.management.power_changed_at(NODE), [POWER]),
    "console": (
        lambda client: client.consoles.get(NODE),
        [{"console_enabled": True, "console_info": {"type": "vnc", "url": "http://a"}}],
    ),
    "vnc": (
        lambda client: client.consoles.vnc_address(NODE),
        [{"driver_internal_info": {"vnc_host": "h", "vnc_port": 5900}}],
    ),
}

DEEP = b"[" * 1000
STATUSES = (200, 200, 200, 200, 201, 204, 400, 401, 404, 406, 409, 500, 503)
DATES = (
    "Mon, 01 Jan 2026 00:00:00 GMT",
    "Mon, 01 Jan 99999999999999 00:00:00 GMT",
    "Mon, 01 Jan 0001 00:00:00 -0000",
    "Mon, 01 Jan 0001 00:00:00 +2359",
    "Mon, 01 Jan 2026 00:00:00 +9999999999999",
    "1" * 400,
    "-1",
)
HEADERS = ("Retry-After", "openstack-request-id")
FAULT = {"error_message": '{"faultcode": "Client", "faultstring": "no"}'}


class Replaying(scripted.ScriptedChannel):
    """Gives the same last answer forever, as a server does that is broken."""

    def send(self, *args: Any, **kwargs: Any) -> Answer:
        if len(self.script) == 1:
            self.script = self.script * 2
        return super().send(*args, **kwargs)


@pytest.mark.parametrize("name", ASKED)
def test_no_answer_raises_what_is_not_ours(name: str) -> None:
    ask, wholes = ASKED[name]
    for example in malformed.examples(name):
        with example:
            client = scripted.client_of(wrong_channel(example, wholes), retries=1)
            with contextlib.suppress(exceptions.IronicVirtError):
                ask(client)


def wrong_channel(example: malformed.Example, wholes: list[Any]) -> Replaying:
    """A channel on which one answer is malformed."""
    bodies = [json.dumps(whole).encode() for whole in wholes]
    status, versions = 200, None
    if not wholes or example.random() < 0.1:
        versions = example.document(VERSIONS)
    else:
        index = example.randrange(len(wholes))
        status = example.pick(STATUSES)
        bodies[index] = example.document(FAULT if status >= 400 else wholes[index])
    headers = {
        name: example.pick((*DATES, example.text(20, below=256)))
        for name in HEADERS
        if example.random() < 0.5
    }
    script = [Answer(status, headers, body) for body in bodies]
    spoken = scripted.answer(200, VERSIONS if versions is None else versions)
    return Replaying(spoken, *script, versions=None)


def is_text(value: Any) -> bool:
    """Whether a field for a text may have it: a number without end, or none, is read as one."""
    if isinstance(value, float) and not math.isfinite(value):
        return True
    return value is None or (isinstance(value, str) and value not in {"@deep", "@open"})


FREE: Mapping[str, Callable[[Any], bool]] = dict.fromkeys(scripted.whole_json(), is_text) | {
    "instance_uuid": lambda value: value is None,
    "provision_state": lambda value: value == "available",
    "power_state": lambda value: value in ("power off", "power on"),
    "maintenance": lambda value: value is None or value is False,
    "retired": lambda value: value is None or value is False,
    "traits": lambda value: (
        value is None or (isinstance(value, list) and all(map(is_text, value)))
    ),
}
"""What each field of a node that is free may be."""
for name in ("links", "properties", "instance_info", "extra"):
    del FREE[name]
for name in ("console_enabled", "protected", "disable_power_off"):
    FREE[name] = lambda value: value is None or isinstance(value, bool)


@pytest.mark.parametrize("name", sorted(FREE))
def test_a_node_with_a_wrong_field_is_not_free_nor_harms_others(name: str) -> None:
    for example in malformed.examples(name, share=len(FREE) // 4):
        with example:
            wrong = scripted.whole_json() | {name: example.but(FREE[name])}
            body = malformed.encoded({"nodes": [wrong, scripted.whole_json(OTHER_NODE)]})
            try:
                nodes, _ = NodeDecoder().page(body, FREE)
            except exceptions.UnexpectedAnswer:
                # Ironic could not write what is so deep.
                assert name == "uuid" or DEEP in body
                continue
            assert [one.uuid for one in nodes if may_be_free(one)] == [OTHER_NODE]
            assert [one.uuid for one in nodes if why_not_free(one) is None] == [OTHER_NODE]


def test_properties_of_any_kind_cost_no_node() -> None:
    for example in malformed.examples("properties"):
        with example:
            wrong = scripted.node_json(properties=example.but(lambda _: False))
            body = malformed.encoded({"nodes": [wrong, scripted.node_json(OTHER_NODE)]})
            try:
                nodes, _ = NodeDecoder().page(body)
            except exceptions.UnexpectedAnswer:
                assert DEEP in body
                continue
            assert [one.uuid for one in nodes] == [NODE, OTHER_NODE]
