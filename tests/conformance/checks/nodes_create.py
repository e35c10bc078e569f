# SPDX-License-Identifier: Apache-2.0

"""Creating and deleting nodes."""

from typing import Any

from tests.conformance.registry import check, check_each
from tests.conformance.subject import IronicUnderTest

DRIVER = {"driver": "fake-hardware"}


@check
def _(ironic: IronicUnderTest) -> None:
    """a new node is in state enroll, with everything else at its default"""
    answer = ironic.post("/v1/nodes", DRIVER)
    assert answer.status == 201
    assert answer.body["provision_state"] == "enroll"
    assert answer.body["power_state"] is None
    assert answer.headers["Location"].endswith(answer.body["uuid"])
    ironic.get(f"/v1/nodes/{answer.body['uuid']}")


@check
def _(ironic: IronicUnderTest) -> None:
    """up to version 1.10 a new node is available"""
    for version, state in (("1.10", "available"), ("1.1", None), ("1.11", "enroll")):
        answer = ironic.post("/v1/nodes", DRIVER, version=version)
        assert answer.body["provision_state"] == state


@check
def _(ironic: IronicUnderTest) -> None:
    """a new node has what it was made with"""
    node: dict[str, Any] = {
        **DRIVER,
        "uuid": ironic.uuid(),
        "name": "node-1",
        "resource_class": "gold",
        "properties": {"cpus": 4, "capabilities": "boot_mode:uefi"},
        "extra": {"any": ["thing"]},
        "driver_info": {"address": "here", "password": "secret"},
        "instance_info": {"a": 1},
        "description": "the first",
        "shard": "s1",
        "lessee": "another",
        "automated_clean": False,
        "network_data": {},
    }
    body = ironic.post("/v1/nodes", node).body
    assert body["driver_info"]["password"] == "******"
    assert body["shard"] == "s1"


@check
def _(ironic: IronicUnderTest) -> None:
    """a node needs a driver that a conductor has"""
    ironic.post_each("/v1/nodes", {"name": "a"}, {"driver": None}, {"driver": "steam"}, expect=400)


@check_each("uuid", "name")
def _(ironic: IronicUnderTest, field: str) -> None:
    """a {} can be used once"""
    node = ironic.node(name="taken")
    values = {"uuid": node, "name": "taken"}
    ironic.post("/v1/nodes", {**DRIVER, field: values[field]}, expect=409)


@check_each("with space", "a/b", "ü", "a" * 256, "", "x:y", 5)
def _(ironic: IronicUnderTest, name: Any) -> None:
    """'{}' can't be the name of a node"""
    ironic.post("/v1/nodes", {**DRIVER, "name": name}, expect=400)


@check_each("a.b-c_d~e", "A", "1", "host.example.com", "a" * 255)
def _(ironic: IronicUnderTest, name: str) -> None:
    """'{}' can be the name of a node"""
    node = ironic.post("/v1/nodes", {**DRIVER, "name": name}).body["uuid"]
    assert ironic.get(f"/v1/nodes/{name}").body["uuid"] == node


@check
def _(ironic: IronicUnderTest) -> None:
    """before version 1.10 a name has to be a host name"""
    for name, version, status in (
        *(("a_b~c", "1.9", 400), ("a_b~c", "1.10", None)),
        *(("n", "1.4", 406), ("n", "1.5", None)),
    ):
        ironic.post("/v1/nodes", {**DRIVER, "name": name}, version=version, expect=status)


@check_each("nonsense", "1234", 5, "")
def _(ironic: IronicUnderTest, uuid: Any) -> None:
    """'{}' can't be the uuid of a node"""
    ironic.post("/v1/nodes", {**DRIVER, "uuid": uuid}, expect=400)


@check_each(
    *(("resource_class", "gold", 21), ("network_interface", "noop", 20)),
    *(("storage_interface", "noop", 33), ("rescue_interface", "fake", 38)),
    *(("automated_clean", True, 47), ("description", "text", 51), ("retired", True, 61)),
    *(("lessee", "me", 65), ("network_data", {}, 66), ("shard", "s", 82)),
    *(("firmware_interface", "fake", 86), ("disable_power_off", True, 95)),
    ("instance_name", "vm", 104),
)
def _(ironic: IronicUnderTest, field: str, value: Any, minor: int) -> None:
    """a node can't be made with {} before its version"""
    ironic.post("/v1/nodes", {**DRIVER, field: value}, version=f"1.{minor - 1}", expect=406)
    ironic.post("/v1/nodes", {**DRIVER, field: value}, version=f"1.{minor}")


@check_each(
    "provision_state", "power_state", "reservation", "created_at", "colour", "traits", "protected"
)
def _(ironic: IronicUnderTest, field: str) -> None:
    """a node can't be made with {}"""
    ironic.post("/v1/nodes", {**DRIVER, field: "on"}, expect=400)


@check_each(
    ("a node of a conductor group that nobody serves is", {"conductor_group": "far-away"}),
    (
        "an interface that is not enabled is",
        {"deploy_interface": "direct"},
        {"power_interface": "steam"},
    ),
    (
        "fields of a wrong type are",
        *({"properties": "many"}, {"extra": []}, {"maintenance": "perhaps"}),
        *({"resource_class": 5}, {"resource_class": "a" * 81}, {"description": "a" * 4097}),
    ),
)
def _(ironic: IronicUnderTest, _: str, *bodies: dict[str, Any]) -> None:
    """{} refused"""
    ironic.post_each("/v1/nodes", *(DRIVER | body for body in bodies), expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """only somebody of a project can give a new node an owner"""
    ironic.post("/v1/nodes", {**DRIVER, "owner": "me"}, expect=400)
    ironic.post("/v1/nodes", {**DRIVER, "owner": None})


@check
def _(ironic: IronicUnderTest) -> None:
    """a deleted node is gone, and its ports with it"""
    node = ironic.node(name="n")
    port = ironic.port(node)
    answer = ironic.delete(f"/v1/nodes/{node}")
    assert answer.status == 204
    ironic.get_each("/v1/", f"nodes/{node}", "nodes/n", f"ports/{port}", expect=404)
    ironic.delete(f"/v1/nodes/{node}", expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node can be deleted by its name"""
    ironic.node(name="n")
    ironic.delete("/v1/nodes/n", version="1.4", expect=404)
    ironic.delete("/v1/nodes/n", version="1.5")


@check
def _(ironic: IronicUnderTest) -> None:
    """a node with an instance is not deleted, unless it is in maintenance"""
    node = ironic.active_node(instance_uuid=ironic.uuid())
    ironic.delete(f"/v1/nodes/{node}", expect=409)
    with ironic.unrecorded():
        ironic.put(f"/v1/nodes/{node}/maintenance")
    ironic.delete(f"/v1/nodes/{node}")


@check_each(
    *((state, 204) for state in ("available", "manageable", "enroll", "adopt failed")),
    *(
        (state, 409)
        for state in ("active", "deploying", "deploy failed", "cleaning", "clean wait")
    ),
    *((state, 409) for state in ("clean failed", "inspecting", "rescue", "error")),
)
def _(ironic: IronicUnderTest, state: str, status: int) -> None:
    """whether a node can be deleted in state {}"""
    node = ironic.node_with(provision_state=state)
    ironic.delete(f"/v1/nodes/{node}", expect=status)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node that somebody works on is not deleted"""
    node = ironic.node_with(reservation="conductor-1")
    ironic.delete(f"/v1/nodes/{node}", expect=409)
    ironic.set_node(node, reservation=None)
    ironic.delete(f"/v1/nodes/{node}")
