# SPDX-License-Identifier: Apache-2.0

"""Chassis, and the nodes in them."""

from tests.conformance.checks.nodes_patch import add, remove
from tests.conformance.registry import check, check_each
from tests.conformance.subject import IronicUnderTest

UNKNOWN = "11111111-2222-4333-8444-555555555555"


def _chassis(ironic: IronicUnderTest, **fields: object) -> str:
    uuid = ironic.uuid()
    ironic.post("/v1/chassis", {"uuid": uuid, **fields})
    return uuid


@check
def _(ironic: IronicUnderTest) -> None:
    """a chassis is created, shown, changed and deleted"""
    uuid = _chassis(ironic, description="rack", extra={"row": 1})
    path = f"/v1/chassis/{uuid}"
    ironic.get_each(path, "", "?fields=uuid,extra,links")
    ironic.patch_each(path, add("/extra/row", 2), remove("/extra"), remove("/description"))
    ironic.post("/v1/chassis", {"uuid": uuid}, expect=409)
    ironic.delete(path)
    ironic.get(path, expect=404)
    ironic.delete(path, expect=404)
    ironic.patch(path, remove("/extra"), expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """chassis are listed page by page, sorted and in detail"""
    first = _chassis(ironic, description="b")
    _chassis(ironic, description="a", extra={"row": 1})
    ironic.get_each(
        "/v1/chassis",
        *("", "/detail", "?detail=true", "?fields=description,nodes", "?limit=1"),
        *("?sort_key=description&sort_dir=desc", f"?marker={first}"),
    )
    ironic.get("/v1/chassis?detail=true", version="1.42", expect=400)
    ironic.get("/v1/chassis?fields=uuid", version="1.7", expect=406)


@check_each("sort_key=extra", "sort_key=colour", "fields=colour", "detail=true&fields=uuid")
def _(ironic: IronicUnderTest, query: str) -> None:
    """a list of chassis with {} is refused"""
    _chassis(ironic)
    ironic.get(f"/v1/chassis?{query}", expect=400)


@check_each(
    ("a name", {"name": "rack"}),
    ("a malformed uuid", {"uuid": "rack"}),
    ("a number for a description", {"description": 1}),
    ("a long description", {"description": "x" * 256}),
)
def _(ironic: IronicUnderTest, what: str, values: dict[str, object]) -> None:
    """a chassis with {} is refused"""
    ironic.post("/v1/chassis", values, expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node goes into a known chassis and out of it, and keeps it from being deleted"""
    uuid = _chassis(ironic)
    node, removal = ironic.node(chassis_uuid=uuid), remove("/chassis_uuid")
    path = f"/v1/nodes/{node}"
    ironic.node()
    ironic.get(f"{path}?fields=chassis_uuid")
    ironic.get_each("/v1/", f"nodes?chassis_uuid={uuid}", f"chassis/{uuid}/nodes")
    ironic.delete(f"/v1/chassis/{uuid}", expect=400)
    ironic.patch(path, removal, version="1.24", expect=406)
    ironic.patch(path, removal)
    ironic.delete(f"/v1/chassis/{uuid}")
    unknown = (f"nodes?chassis_uuid={UNKNOWN}", f"chassis/{UNKNOWN}/nodes")
    ironic.get_each("/v1/", *unknown, expect=404)
    ironic.patch(path, add("/chassis_uuid", UNKNOWN), expect=400)
    ironic.post("/v1/nodes", {"driver": "fake-hardware", "chassis_uuid": UNKNOWN}, expect=400)
