# SPDX-License-Identifier: Apache-2.0

"""Which nodes Ironic may choose from."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_virt import virt
from ironic_virt.baremetal.inventory.snapshot import Kind
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.properties import NodeProperties
from ironic_virt.driver.pools import candidates
from ironic_virt.request.spec import RequestSpec

SMALL = NodeProperties(8, 16384, 100, "x86_64", (("boot_mode", "uefi"),))
LARGE = NodeProperties(16, 32768, 200, "x86_64", (("boot_mode", "bios"),))
CLASS_ALONE = {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
GOLD = {"resources:CUSTOM_GOLD": "1", **CLASS_ALONE}


def node(uuid: str, resource_class: str = "gold", *traits: str, **fields: Any) -> Node:
    return Node(
        uuid=uuid,
        resource_class=resource_class,
        traits=frozenset(traits),
        **{"properties": SMALL} | fields,
    )


def by_kind(*nodes: Node) -> dict[Kind, tuple[Node, ...]]:
    found: dict[Kind, tuple[Node, ...]] = {}
    for one in nodes:
        kind = (one.resource_class, one.traits)
        found[kind] = (*found.get(kind, ()), one)
    return found


def spec_of(extra_specs: dict[str, str], *, exclude: Any = (), **sizes: int) -> RequestSpec:
    flavor = virt.Flavor("bm", extra_specs=extra_specs, **sizes)
    return RequestSpec.from_flavor(flavor, exclude_nodes=exclude)


def choose(nodes: list[Node], extra_specs: dict[str, str], **how: Any) -> candidates.Choice:
    sizes = {name: how.pop(name) for name in ("vcpus", "memory_mb", "root_gb") if name in how}
    spec = spec_of(extra_specs, exclude=how.pop("exclude", ()), **sizes)
    defaults: dict[str, Any] = {"match": "at_least", "most": 10, "rng": random.Random(0)}
    return candidates.choose_nodes(by_kind(*nodes), spec, **defaults | how)


def uuids(choice: candidates.Choice) -> set[str]:
    return {one.uuid for one in choice.nodes}


SIZES = [
    node("small"),
    node("large", properties=LARGE),
    node("?", properties=NodeProperties()),
]


def test_free_untried_nodes_of_the_class_are_candidates() -> None:
    nodes = [node("a"), node("b"), node("c"), node("d", "silver")]
    assert uuids(choose(nodes, GOLD)) == {"a", "b", "c"}
    assert uuids(choose(nodes, GOLD, allowed={"a", "b"}, exclude=["b"])) == {"a"}


def test_required_traits_must_be_there_and_forbidden_ones_not() -> None:
    nodes = [node("a"), node("b", "gold", "CUSTOM_X"), node("c", "gold", "CUSTOM_X", "CUSTOM_Y")]
    required = {**GOLD, "trait:CUSTOM_X": "required"}
    assert uuids(choose(nodes, required)) == {"b"}
    assert uuids(choose(nodes, {**required, "trait:CUSTOM_Y": "required"})) == {"c"}
    assert uuids(choose(nodes[1:], {**GOLD, "trait:CUSTOM_Y": "forbidden"})) == {"b"}


def test_no_gpu_node_is_a_candidate_while_a_plain_one_is_free() -> None:
    gpus = [node(f"gpu{number}", "gold", "CUSTOM_GPU") for number in range(5)]
    plain = node("plain")
    assert uuids(choose([*gpus, plain], GOLD)) == {"plain"}
    only = choose([*gpus, plain], GOLD, exclude=["plain"])
    assert uuids(only) == {gpu.uuid for gpu in gpus}
    assert only.fitting == 5


def test_what_many_nodes_have_is_plainer_than_what_few_have() -> None:
    common = [node(f"n{number}", "gold", "CUSTOM_SSD", "CUSTOM_NIC") for number in range(20)]
    scarce = node("gpu", "gold", "CUSTOM_GPU")
    assert "gpu" not in uuids(choose([*common, scarce], GOLD, most=50))
    # A trait is as common as all nodes that have it.
    nodes = [
        *(node(f"both{number}", "gold", "CUSTOM_SSD", "CUSTOM_GPU") for number in range(3)),
        node("ssd", "gold", "CUSTOM_SSD"),
        *(node(f"nic{number}", "gold", "CUSTOM_NIC") for number in range(2)),
    ]
    assert uuids(choose(nodes, GOLD, most=1)) == {"ssd"}
    assert uuids(choose(nodes, GOLD, exclude=["ssd"])) == {"nic0", "nic1"}


@pytest.mark.parametrize(
    ("match", "sizes", "expected"),
    [
        ("at_least", {"memory_mb": 16384}, {"small", "large"}),
        ("at_least", {"memory_mb": 20000}, {"large"}),
        ("exact", {"memory_mb": 16384}, {"small"}),
        ("exact", {"memory_mb": 20000}, set()),
        ("exact", {"vcpus": 8, "root_gb": 100}, {"small"}),
        ("exact", {"vcpus": 1}, set()),
        ("exact", {"vcpus": 16, "root_gb": 100}, set()),
        ("exact", {"vcpus": 16, "memory_mb": 32768, "root_gb": 200}, {"large"}),
    ],
)
def test_each_size_matches_exactly_or_at_least(match, sizes, expected) -> None:
    assert uuids(choose(SIZES, {"resources:CUSTOM_GOLD": "1"}, match=match, **sizes)) == expected
    # A flavor that sets sizes to nothing does not ask for them.
    assert uuids(choose(SIZES, GOLD, match=match, **sizes)) == {"small", "large", "?"}


def test_capabilities_must_be_as_asked() -> None:
    for asked, expected in (
        ({"capabilities:boot_mode": "uefi", "capabilities:hypervisor_type": "ironic"}, {"small"}),
        ({"capabilities:boot_mode": "<or> uefi <or> bios"}, {"small", "large"}),
        ({"capabilities:cpu_arch": "aarch64"}, set()),
        ({"capabilities:cpu_arch": "x86_64"}, {"small", "large"}),
    ):
        assert uuids(choose(SIZES, GOLD | asked)) == expected, asked


def test_candidates_are_few_and_others_each_time() -> None:
    nodes = [node(f"n{number}") for number in range(100)]
    first = choose(nodes, GOLD, most=5, rng=random.Random(1))
    second = choose(nodes, GOLD, most=5, rng=random.Random(2))
    assert (len(first.nodes), first.fitting) == (5, 100)
    assert not uuids(first) & uuids(second)


def test_the_kind_that_is_preferred_comes_first_among_equals() -> None:
    nodes = [node("a", "gold", "CUSTOM_A"), node("b", "gold", "CUSTOM_B")]
    for wanted in ("CUSTOM_A", "CUSTOM_B"):
        choice = choose(nodes, GOLD, most=1, prefer=lambda kind, wanted=wanted: wanted in kind[1])
        assert wanted in choice.nodes[0].traits
    plain_and_not = [node("plain"), *nodes]
    choice = choose(plain_and_not, GOLD, most=1, prefer=lambda kind: bool(kind[1]))
    assert uuids(choice) == {"plain"}, "preferred is no reason to waste"


def test_candidates_are_of_one_class_and_not_too_many() -> None:
    nodes = [node("b", "silver"), node("a", "gold"), node("c", "gold"), node("d", None)]
    assert uuids(choose(nodes, {})) == {"a", "c"}
    nodes = [
        *(node(f"a{number}", "gold", "CUSTOM_A") for number in range(2)),
        *(node(f"b{number}", "gold", "CUSTOM_B") for number in range(2)),
        *(node(f"s{number}", "silver", "CUSTOM_S") for number in range(2)),
    ]
    for prefer in ("gold", "silver"):
        choice = choose(nodes, {}, most=3, prefer=lambda kind, prefer=prefer: kind[0] == prefer)
        assert {one.resource_class for one in choice.nodes} == {prefer}
        assert (len(choice.nodes), choice.fitting) == (3 if prefer == "gold" else 2, 6)
    first = choose(nodes, {}, prefer=lambda kind: "CUSTOM_B" in kind[1])
    assert [one.traits for one in first.nodes] == [{"CUSTOM_B"}] * 2 + [{"CUSTOM_A"}] * 2
    mixed = [node("s", "silver", "CUSTOM_A"), node("g", "gold", "CUSTOM_B")]
    mixed += [node("t", "silver", "CUSTOM_C")]
    choice = choose(mixed, {}, prefer=lambda kind: "CUSTOM_A" in kind[1])
    assert uuids(choice) == {"s", "t"}, "also those after one of another class"


def test_a_request_for_two_nodes_or_classes_has_no_candidates() -> None:
    nodes = [node("a"), node("b", "silver")]
    assert uuids(choose(nodes, {"resources:CUSTOM_GOLD": "2"})) == set()
    both = {"resources:CUSTOM_GOLD": "1", "resources:CUSTOM_SILVER": "1"}
    assert uuids(choose(nodes, both)) == set()


def test_it_says_what_each_condition_left() -> None:
    nodes = [
        node("a", "gold", "CUSTOM_A", "CUSTOM_B"),
        node("tried", "gold", "CUSTOM_A", "CUSTOM_B"),
        node("large", "gold", "CUSTOM_A", "CUSTOM_B", properties=LARGE),
        node("hot", "gold", "CUSTOM_A", "CUSTOM_B", "CUSTOM_HOT"),
        node("bare", "gold"),
        node("b", "silver"),
        node("no class", None),
    ]
    asked = {
        "resources:CUSTOM_GOLD": "1",
        "resources:DISK_GB": "0",
        "trait:CUSTOM_B": "required",
        "trait:CUSTOM_A": "required",
        "trait:CUSTOM_HOT": "forbidden",
        "trait:CUSTOM_LOUD": "forbidden",
        "capabilities:boot_mode": "uefi",
        "capabilities:cpu_arch": "x86_64",
    }
    choice = choose(nodes, asked, exclude=["tried"], vcpus=8, memory_mb=1, root_gb=7)
    assert choice.reason == (
        "free: 6; "
        "of resource class 1 CUSTOM_GOLD: 5; "
        "with CUSTOM_A, with CUSTOM_B, without CUSTOM_HOT, without CUSTOM_LOUD: 3; "
        "cpus >= 8, memory_mb >= 1, boot_mode uefi, cpu_arch x86_64: 2; "
        "not tried before, and this service's: 1"
    )
    assert (uuids(choice), choice.fitting) == ({"a"}, 1)


def test_it_says_what_was_not_asked() -> None:
    nodes = [node("a"), node("b", "silver")]
    choice = choose(nodes, CLASS_ALONE, match="exact")
    assert choice.reason == (
        "free: 2; of resource class any: 2; of any traits: 2; of any size: 2; "
        "not tried before, and this service's: 2"
    )
    both = {"resources:CUSTOM_SILVER": "1", "resources:CUSTOM_GOLD": "2"}
    choice = choose(nodes, {**both, "resources:MEMORY_MB": "0"}, match="exact", vcpus=3, root_gb=1)
    assert choice.reason == (
        "free: 2; of resource class 2 CUSTOM_GOLD and 1 CUSTOM_SILVER: 0; of any traits: 0; "
        "cpus = 3, disk_mb = 1024: 0; not tried before, and this service's: 0"
    )


TRAITS = ("CUSTOM_A", "CUSTOM_B", "CUSTOM_C")


@given(
    st.lists(st.sets(st.sampled_from(TRAITS)), min_size=1, max_size=8),
    st.sets(st.sampled_from(TRAITS)),
    st.integers(0, 1000),
)
def test_a_candidate_has_no_more_than_a_plainer_node_that_fits(sets, required, seed) -> None:
    nodes = [node(f"n{number}", "gold", *traits) for number, traits in enumerate(sets)]
    asked = {**GOLD, **{f"trait:{trait}": "required" for trait in required}}
    choice = choose(nodes, asked, rng=random.Random(seed))
    doing = [one for one in nodes if required <= one.traits]
    assert bool(choice.nodes) == bool(doing)
    for candidate in choice.nodes:
        assert required <= candidate.traits
        assert not any(one.traits < candidate.traits for one in doing)
