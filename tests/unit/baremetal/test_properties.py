# SPDX-License-Identifier: Apache-2.0

"""NodeProperties as people enter them."""

from typing import Any

import pytest

from ironic_virt.baremetal.properties import NodeProperties, parse_properties


@pytest.mark.parametrize(
    ("entered", "cpus"),
    [
        (8, 8),
        ("8", 8),
        (" 8 ", 8),
        (8.0, 8),
        (0, 0),
        ("0", 0),
        (None, 0),
        ("", 0),
        (2**31 - 1, 2**31 - 1),
    ],
)
def test_a_size_is_a_whole_number_in_any_spelling(entered: Any, cpus: int) -> None:
    assert parse_properties({"cpus": entered}) == NodeProperties(cpus=cpus)


@pytest.mark.parametrize(
    "entered",
    [
        "eight",
        "8 cores",
        "8.5",
        8.5,
        -1,
        "-1",
        True,
        False,
        [],
        {},
        [8],
        float("nan"),
        float("inf"),
        2**31,
        10**5000,
        "9" * 5000,
    ],
    ids=lambda value: str(type(value).__name__),
)
@pytest.mark.parametrize("name", ["cpus", "memory_mb", "local_gb"])
def test_anything_else_is_named_and_costs_only_itself(name: str, entered: Any) -> None:
    sizes: dict[str, Any] = {"cpus": 1, "memory_mb": 2, "local_gb": 3}
    found = parse_properties(sizes | {name: entered})
    expected = sizes | {name: 0}
    assert {size: getattr(found, size) for size in sizes} == expected
    assert len(found.malformed) == 1
    assert found.malformed[0].startswith(f"properties/{name} is not a whole number")
    assert len(found.malformed[0]) < 200


@pytest.mark.parametrize(
    ("entered", "capabilities"),
    [
        (None, ()),
        ("", ()),
        ("boot_mode:uefi", (("boot_mode", "uefi"),)),
        ("boot_mode:uefi,gpu:yes", (("boot_mode", "uefi"), ("gpu", "yes"))),
        (" boot_mode : uefi , gpu:yes ", (("boot_mode", "uefi"), ("gpu", "yes"))),
        ("a:1,a:2", (("a", "2"),)),
        ({"boot_mode": "uefi"}, (("boot_mode", "uefi"),)),
    ],
)
def test_capabilities_are_names_with_values(entered: Any, capabilities: Any) -> None:
    assert parse_properties({"capabilities": entered}) == NodeProperties(capabilities=capabilities)


@pytest.mark.parametrize(
    ("entered", "kept", "named"),
    [
        ("uefi", (), "'uefi'"),
        ("a:1,b", (("a", "1"),), "'b'"),
        ("a:1,", (("a", "1"),), "''"),
        ("a:", (), "'a:'"),
        (":1", (), "':1'"),
        ("a:b:c", (), "'a:b:c'"),
        (7, (), "7"),
        (["a:1"], (), "['a:1']"),
        ({"a": 1, "b": "2"}, (("b", "2"),), "'a:1'"),
        ({"a": {"b": "c"}}, (), "a:{"),
    ],
)
def test_an_invalid_capability_is_named_and_costs_only_itself(entered, kept, named) -> None:
    found = parse_properties({"capabilities": entered, "cpus": 8})
    assert found.capabilities == kept
    assert found.cpus == 8
    assert len(found.malformed) == 1
    assert named in found.malformed[0]


@pytest.mark.parametrize("arch", [7, ["x86_64"], {}, "x" * 65])
def test_an_architecture_is_a_text(arch: Any) -> None:
    found = parse_properties({"cpu_arch": arch})
    assert found.cpu_arch is None
    assert "cpu_arch" in found.malformed[0]


@pytest.mark.parametrize("data", ["text", 7, [], True, 0, ""])
def test_properties_are_an_object(data: Any) -> None:
    assert "is not an object" in parse_properties(data).malformed[0]


def test_no_properties_are_none() -> None:
    assert parse_properties(None) == parse_properties({}) == NodeProperties()
