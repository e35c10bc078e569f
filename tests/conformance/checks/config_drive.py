# SPDX-License-Identifier: Apache-2.0

"""Config drives, and what goes into them."""

from typing import Any

from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IMAGE, IronicUnderTest


@check
def _(ironic: IronicUnderTest) -> None:
    """a config drive is kept with the instance, and never shown"""
    for drive in ({"meta_data": {"name": "vm"}, "user_data": "#!/bin/sh"}, "SXQncyBhbiBJU08="):
        node = ironic.node(instance_info=IMAGE)
        ironic.provision(node, "active", configdrive=drive)
        body = ironic.get(f"/v1/nodes/{node}").body
        assert body["instance_info"]["configdrive"] == "******"


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
