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
    fields = {"resource_class": "gold", "owner": "me", "shard": "s"}
    path = f"/v1/nodes/{ironic.node(**fields)}"
    ironic.patch(path, add("/name", "n"), add("/extra/a", 1), add("/extra/b", {"c": [1]}))
    ironic.patch(path, replace("/name", "m"), replace("/extra/b/c", 2), remove("/extra/a"))
    ironic.patch(path, add("/extra/x", 1), remove("/extra/nothing"), expect=400)
    body = ironic.get(path).body
    assert (body["name"], body["extra"]) == ("m", {"b": {"c": 2}})
    # A removed field is back at its default.
    ironic.patch(path, *(remove(f"/{name}") for name in ("name", "extra", *fields)))
    ironic.patch(path, remove("/driver"), expect=400)
    ironic.get(path)


@check_each(
    ("with no operation", {"path": "/name", "value": "a"}),
    ("with no path", {"op": "add", "value": "a"}),
    ("with a path without a slash", add("name", "a")),
    ("with an unknown operation", {"op": "paint", "path": "/name", "value": "a"}),
    *((f"that is a {op}", add("/extra/a", 1) | {"op": op}) for op in ("test", "move", "copy")),
    *(
        (f"that is a {op} from elsewhere", add("/extra/b", 1) | {"op": op, "from": "/extra/a"})
        for op in ("test", "move", "copy")
    ),
    ("with something more", add("/name", "a") | {"colour": "red"}),
    ("with an empty path", add("", {})),
    ("with a path of a slash", add("/", {})),
    ("with a path that is no text", {"op": "add", "path": 5, "value": "a"}),
    ("without a value", {"op": "add", "path": "/name"}, 500),
    ("that removes what is not there", remove("/extra/nothing")),
    ("that removes from what is not there", remove("/instance_info/a/b")),
    ("that replaces what is not there", replace("/extra/nothing", 1)),
    ("that adds to what is not there", add("/extra/c/b", 1)),
    *(
        (f"with a {field} of a wrong type", add(f"/{field}", value))
        for field, value in (
            *(("properties", "many"), ("maintenance", "perhaps"), ("resource_class", 5)),
            *(("retired", "perhaps"), ("shard", 5), ("description", "a" * 4097)),
        )
    ),
)
def _(ironic: IronicUnderTest, _: str, operation: dict[str, Any], status: int = 400) -> None:
    """a patch {} is refused"""
    ironic.patch(f"/v1/nodes/{ironic.node(extra={'a': 1})}", operation, expect=status)


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


@check
def _(ironic: IronicUnderTest) -> None:
    """an instance, named by a uuid, is put on one free node once, and can be taken off"""
    path, instance = f"/v1/nodes/{ironic.node()}", add("/instance_uuid", ironic.uuid())
    ironic.patch_each(path, add("/instance_uuid", "vm-1"), add("/instance_uuid", 5), expect=400)
    ironic.patch_each(path, remove("/instance_uuid"), add("/instance_uuid", None), instance)
    for other in (add, replace):
        ironic.patch(path, other("/instance_uuid", ironic.uuid()), expect=409)
    ironic.patch(f"/v1/nodes/{ironic.node()}", instance, expect=409)
    ironic.patch(path, instance)
    assert ironic.get(path).body["instance_uuid"] == instance["value"]
    for node in (path, f"/v1/nodes/{ironic.active_node(instance_uuid=ironic.uuid())}"):
        ironic.patch_each(node, remove("/instance_uuid"), add("/instance_uuid", ironic.uuid()))


@check
def _(ironic: IronicUnderTest) -> None:
    """a node is patched by its name, and gets another one that no node has"""
    ironic.node(name="taken")
    ironic.node(name="old")
    ironic.patch("/v1/nodes/old", add("/name", "taken"), expect=409)
    for name in ("with space", "", None, ironic.uuid()):
        ironic.patch("/v1/nodes/old", add("/name", name), expect=400)
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
    """a node is not patched while somebody works on it, or it is in transition"""
    node = ironic.node_with(reservation="conductor-1")
    path = f"/v1/nodes/{node}"
    assert "locked" in ironic.patch(path, add("/extra/a", 1), expect=409).fault
    ironic.get(path)
    for values, status in (
        ({"provision_state": "deploying", "target_provision_state": "active"}, 409),
        ({"power_state": "power off", "target_power_state": "power on"}, 409),
        ({"provision_state": "available", "target_provision_state": None}, ANY),
    ):
        ironic.set_node(node, reservation=None, **values)
        ironic.patch(path, add("/extra/a", 1), expect=status)


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
    """a reason for retirement needs retirement, which a free node cannot have"""
    ironic.patch(f"/v1/nodes/{ironic.node()}", add("/retired", True), expect=409)
    path = f"/v1/nodes/{ironic.node_with(provision_state='manageable')}"
    reason = replace("/retired_reason", "old")
    ironic.patch(path, reason, expect=400)
    ironic.patch_each(path, replace("/retired", True), reason, replace("/retired", False))


@check
def _(ironic: IronicUnderTest) -> None:
    """interfaces, as far as they are enabled, and resource class change while a node is free"""
    node = ironic.node(resource_class="gold")
    path, noop = f"/v1/nodes/{node}", replace("/network_interface", "noop")
    ironic.patch_each(path, noop, replace("/resource_class", "silver"))
    for name in ("network_interface", "driver"):
        ironic.patch(path, replace(f"/{name}", "steam"), expect=400)
    ironic.patch(path, remove("/network_interface"))
    ironic.set_node(node, provision_state="active")
    ironic.patch_each(path, noop, replace("/resource_class", "gold"), expect=409)


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
