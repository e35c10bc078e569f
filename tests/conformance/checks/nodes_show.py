# SPDX-License-Identifier: Apache-2.0

"""One node: its fields by version, and asking for some of them."""

from typing import Any

from tests.conformance.checks.allocations import GOLD, allocate
from tests.conformance.checks.nodes_patch import add, remove
from tests.conformance.registry import check, check_each
from tests.conformance.subject import IronicUnderTest

SHOWN: dict[str, tuple[Any, ...]] = {
    "a node": (
        (
            *(1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 20, 21, 24, 30, 31, 32, 33, 37, 38, 40, 42, 44),
            *(46, 47, 48, 49, 50, 51, 52, 61, 65, 66, 69, 75, 82, 83, 86, 87, 95, 103, 104, 109),
            *(111, 115),
        ),
        *("nodes/{node}", "nodes", "nodes/detail"),
    ),
    "a node's page of states": ((1, 5, 12, 75, 115), "nodes/{node}/states"),
    "a port": (
        (1, 18, 19, 23, 24, 34, 53, 69, 88, 97, 109, 115),
        *("ports/{port}", "ports", "ports/detail"),
    ),
    "a port group": (
        (24, 26, 115),
        *("portgroups/{group}", "portgroups/detail"),
        *("nodes/{node}/portgroups", "nodes/{node}/portgroups/detail"),
    ),
    "an allocation": ((52, 58, 60, 115), "allocations/{allocation}", "allocations"),
    "a driver": ((1, 14, 30, 31, 77, 115), "drivers"),
}
"""Pages, and the versions in which what they show changes, and before."""


@check_each(
    *(
        (f"{what} at version 1.{minor}", minor, *pages)
        for what, (minors, *pages) in SHOWN.items()
        for minor in minors
    )
)
def _(ironic: IronicUnderTest, _: str, minor: int, *pages: str) -> None:
    """{} has the fields of that version"""
    node = ironic.node(resource_class="gold", traits=["CUSTOM_A"])
    parts = {"node": node, "port": ironic.port(node)}
    with ironic.unrecorded():
        parts["group"] = ironic.post("/v1/portgroups", {"node_uuid": node}).body["uuid"]
        if pages[0].startswith("allocations"):
            parts["allocation"] = allocate(ironic, GOLD)["uuid"]
    ironic.get_each("/v1/", *(page.format(**parts) for page in pages), version=f"1.{minor}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a node, with all its pages, is found by its name from version 1.5, or by its whole uuid"""
    node = "abcdefab-0000-4000-8000-000000000000"
    with ironic.unrecorded():
        ironic.post("/v1/nodes", {"uuid": node, "driver": "fake-hardware", "name": "n-1"})
    ironic.get("/v1/nodes/n-1", version="1.4", expect=404)
    ironic.get("/v1/nodes/n-1", version="1.5")
    ironic.get(f"/v1/nodes/{node}")
    ironic.get(f"/v1/nodes/{node.replace('-', '')}", expect=404)
    ironic.get_each(
        f"/v1/nodes/{ironic.uuid()}",
        *("", "/states", "/ports", "/portgroups", "/traits", "/vifs", "/volume/targets"),
        *("/validate", "/management/boot_device", "/history", "/states/console"),
        expect=404,
    )


@check
def _(ironic: IronicUnderTest) -> None:
    """only the fields that are asked for are shown, from version 1.8"""
    path = f"/v1/nodes/{ironic.node(resource_class='gold', traits=['CUSTOM_A'])}?fields="
    body = ironic.get(f"{path}uuid,name,resource_class").body
    assert set(body) == {"uuid", "name", "resource_class", "links"}
    ironic.get_each(path, "traits,properties", "name,name", "name&fields=extra")
    ironic.get(f"{path}conductor,allocation_uuid,chassis_uuid")
    ironic.get_each(path, "created_at,updated_at", "colour", "uuid,colour", expect=400)
    ironic.get_each(path, "links", "ports", "id", expect=400)
    for one in (path, "/v1/nodes?fields="):
        ironic.get(f"{one}uuid", version="1.7", expect=406)
    ironic.get(f"{path}uuid", version="1.8")
    ironic.get(path)


@check_each(
    *(("network_interface", "noop", 20), ("resource_class", "gold", 21)),
    *(("storage_interface", "noop", 33), ("rescue_interface", "fake", 38)),
    *(("conductor_group", "", 46), ("automated_clean", True, 47), ("protected", True, 48)),
    *(("owner", "me", 50), ("description", "text", 51), ("retired", True, 61)),
    *(("lessee", "me", 65), ("network_data", {}, 66), ("shard", "s", 82)),
    *(("firmware_interface", "fake", 86), ("disable_power_off", True, 95)),
    ("instance_name", "vm", 104),
)
def _(ironic: IronicUnderTest, field: str, value: Any, minor: int) -> None:
    """{} of a node is there from its version on, and can be removed before"""
    path, before = f"/v1/nodes/{ironic.node()}", f"1.{minor - 1}"
    made = {"driver": "fake-hardware", field: value}
    ironic.get(f"{path}?fields={field}", version=before, expect=406)
    ironic.get(f"/v1/nodes?sort_key={field}", version=before, expect=406)
    ironic.patch(path, add(f"/{field}", value), version=before, expect=406)
    removed = 500 if field in ("conductor_group", "automated_clean") else 200
    ironic.patch(path, remove(f"/{field}"), version=before, expect=removed)
    status = {"conductor_group": 201, "protected": 400}.get(field, 406)
    ironic.post("/v1/nodes", made, version=before, expect=status)
    ironic.get(f"{path}?fields={field}", version=f"1.{minor}")
    status = 400 if field in ("protected", "owner") else 201
    ironic.post("/v1/nodes", made, version=f"1.{minor}", expect=status)


@check_each(("traits", 37), ("allocation_uuid", 52))
def _(ironic: IronicUnderTest, field: str, minor: int) -> None:
    """{} can't be asked for before its version"""
    path = f"/v1/nodes/{ironic.node()}?fields={field}"
    ironic.get(path, version=f"1.{minor - 1}", expect=406)
    ironic.get(path, version=f"1.{minor}")


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
