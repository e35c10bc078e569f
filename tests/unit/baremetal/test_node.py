# SPDX-License-Identifier: Apache-2.0

"""From Ironic's JSON to nodes: what is malformed costs its own node alone."""

import json
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import LIST_FIELDS, Node
from ironic_virt.baremetal.node_decoder import NodeDecoder
from ironic_virt.baremetal.properties import NodeProperties
from tests.unit.baremetal.scripted import INSTANCE, NODE, OTHER_NODE, node_json

GOOD = node_json(OTHER_NODE)


def decode(*nodes: dict[str, Any] | str, decoder: NodeDecoder | None = None) -> list[Node]:
    """Decode a page; a node can be given as JSON text."""
    texts = [node if isinstance(node, str) else json.dumps(node) for node in nodes]
    found, following = (decoder or NodeDecoder()).page(
        ('{"nodes": [' + ", ".join(texts) + "]}").encode()
    )
    assert following is None
    return found


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_every_field_arrives() -> None:
    fields = {
        "instance_uuid": INSTANCE,
        "power_state": "power on",
        "target_power_state": "rebooting",
        "provision_state": "active",
        "target_provision_state": "deleted",
        "last_error": "it broke",
        "maintenance": True,
        "maintenance_reason": "fan",
        "conductor_group": "rack1",
        "shard": "blue",
        "retired": True,
        "protected": True,
        "reservation": "conductor-1",
        "instance_info": {"image_source": "http://images.invalid/a"},
    }
    (node,) = decode(node_json(**fields, an_unknown_field={"of": ["a", "newer", "server"]}))
    assert node == Node(
        uuid=NODE,
        name="rack-6b8e",
        properties=NodeProperties(cpus=8, memory_mb=16384, local_gb=100, cpu_arch="x86_64"),
        resource_class="baremetal.small",
        traits=frozenset({"CUSTOM_GOLD"}),
        **fields,
    )


def test_what_is_null_or_was_not_asked_for_is_absent_or_false() -> None:
    nothing = dict.fromkeys([*LIST_FIELDS, "retired", "protected", "shard"]) | {"uuid": NODE}
    assert decode({"uuid": NODE}, nothing) == [Node(uuid=NODE)] * 2


# -- malformed fields -------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 7),
        ("instance_uuid", ["not", "a", "text"]),
        ("power_state", {"on": True}),
        ("provision_state", 3),
        ("target_provision_state", False),
        ("maintenance", "perhaps"),
        ("traits", "CUSTOM_GOLD"),
        ("traits", [1, None]),
        ("traits", {"CUSTOM_GOLD": True}),
        ("resource_class", 1.5),
        ("retired", "yes"),
        ("shard", []),
        ("conductor_group", 0),
        ("instance_info", "text"),
    ],
)
def test_a_field_of_another_type_costs_that_field_of_that_node(field, value, caplog) -> None:
    bad, good = decode(node_json(NODE, **{field: value}), GOOD)
    assert bad.malformed == (field,)
    assert getattr(bad, field) == getattr(Node(uuid="any"), field), "the field's default"
    other = "power_state" if field != "power_state" else "provision_state"
    assert getattr(bad, other) == node_json()[other], "the other fields are kept"
    assert (good.uuid, good.malformed) == (OTHER_NODE, ())
    (warning,) = warnings(caplog)
    assert NODE in warning
    assert repr(field) in warning


@pytest.mark.parametrize("properties", ["text", 7, ["list"], True, None])
def test_properties_that_are_no_object_cost_the_properties(properties, caplog) -> None:
    bad, good = decode(node_json(properties=properties), GOOD)
    assert (bad.properties.cpus, bad.properties.memory_mb) == (0, 0)
    assert good.properties.cpus == 8
    assert len(warnings(caplog)) == (0 if properties is None else 1)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("1e400", "1e400"),
        ("99999999999999999999999999", "99999999999999999999999999"),
        ("1" * 400, "1" * 80),
        ("9" * 5000, "cpus is not a whole number"),
    ],
    ids=lambda value: value[:20],
)
def test_a_number_without_end_costs_itself(number, shown, caplog) -> None:
    # Python's JSON writer, and so Ironic, sends what no standard knows.
    text = json.dumps(node_json(properties={"cpus": "@", "memory_mb": 512}))
    bad, good = decode(text.replace('"@"', number), GOOD)
    assert (bad.properties.cpus, bad.properties.memory_mb) == (0, 512)
    assert shown in bad.properties.malformed[0]
    assert (good.properties.cpus, good.properties.malformed) == (8, ())
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize("where", ["name", "properties", "extra", "last_error"])
def test_half_a_surrogate_pair_costs_one_character(where: str) -> None:
    value: Any = "half \ud800."
    if where == "properties":
        value = {"cpus": 8, "note": value}
    bad, good = decode(node_json(**{where: value}), GOOD)
    assert bad.uuid == NODE
    assert bad.properties.cpus == 8
    assert good.uuid == OTHER_NODE
    for text in (bad.name, bad.last_error):
        (text or "").encode()  # can be stored and printed


def test_bytes_that_are_not_utf_8_cost_those_bytes() -> None:
    body = json.dumps({"nodes": [node_json(name="caf@"), GOOD]}).encode().replace(b"@", b"\xe9")
    nodes, _ = NodeDecoder().page(body)
    assert [node.uuid for node in nodes] == [NODE, OTHER_NODE]
    assert nodes[0].name == "caf\ufffd"


