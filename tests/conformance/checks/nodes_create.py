# SPDX-License-Identifier: Apache-2.0

"""Creating and deleting nodes."""

from typing import Any

from tests.conformance.registry import check, check_each
from tests.conformance.subject import NEWEST, IronicUnderTest

DRIVER = {"driver": "fake-hardware"}


@check
def _(ironic: IronicUnderTest) -> None:
    """a new node is in state enroll, before 1.11 available, with all else at its default"""
    for version, state in (("1.10", "available"), ("1.1", None), ("1.11", "enroll")):
        made = ironic.post("/v1/nodes", DRIVER, version=version).body
        assert made["provision_state"] == state
    answer = ironic.post("/v1/nodes", DRIVER)
    assert answer.status == 201
    assert answer.body["provision_state"] == "enroll"
    assert answer.body["power_state"] is None
    assert answer.headers["Location"].endswith(answer.body["uuid"])
    ironic.get(f"/v1/nodes/{answer.body['uuid']}")


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
    """a uuid and a name can be used once"""
    node = ironic.node(name="taken")
    for values in ({"uuid": node}, {"name": "taken"}):
        ironic.post("/v1/nodes", DRIVER | values, expect=409)


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


@check_each(
    ("without a driver", {"driver": None}),
    ("of a driver that no conductor has", {"driver": "steam"}),
    ("of a conductor group that nobody serves", {"conductor_group": "far-away"}),
    *((f"called '{name}'", {"name": name}) for name in ("with space", "a/b", "ü", "", "x:y", 5)),
    ("of a long name", {"name": "a" * 256}),
    *((f"with the uuid '{uuid}'", {"uuid": uuid}) for uuid in ("nonsense", "1234", 5, "")),
    ("with the interface direct", {"deploy_interface": "direct"}),
    ("with the interface steam", {"power_interface": "steam"}),
    *(
        (f"with {field} {str(value)[:9]}", {field: value})
        for field, value in (
            *(("properties", "many"), ("extra", []), ("maintenance", "perhaps")),
            *(("resource_class", 5), ("resource_class", "a" * 81), ("description", "a" * 4097)),
            *(("provision_state", "on"), ("power_state", "on"), ("reservation", "on")),
            *(("created_at", "on"), ("colour", "on"), ("traits", "on"), ("protected", "on")),
        )
    ),
)
def _(ironic: IronicUnderTest, _: str, values: dict[str, Any]) -> None:
    """a node {} is refused"""
    ironic.post("/v1/nodes", DRIVER | values, expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """only somebody of a project can give a new node an owner"""
    ironic.post("/v1/nodes", {**DRIVER, "owner": "me"}, expect=400)
    ironic.post("/v1/nodes", {**DRIVER, "owner": None})


@check
def _(ironic: IronicUnderTest) -> None:
    """a node that is deleted, by its name from version 1.5, is gone, and its ports with it"""
    for name, version in (("{node}", NEWEST), ("n", "1.5")):
        node = ironic.node(name="n")
        port = ironic.port(node)
        ironic.delete("/v1/nodes/n", version="1.4", expect=404)
        path = f"/v1/nodes/{name.format(node=node)}"
        assert ironic.delete(path, version=version).status == 204
        ironic.get_each("/v1/", f"nodes/{node}", "nodes/n", f"ports/{port}", expect=404)
        ironic.delete(f"/v1/nodes/{node}", expect=404)


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
    *((state, 409) for state in ("active", "deploying", "deploy failed", "cleaning")),
    *((state, 409) for state in ("clean wait", "clean failed", "inspecting", "rescue", "error")),
)
def _(ironic: IronicUnderTest, state: str, status: int) -> None:
    """whether a node can be deleted in state {}, but never while somebody works on it"""
    node = ironic.node_with(provision_state=state, reservation="conductor-1")
    ironic.delete(f"/v1/nodes/{node}", expect=409)
    ironic.set_node(node, reservation=None)
    ironic.delete(f"/v1/nodes/{node}", expect=status)
