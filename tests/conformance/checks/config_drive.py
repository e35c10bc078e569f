# SPDX-License-Identifier: Apache-2.0

"""Config drives, and what goes into them."""

from typing import Any

from tests.conformance.checks.nodes_patch import add, remove
from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IMAGE, IronicUnderTest


@check
def _(ironic: IronicUnderTest) -> None:
    """a config drive as JSON is refused before version 1.56"""
    node = ironic.node(instance_info=IMAGE)
    for drive, version, status in (
        *(({"meta_data": {}}, "1.55", 400), ({"vendor_data": {}}, "1.58", 400)),
        ("x", "1.1", ANY),
    ):
        ironic.provision(node, "active", configdrive=drive, version=version, expect=status)


@check_each(
    *(
        ("an unknown member", {"colour": "red"}),
        ("a wrong type of meta data", {"meta_data": "text"}),
    ),
    *(("a wrong type of network data", {"network_data": []}), ("a number", 5), ("a list", [])),
)
def _(ironic: IronicUnderTest, _: str, drive: Any) -> None:
    """a config drive with {} is refused"""
    node = ironic.node(instance_info=IMAGE)
    ironic.provision(node, "active", configdrive=drive, expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """a config drive is for deployments only"""
    node = ironic.active_node()
    for target in ("deleted", "manage", "provide"):
        ironic.provision(node, target, configdrive={"meta_data": {}}, expect=400)
    ironic.provision(node, "rebuild", configdrive={"meta_data": {}})


@check_each(
    ("as JSON", {"meta_data": {"name": "vm"}, "user_data": "#!/bin/sh"}),
    ("as text", "SXQncyBhbiBJU08="),
    ("as text that is no ISO", "neither base64 nor a URL"),
)
def _(ironic: IronicUnderTest, _: str, drive: Any) -> None:
    """a config drive {} comes with the claim, and goes with the instance"""
    node = ironic.node()
    path = f"/v1/nodes/{node}"
    claim = (add("/instance_uuid", ironic.uuid()), add("/instance_info", IMAGE))
    body = ironic.patch(path, *claim, add("/instance_info/configdrive", drive)).body
    assert body["instance_info"]["configdrive"] == "******"
    ironic.patch(path, add("/extra/a", 1), add("/instance_info/vcpus", "1"))
    assert ironic.get(path).body["instance_info"]["configdrive"] == "******"
    ironic.provision(node, "active")
    body = ironic.get(path).body
    assert (body["provision_state"], body["instance_info"]["configdrive"]) == ("active", "******")
    assert ironic.kept_instance_info(node)["configdrive"] == drive
    ironic.provision(node, "rebuild")
    assert ironic.kept_instance_info(node)["configdrive"] == drive
    ironic.provision(node, "rebuild", configdrive={"meta_data": {"name": "b"}})
    assert ironic.kept_instance_info(node)["configdrive"] != drive
    ironic.patch(path, add("/instance_info/configdrive", drive), add("/extra/b", 1))
    ironic.patch(path, remove("/instance_info/configdrive"))
    assert "configdrive" not in ironic.get(path).body["instance_info"]
    ironic.patch(path, add("/instance_info/configdrive", drive))
    ironic.provision(node, "deleted")
    assert ironic.get(path).body["instance_info"] == {}


@check
def _(ironic: IronicUnderTest) -> None:
    """a deployment with a config drive does not use the one of the claim, and shows neither"""
    for drive in ({"meta_data": {"name": "vm"}, "user_data": "#!/bin/sh"}, "SXQncyBhbiBJU08="):
        node = ironic.node(instance_info={**IMAGE, "configdrive": {"meta_data": {"name": "a"}}})
        ironic.provision(node, "active", configdrive=drive)
        body = ironic.get(f"/v1/nodes/{node}").body
        assert body["instance_info"]["configdrive"] == "******"
        assert ironic.kept_instance_info(node)["configdrive"] == drive