@pytest.mark.parametrize("cpus", ["8", "NaN"])
def test_a_malformed_node_leaves_the_others_and_the_link(cpus: str) -> None:
    # Also one that is unreadable at the same time.
    nodes = [node_json(traits=7, properties={"cpus": "@"}), GOOD]
    text = json.dumps({"nodes": nodes, "next": "http://x/v1/nodes?marker=m"})
    found, following = NodeDecoder().page(text.replace('"@"', cpus).encode())
    assert [node.malformed for node in found] == [("traits",), ()]
    assert following == "http://x/v1/nodes?marker=m"


@pytest.mark.parametrize("node", [{}, {"uuid": None}, {"uuid": 7}, [], "text", None, 7])
def test_a_node_without_a_uuid_makes_the_page_unusable(node: Any) -> None:
    # Left out, it would look deleted, and its record with it.
    with pytest.raises(exceptions.UnexpectedAnswer):
        decode(GOOD, json.dumps(node))


@pytest.mark.parametrize("field", ["name", "properties", "traits"])
def test_a_single_node_is_read_as_leniently_as_a_page(field: str) -> None:
    text = json.dumps(node_json(**{field: "@"})).replace('"@"', "NaN")
    node = NodeDecoder().one(text.encode())
    assert node.uuid == NODE
    assert node.power_state == "power off"


# -- unknown states -----------------------------------------------------------------


def test_unknown_states_are_kept_and_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    (node,) = decode(node_json(provision_state="levitating", power_state="power maybe"))
    assert (node.provision_state, node.power_state) == ("levitating", "power maybe")
    assert node.malformed == ()
    first, second = warnings(caplog)
    assert NODE in first
    assert "'levitating' is unknown" in first
    assert "'power maybe' is unknown" in second


def test_known_states_need_no_words(caplog: pytest.LogCaptureFixture) -> None:
    decode(*(node_json(provision_state=state) for state in states.ALL))
    decode(*(node_json(power_state=state) for state in [*states.ALL_POWER, None]))
    assert warnings(caplog) == []


# -- warnings -----------------------------------------------------------------------


def test_each_client_warns_once_for_each_node_and_cause(caplog: pytest.LogCaptureFixture) -> None:
    decoder = NodeDecoder()
    odd = {"properties": {"cpus": "many"}, "traits": 7, "provision_state": "levitating"}
    for _ in range(3):
        decode(node_json(NODE, **odd), node_json(OTHER_NODE, **odd), decoder=decoder)
    said = warnings(caplog)
    assert len(said) == 6
    assert len(set(said)) == 6
    assert sum(NODE in text for text in said) == 3
    decode(node_json(provision_state="melting"), decoder=decoder)
    assert len(warnings(caplog)) == 7, "a new cause"
    decode(node_json(provision_state="melting"))
    assert len(warnings(caplog)) == 8, "another client"


# -- sharing ------------------------------------------------------------------------


def test_equal_values_are_one_object_within_and_across_pages() -> None:
    decoder = NodeDecoder()
    (first,) = decode(node_json(NODE), decoder=decoder)
    second, third = decode(node_json(OTHER_NODE), node_json("third"), decoder=decoder)
    for node in (second, third):
        assert node.properties is first.properties
        assert node.traits is first.traits
        assert node.provision_state is first.provision_state
        assert node.power_state is first.power_state
        assert node.resource_class is first.resource_class


def test_texts_are_one_object_also_where_the_whole_differs() -> None:
    first, second = decode(
        node_json(NODE, traits=["CUSTOM_A", "CUSTOM_B"], properties={"capabilities": "a:x1,b:y1"}),
        node_json(OTHER_NODE, traits=["CUSTOM_A"], properties={"capabilities": "a:x1"}),
    )
    assert {id(trait) for trait in second.traits} < {id(trait) for trait in first.traits}
    (name, value), *_ = first.properties.capabilities
    ((other_name, other_value),) = second.properties.capabilities
    assert (name, value) == ("a", "x1")
    assert name is other_name
    assert value is other_value


@pytest.mark.parametrize("limit", [3, 1000])
def test_what_is_shared_is_bounded_and_not_mixed_up(limit, monkeypatch) -> None:
    monkeypatch.setattr(NodeDecoder, "_TABLE_LIMIT", limit)
    decoder = NodeDecoder()
    texts = [f"T{number}" for number in range(10)]
    nodes = [
        node_json(text, properties={"cpu_arch": text}, traits=[text], resource_class=text)
        for text in texts
    ]
    found = decode(*nodes, decoder=decoder)
    assert [node.properties.cpu_arch for node in found] == texts
    assert [node.traits for node in found] == [{text} for text in texts]
    assert [node.resource_class for node in found] == texts
    if limit == 3:
        tables = (decoder._properties, decoder._traits, decoder._texts)
        assert [len(table) for table in tables] == [3] * 3


def test_a_node_says_its_states_in_words() -> None:
    assert Node(uuid=NODE).states == "provision state 'not known', power state not known"
    moving = Node(
        uuid=NODE,
        provision_state="deploying",
        target_provision_state="active",
        power_state="power off",
        target_power_state="power on",
    )
    assert moving.states == (
        "provision state 'deploying' (going to 'active'), "
        "power state power off (going to 'power on')"
    )


def test_a_failure_text_of_ironics_is_one_line_of_bounded_length() -> None:
    forged = "no\x1b[2J disk\r\n2026-01-01 00:00:00 ERROR forged\u2028 " + "x" * 1_000_000
    node = NodeDecoder().one(json.dumps({"uuid": "u", "last_error": forged}).encode())
    assert node.last_error is not None
    assert node.last_error.startswith("no [2J disk 2026-01-01 00:00:00 ERROR forged  xxx")
    assert node.last_error.isprintable()
    assert len(node.last_error) <= 4000
