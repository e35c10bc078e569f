# SPDX-License-Identifier: Apache-2.0

"""Changing a node by JSON patch."""

from typing import Any

from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IronicUnderTest


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def remove(path: str) -> dict[str, Any]:
    return {"op": "remove", "path": path}


@check
def _(ironic: IronicUnderTest) -> None:
    """fields are added, replaced and removed, all or nothing"""
    node = ironic.node()
    path = f"/v1/nodes/{node}"
    ironic.patch(path, add("/name", "n"), add("/extra/a", 1), add("/extra/b", {"c": [1]}))
    ironic.patch(path, replace("/name", "m"), replace("/extra/b/c", 2), remove("/extra/a"))
    ironic.patch(path, add("/extra/x", 1), remove("/extra/nothing"), expect=400)
    body = ironic.get(path).body
    assert (body["name"], body["extra"]) == ("m", {"b": {"c": 2}})


@check
def _(ironic: IronicUnderTest) -> None:
    """a removed field is back at its default"""
    node = ironic.node(name="n", resource_class="gold", owner="me", extra={"a": 1}, shard="s")
    path = f"/v1/nodes/{node}"
    ironic.patch(path, remove("/name"), remove("/resource_class"), remove("/owner"))
    ironic.patch(path, remove("/extra"), remove("/shard"))
    ironic.patch(path, remove("/driver"), expect=400)
    ironic.get(path)


@check_each("test", "move", "copy")
def _(ironic: IronicUnderTest, operation: str) -> None:
    """a patch can't {}"""
    ironic.patch_each(
        f"/v1/nodes/{ironic.node(extra={'a': 1})}",
        {"op": operation, "from": "/extra/a", "path": "/extra/b", "value": 1},
        {"op": operation, "path": "/extra/a", "value": 1},
        expect=400,
    )


@check_each(
    ("with no operation is refused", {"path": "/name", "value": "a"}),
    ("with no path is refused", {"op": "add", "value": "a"}),
    ("with a path without a slash is refused", add("name", "a")),
    ("with an unknown operation is refused", {"op": "paint", "path": "/name", "value": "a"}),
    ("with something more is refused", add("/name", "a") | {"colour": "red"}),
    ("with an empty path is refused", add("", {})),
    ("with a path of a slash is refused", add("/", {})),
    ("with a path that is no text is refused", {"op": "add", "path": 5, "value": "a"}),
    ("without a value is a failure of the server", {"op": "add", "path": "/name"}, 500),
)
def _(ironic: IronicUnderTest, _: str, operation: dict[str, Any], status: int = 400) -> None:
    """a patch {}"""
    ironic.patch(f"/v1/nodes/{ironic.node()}", operation, expect=status)


@check_each(
    *("uuid", "id", "created_at", "updated_at", "provision_state", "target_provision_state"),
    *("power_state", "target_power_state", "last_error", "reservation", "links", "ports"),
    *("console_enabled", "provision_updated_at", "inspection_started_at", "clean_step"),
    *("deploy_step", "driver_internal_info", "traits", "conductor", "allocation_uuid", "fault"),
    *("raid_config", "target_raid_config", "colour", "boot_mode", "secure_boot"),
)
def _(ironic: IronicUnderTest, field: str) -> None:
    """{} can't be patched"""
    path, field = f"/v1/nodes/{ironic.node()}", f"/{field}"
    ironic.patch_each(path, replace(field, "a"), remove(field), expect=400)


@check_each(
    *(("resource_class", "gold", 21), ("conductor_group", "", 46), ("owner", "me", 50)),
    *(
        ("description", "text", 51),
        ("retired", True, 61),
        ("lessee", "me", 65),
        ("shard", "s", 82),
    ),
    *(("protected", True, 48), ("automated_clean", True, 47), ("instance_name", "vm", 104)),
    ("disable_power_off", True, 95),
)
def _(ironic: IronicUnderTest, field: str, value: Any, minor: int) -> None:
    """{} can't be patched before its version"""
    operation, version = add(f"/{field}", value), f"1.{minor - 1}"
    ironic.patch(f"/v1/nodes/{ironic.node()}", operation, version=version, expect=406)


@check_each(
    *(("resource_class", 21), ("owner", 50), ("description", 51), ("shard", 82)),
    *(("lessee", 65), ("protected", 48), ("retired", 61), ("instance_name", 104)),
)
def _(ironic: IronicUnderTest, field: str, minor: int) -> None:
    """{} can be removed also before its version"""
    node = ironic.node()
    ironic.patch(f"/v1/nodes/{node}", remove(f"/{field}"), version=f"1.{minor - 1}")


