# SPDX-License-Identifier: Apache-2.0

"""One node: its fields by version, and asking for some of them."""

from tests.conformance.registry import check, check_each
from tests.conformance.subject import IronicUnderTest

# Where what a node shows changes, and the version before.
VERSIONS = (
    *(1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 20, 21, 24, 30, 31, 32, 33, 37, 38, 40, 42, 44, 46, 47),
    *(48, 49, 50, 51, 52, 61, 65, 66, 69, 75, 82, 83, 86, 87, 95, 103, 104, 109, 111, 115),
)


@check_each(*VERSIONS)
def _(ironic: IronicUnderTest, minor: int) -> None:
    """a node at version 1.{} has the fields of that version"""
    node = ironic.node(resource_class="gold", traits=["CUSTOM_A"])
    ironic.get(f"/v1/nodes/{node}", version=f"1.{minor}")
    ironic.get("/v1/nodes", version=f"1.{minor}")
    ironic.get("/v1/nodes/detail", version=f"1.{minor}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a node is found by name from version 1.5"""
    ironic.node(name="n-1")
    ironic.get("/v1/nodes/n-1", version="1.4", expect=404)
    ironic.get("/v1/nodes/n-1", version="1.5")


@check
def _(ironic: IronicUnderTest) -> None:
    """a uuid without dashes finds no node"""
    node = "abcdefab-0000-4000-8000-000000000000"
    with ironic.unrecorded():
        ironic.post("/v1/nodes", {"uuid": node, "driver": "fake-hardware"})
    ironic.get(f"/v1/nodes/{node}")
    ironic.get(f"/v1/nodes/{node.replace('-', '')}", expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """only the fields that are asked for are shown"""
    node = ironic.node(resource_class="gold", traits=["CUSTOM_A"])
    path = f"/v1/nodes/{node}"
    body = ironic.get(f"{path}?fields=uuid,name,resource_class").body
    assert set(body) == {"uuid", "name", "resource_class", "links"}
    ironic.get(f"{path}?fields=traits,properties")
    ironic.get(f"{path}?fields=name,name")
    ironic.get(f"{path}?fields=name&fields=extra")
    ironic.get(f"{path}?fields=conductor,allocation_uuid,chassis_uuid")
    ironic.get(f"{path}?fields=created_at,updated_at", expect=400)
    ironic.get(f"{path}?fields=")


@check
def _(ironic: IronicUnderTest) -> None:
    """a field that no node has can't be asked for"""
    node = ironic.node()
    ironic.get(f"/v1/nodes/{node}?fields=colour", expect=400)
    ironic.get(f"/v1/nodes/{node}?fields=uuid,colour", expect=400)
    ironic.get(f"/v1/nodes/{node}?fields=links", expect=400)
    ironic.get(f"/v1/nodes/{node}?fields=ports", expect=400)
    ironic.get(f"/v1/nodes/{node}?fields=id", expect=400)


@check_each(
    ("resource_class", 21),
    ("traits", 37),
    ("conductor_group", 46),
    ("owner", 50),
    ("description", 51),
    ("allocation_uuid", 52),
    ("retired", 61),
    ("lessee", 65),
    ("shard", 82),
    ("instance_name", 104),
)
def _(ironic: IronicUnderTest, field: str, minor: int) -> None:
    """{} can't be asked for before its version"""
    node = ironic.node()
    ironic.get(f"/v1/nodes/{node}?fields={field}", version=f"1.{minor - 1}", expect=406)
    ironic.get(f"/v1/nodes/{node}?fields={field}", version=f"1.{minor}")


@check
def _(ironic: IronicUnderTest) -> None:
    """before version 1.8 fields can't be chosen"""
    node = ironic.node()
    ironic.get(f"/v1/nodes/{node}?fields=uuid", version="1.7", expect=406)
    ironic.get("/v1/nodes?fields=uuid", version="1.7", expect=406)
    ironic.get(f"/v1/nodes/{node}?fields=uuid", version="1.8")


@check
def _(ironic: IronicUnderTest) -> None:
    """secrets are masked"""
    node = ironic.node(
        driver_info={"password": "a", "ipmi_password": "b", "address": "c"},
        instance_info={"configdrive": "d", "image_url": "e", "rescue_password": "f", "x": "g"},
    )
    body = ironic.get(f"/v1/nodes/{node}").body
    assert body["driver_info"]["ipmi_password"] == "******"
    assert body["instance_info"]["configdrive"] == "******"
    assert body["instance_info"]["x"] == "g"
    ironic.get("/v1/nodes?detail=true")


@check_each(1, 5, 12, 75, 115)
def _(ironic: IronicUnderTest, minor: int) -> None:
    """the states of a node have a page of their own at version 1.{}"""
    node = ironic.node()
    ironic.get(f"/v1/nodes/{node}/states", version=f"1.{minor}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a node that is not there has no pages"""
    nobody = ironic.uuid()
    for page in ("", "/states", "/ports", "/portgroups", "/traits", "/vifs", "/volume/targets"):
        ironic.get(f"/v1/nodes/{nobody}{page}", expect=404)
    for page in ("/validate", "/management/boot_device", "/history", "/states/console"):
        ironic.get(f"/v1/nodes/{nobody}{page}", expect=404)
