# SPDX-License-Identifier: Apache-2.0

"""Whether a patch has been applied agrees with what applying it does."""

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ironic_virt.baremetal.patches import patch_is_applied

INSTANCE = "f2f0c9f1-0f0b-4a64-9d84-9b6a2a1f6f11"


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> dict[str, Any]:
    return {"op": "remove", "path": path}


@pytest.mark.parametrize(
    ("node", "patch", "applied"),
    [
        ({"instance_uuid": INSTANCE}, [add("/instance_uuid", INSTANCE)], True),
        ({"instance_uuid": None}, [add("/instance_uuid", INSTANCE)], False),
        ({"instance_uuid": "another"}, [add("/instance_uuid", INSTANCE)], False),
        ({}, [add("/instance_uuid", INSTANCE)], False),
        # Removed is null, an empty object, or not there.
        ({"instance_uuid": None}, [remove("/instance_uuid")], True),
        ({"instance_info": {}}, [remove("/instance_info")], True),
        ({}, [remove("/instance_info")], True),
        ({}, [remove("/instance_info/image_source")], True),
        ({"instance_info": None}, [remove("/instance_info/image_source")], True),
        ({"instance_uuid": INSTANCE}, [remove("/instance_uuid")], False),
        ({"instance_info": {"a": 1}}, [remove("/instance_info")], False),
        ({"maintenance": False}, [remove("/maintenance")], False),
        # Members of members.
        ({"instance_info": {"root_gb": 10}}, [add("/instance_info/root_gb", 10)], True),
        ({"instance_info": {"root_gb": 9}}, [add("/instance_info/root_gb", 10)], False),
        ({"instance_info": {}}, [add("/instance_info/root_gb", 10)], False),
        ({}, [add("/instance_info/root_gb", 10)], False),
        ({"instance_info": "text"}, [add("/instance_info/root_gb", 10)], False),
        ({"extra": {"a/b": 1, "c~d": 2}}, [add("/extra/a~1b", 1), add("/extra/c~0d", 2)], True),
        ({"traits": ["A", "B"]}, [add("/traits", ["A", "B"])], True),
        ({"traits": ["A", "B"]}, [add("/traits", ["A"])], False),
        ({"traits": ["A"]}, [remove("/traits/0")], False),
        # Several operations: all must hold, and a later one overwrites.
        ({"name": "a", "owner": None}, [add("/name", "a"), add("/owner", "x")], False),
        ({"name": "b"}, [add("/name", "a"), add("/name", "b")], True),
        ({"name": "a"}, [add("/name", "a"), remove("/name")], False),
        ({"extra": {"b": 1}}, [add("/extra", {}), add("/extra/b", 1)], True),
        ({"extra": {"b": 1, "c": 2}}, [add("/extra", {}), add("/extra/b", 1)], False),
        ({"extra": {}}, [add("/extra/b", 1), remove("/extra")], True),
        ({"name": "a"}, [], True),
    ],
)
def test_a_patch_is_applied_when_nothing_is_left_to_change(node, patch, applied) -> None:
    assert patch_is_applied(node, patch) is applied


def test_neither_the_node_nor_the_patch_is_changed() -> None:
    node: dict[str, Any] = {"extra": {"a": 1}}
    patch = [add("/extra", {}), add("/extra/b", 1)]
    before = copy.deepcopy((node, patch))
    patch_is_applied(node, patch)
    assert (node, patch) == before


# Names with all that JSON pointers escape; null and {} mean "removed" to Ironic
# alone, and have their own tests above.
NAMES = st.sampled_from(["a", "a/b", "c~d", ""])
LEAVES = st.integers(-3, 3) | st.text("xy", max_size=2)
VALUES = st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3))
NODES = st.dictionaries(NAMES, VALUES, max_size=4)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(
    lambda names: "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
)
OPERATIONS = st.one_of(
    st.builds(add, PATHS, VALUES),
    st.builds(lambda path, value: add(path, value) | {"op": "replace"}, PATHS, VALUES),
    st.builds(remove, PATHS),
)
PATCHES = st.lists(OPERATIONS, min_size=1, max_size=4)


def really_applied(node: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any] | None:
    try:
        result: dict[str, Any] = jsonpatch.apply_patch(copy.deepcopy(node), copy.deepcopy(patch))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, ValueError):
        return None
    return result


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(NODES, PATCHES)
def test_what_has_been_applied_is_seen_to_be(node, patch) -> None:
    after = really_applied(node, patch)
    assume(after is not None and "{}" not in repr(after))
    assert patch_is_applied(after or {}, patch)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(NODES, PATCHES)
def test_what_is_seen_as_applied_would_change_nothing(node, patch) -> None:
    after = really_applied(node, patch)
    assume(after is not None and after != node)
    assert not patch_is_applied(node, patch)


def test_fields_outside_a_patch_may_be_nested_too_deep_to_copy() -> None:
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    node = {"maintenance_reason": deep, "extra": {"deep": deep, "a": {"b": 1}}}
    assert patch_is_applied(node, [add("/extra/a/b", 1)])
    assert not patch_is_applied(node, [add("/extra/a/b", 2), add("/extra/a/c", 3)])
    assert node["extra"] == {"deep": deep, "a": {"b": 1}}