@check
def _(ironic: IronicUnderTest) -> None:
    """an instance is put on a free node once, and can be taken off"""
    node, instance = ironic.node(), add("/instance_uuid", ironic.uuid())
    path = f"/v1/nodes/{node}"
    ironic.patch(path, instance)
    ironic.patch(path, add("/instance_uuid", ironic.uuid()), expect=409)
    ironic.patch(path, replace("/instance_uuid", ironic.uuid()), expect=409)
    ironic.patch(path, instance)
    assert ironic.get(path).body["instance_uuid"] == instance["value"]
    ironic.patch_each(path, remove("/instance_uuid"), instance)


@check
def _(ironic: IronicUnderTest) -> None:
    """an instance is on one node only"""
    first, second, instance = ironic.node(), ironic.node(), ironic.uuid()
    ironic.patch(f"/v1/nodes/{first}", add("/instance_uuid", instance))
    ironic.patch(f"/v1/nodes/{second}", add("/instance_uuid", instance), expect=409)


@check
def _(ironic: IronicUnderTest) -> None:
    """an instance is named by a uuid"""
    path = f"/v1/nodes/{ironic.node()}"
    ironic.patch_each(path, add("/instance_uuid", "vm-1"), add("/instance_uuid", 5), expect=400)
    ironic.patch(path, add("/instance_uuid", None))


@check
def _(ironic: IronicUnderTest) -> None:
    """the instance's uuid can be changed while the node is active"""
    path = f"/v1/nodes/{ironic.active_node(instance_uuid=ironic.uuid())}"
    ironic.patch_each(path, remove("/instance_uuid"), add("/instance_uuid", ironic.uuid()))


@check
def _(ironic: IronicUnderTest) -> None:
    """a name can't be taken from another node"""
    ironic.node(name="taken")
    path = f"/v1/nodes/{ironic.node()}"
    ironic.patch(path, add("/name", "taken"), expect=409)
    for name in ("with space", "", None, ironic.uuid()):
        ironic.patch(path, add("/name", name), expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node can be patched by name, and changes its name"""
    ironic.node(name="old")
    ironic.patch("/v1/nodes/old", replace("/name", "new"))
    ironic.patch("/v1/nodes/old", replace("/name", "newer"), expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node can't be moved to a conductor group that nobody serves"""
    path, group = f"/v1/nodes/{ironic.node()}", "/conductor_group"
    ironic.patch_each(path, add(group, "far-away"), add(group, "a b"), expect=400)
    ironic.patch(path, add(group, ""))
    ironic.patch(path, remove(group), expect=500)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node that somebody works on is not patched"""
    node = ironic.node_with(reservation="conductor-1")
    answer = ironic.patch(f"/v1/nodes/{node}", add("/extra/a", 1), expect=409)
    assert "locked" in answer.fault
    ironic.get(f"/v1/nodes/{node}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a node is not patched while it is in transition"""
    node = ironic.node()
    for values, status in (
        ({"provision_state": "deploying", "target_provision_state": "active"}, 409),
        ({"power_state": "power off", "target_power_state": "power on"}, 409),
        ({"provision_state": "available", "target_provision_state": None}, ANY),
    ):
        ironic.set_node(node, **values)
        ironic.patch(f"/v1/nodes/{node}", add("/extra/a", 1), expect=status)


@check
def _(ironic: IronicUnderTest) -> None:
    """fields of a wrong type are refused by a patch too"""
    node = ironic.node()
    for field, value in (
        *(("properties", "many"), ("maintenance", "perhaps"), ("resource_class", 5)),
        *(("retired", "perhaps"), ("shard", 5), ("description", "a" * 4097)),
    ):
        ironic.patch(f"/v1/nodes/{node}", add(f"/{field}", value), expect=400)


@check_each(
    *("description", "name", "owner", "lessee", "shard", "parent_node", "conductor_group"),
    *("instance_name", "retired_reason", "protected_reason", "driver", "chassis_uuid"),
)
def _(ironic: IronicUnderTest, field: str) -> None:
    """which values other than texts a node takes for its {}"""
    path = f"/v1/nodes/{ironic.node_with(provision_state='active')}"
    for value in (5, 1.5, True, ["a"], {"a": 1}, None):
        ironic.patch(path, add(f"/{field}", value), expect=ANY)
        made = {"uuid": ironic.uuid(), "driver": "fake-hardware", field: value}
        ironic.post("/v1/nodes", made, expect=ANY)


@check_each("capabilities", "cpus", "cpu_arch", "anything")
def _(ironic: IronicUnderTest, name: str) -> None:
    """any value of the property {} is kept as it is"""
    node = ironic.node()
    for value in ("text", 5, "5", None, {"a": 1}, [1], 1.5, True):
        ironic.patch(f"/v1/nodes/{node}", add(f"/properties/{name}", value))


@check
def _(ironic: IronicUnderTest) -> None:
    """maintenance can be patched too"""
    path = f"/v1/nodes/{ironic.node()}"
    ironic.patch(path, replace("/maintenance", True))
    ironic.patch(path, replace("/maintenance_reason", "because"), expect=400)
    ironic.patch(path, remove("/maintenance"), expect=500)
    ironic.get(path)


@check
def _(ironic: IronicUnderTest) -> None:
    """a reason for retirement needs retirement"""
    path = f"/v1/nodes/{ironic.node_with(provision_state='manageable')}"
    reason = replace("/retired_reason", "old")
    ironic.patch(path, reason, expect=400)
    ironic.patch_each(path, replace("/retired", True), reason, replace("/retired", False))


@check
def _(ironic: IronicUnderTest) -> None:
    """interfaces change only to what is enabled, and not while an instance is there"""
    node = ironic.node()
    path = f"/v1/nodes/{node}"
    ironic.patch(path, replace("/network_interface", "noop"))
    ironic.patch(path, replace("/network_interface", "steam"), expect=400)
    ironic.patch(path, remove("/network_interface"))
    ironic.patch(path, replace("/driver", "steam"), expect=400)
    ironic.set_node(node, provision_state="active")
    ironic.patch(path, replace("/network_interface", "noop"), expect=409)


@check
def _(ironic: IronicUnderTest) -> None:
    """the resource class of a node changes only while it is free"""
    node = ironic.node(resource_class="gold")
    ironic.patch(f"/v1/nodes/{node}", replace("/resource_class", "silver"))
    ironic.set_node(node, provision_state="active")
    ironic.patch(f"/v1/nodes/{node}", replace("/resource_class", "gold"), expect=409)


@check
def _(ironic: IronicUnderTest) -> None:
    """removing what is not there is refused"""
    path = f"/v1/nodes/{ironic.node()}"
    ironic.patch_each(
        path,
        *(remove("/extra/nothing"), remove("/instance_info/a/b")),
        *(replace("/extra/nothing", 1), add("/extra/a/b", 1)),
        expect=400,
    )
    ironic.patch(path, remove("/instance_uuid"))


@check
def _(ironic: IronicUnderTest) -> None:
    """removing a note that is not there refuses the whole patch"""
    instance = ironic.uuid()
    path = f"/v1/nodes/{ironic.active_node(instance_uuid=instance)}"
    ironic.patch(path, add("/instance_info/of_a", "1"))
    release = (add("/instance_info", {}), remove("/instance_uuid"))
    before = ironic.get(path).body
    ironic.patch(path, remove("/instance_info/of_b"), *release, expect=400)
    ironic.patch(path, *release, remove("/instance_info/of_a"), expect=400)
    after = ironic.get(path).body
    assert (after["instance_uuid"], after["instance_info"]) == (instance, before["instance_info"])
    body = ironic.patch(path, remove("/instance_info/of_a"), *release).body
    assert (body["instance_uuid"], body["instance_info"]) == (None, {})


@check
def _(ironic: IronicUnderTest) -> None:
    """lists in a node are changed at a place or at the end"""
    path = f"/v1/nodes/{ironic.node(extra={'l': [1, 2]})}"
    ironic.patch_each(path, add("/extra/l/-", 3), add("/extra/l/0", 0), remove("/extra/l/1"))
    for place, value in (("l/9", 3), ("a~1b", 1), ("a.b", 1)):
        ironic.patch(path, add(f"/extra/{place}", value), expect=400)


@check_each("memory_mb", "local_gb")
def _(ironic: IronicUnderTest, name: str) -> None:
    """the property {} is a whole number of at least 0, also as text"""
    path, place = f"/v1/nodes/{ironic.node()}", f"/properties/{name}"
    ironic.patch_each(path, *(add(place, value) for value in (5, "5", 0, None, 1.5, True)))
    for value in ("text", -1, "-1", "1.5", "", {"a": 1}):
        ironic.patch(path, add(place, value), expect=400)
    ironic.patch(path, add("/properties", {name: "x", "cpus": -1}), expect=400)
