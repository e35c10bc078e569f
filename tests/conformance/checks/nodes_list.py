# SPDX-License-Identifier: Apache-2.0

"""Lists of nodes: filters, pages, order, fields."""

from typing import Any
from urllib.parse import urlsplit

from tests.conformance.checks.nodes_patch import add
from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IronicUnderTest


def uuids(body: dict[str, Any]) -> list[str]:
    return [node["uuid"] for node in body["nodes"]]


def next_path(body: dict[str, Any]) -> str:
    parts = urlsplit(body["next"])
    return f"{parts.path}?{parts.query}"


@check
def _(ironic: IronicUnderTest) -> None:
    """an Ironic without nodes has an empty list"""
    assert ironic.get("/v1/nodes").body == {"nodes": []}
    ironic.get_each("/v1/nodes", "/detail", "?detail=true")


@check
def _(ironic: IronicUnderTest) -> None:
    """pages follow each other by marker, and the one after a full one may be empty"""
    made = [ironic.node() for _ in range(5)]
    first = ironic.get("/v1/nodes?limit=2").body
    second = ironic.get(next_path(first)).body
    third = ironic.get(next_path(second)).body
    assert uuids(first) + uuids(second) + uuids(third) == made
    assert "next" not in third
    full = ironic.get("/v1/nodes?limit=5").body
    assert ironic.get(next_path(full)).body["nodes"] == []
    # More than is ever sent in one page.
    ironic.get("/v1/nodes?limit=100000")


@check
def _(ironic: IronicUnderTest) -> None:
    """the link to the next page keeps filters, fields and order"""
    for _ in range(3):
        ironic.node(resource_class="gold", shard="s1")
    path = "/v1/nodes?resource_class=gold&shard=s1&fields=uuid,name&sort_key=uuid&sort_dir=desc"
    body = ironic.get(f"{path}&limit=1").body
    ironic.get(next_path(body))
    ironic.get("/v1/nodes?detail=true&limit=1&maintenance=false")
    ironic.get("/v1/nodes?associated=false&limit=1&provision_state=available")
    ironic.get("/v1/nodes/detail?limit=1&driver=fake-hardware")


@check
def _(ironic: IronicUnderTest) -> None:
    """a list goes on behind its marker, which is the uuid of a node"""
    made = [ironic.node(name=name) for name in "lmn"]
    assert uuids(ironic.get(f"/v1/nodes?marker={made[0]}").body) == made[1:]
    assert uuids(ironic.get(f"/v1/nodes?marker={made[1]}&sort_dir=desc").body) == made[:1]
    assert uuids(ironic.get(f"/v1/nodes?marker={made[2]}").body) == []
    ironic.get(f"/v1/nodes?marker={ironic.uuid()}", expect=404)
    ironic.get_each("/v1/nodes?marker=", "n", "nonsense", expect=400)


@check_each(
    *(f"limit={limit}" for limit in ("0", "-1", "many", "1.5", "")),
    *(f"sort_key={key}" for key in ("properties", "extra", "driver_info", "instance_info")),
    *("sort_key=traits", "sort_key=colour", "sort_dir=sideways", "sort_dir=ASC"),
    *(f"fields=uuid,{field}" for field in ("updated_at", "created_at", "id")),
    *("detail=true&fields=uuid", "detail=perhaps", "maintenance=", "sharded=perhaps"),
    *("associated=perhaps", "instance_uuid=nonsense", "fault=none", "fault=headache"),
    *("provision_state=active,available", "provision_state=active&provision_state=available"),
    *("provision_state=colourful", "provision_state="),
    *(
        (f"fields=uuid,{field}", 500)
        for field in ("allocation_uuid", "conductor", "chassis_uuid", "colour", "links")
    ),
)
def _(ironic: IronicUnderTest, query: str, status: int = 400) -> None:
    """a list of nodes with {} is refused"""
    ironic.node()
    ironic.get(f"/v1/nodes?{query}", expect=status)


@check_each("uuid", "name", "resource_class", "provision_state", "created_at", "shard", "id")
def _(ironic: IronicUnderTest, key: str) -> None:
    """nodes can be sorted by {}"""
    for name, resource_class in (("c", "x"), ("a", "y"), ("b", "z")):
        ironic.node(name=name, resource_class=resource_class, shard=f"s{name}")
    ironic.get_each("/v1/nodes?sort_key=", key, f"{key}&sort_dir=asc", f"{key}&sort_dir=desc")


@check
def _(ironic: IronicUnderTest) -> None:
    """nodes by change, in the same second by id: those that never were are last, on no page"""
    made = [ironic.node(powered=False) for _ in range(6)]
    for node in made[1:]:
        ironic.set_node(node, description="changed")
    by_change = "/v1/nodes?sort_key=updated_at"
    path = f"{by_change}&sort_dir=desc&fields=uuid&limit=2"
    first = ironic.get(path).body
    second = ironic.get(f"{path}&marker={uuids(first)[-1]}").body
    third = ironic.get(f"{path}&marker={uuids(second)[-1]}").body
    assert uuids(first) + uuids(second) == made[:1:-1]
    assert uuids(third) == [made[1]]
    assert "next" not in third
    for direction, order in (("desc&detail=true", made[::-1]), ("asc", made)):
        assert uuids(ironic.get(f"{by_change}&sort_dir={direction}").body) == order
    assert uuids(ironic.get(by_change).body) == made


@check
def _(ironic: IronicUnderTest) -> None:
    """a list by change goes on where its marker stands, also if it doesn't show that one"""
    made = [ironic.node(powered=False, shard="ours") for _ in range(4)]
    for node in made[:3]:
        ironic.set_node(node, description="changed")
    ironic.set_node(made[1], shard="theirs")
    path = "/v1/nodes?sort_key=updated_at&sort_dir=desc&fields=uuid&shard=ours"
    assert uuids(ironic.get(f"{path}&marker={made[2]}").body) == [made[0]]
    assert uuids(ironic.get(f"{path}&marker={made[1]}").body) == [made[0]]
    # From one that was never changed only the ids are compared.
    assert uuids(ironic.get(f"{path}&marker={made[3]}").body) == [made[2], made[0]]
    ironic.get(f"{path}&marker={ironic.uuid()}", expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """a list shows the fields that are asked for"""
    ironic.node(resource_class="gold", traits=["CUSTOM_B", "CUSTOM_A"])
    ironic.get_each(
        "/v1/nodes?fields=",
        *("uuid", "uuid,traits,properties,resource_class"),
        "instance_info,driver_internal_info,extra",
        "conductor_group,shard,reservation,maintenance,last_error",
        "target_provision_state,target_power_state,retired,protected",
    )


@check
def _(ironic: IronicUnderTest) -> None:
    """fields and detail exclude each other"""
    ironic.get("/v1/nodes/detail?fields=uuid", expect=400)
    ironic.get("/v1/nodes?detail=false&fields=uuid")
    ironic.get("/v1/nodes?detail=true", version="1.42", expect=400)


@check_each(
    *(
        ("conductor_group=", 46),
        ("shard=s", 82),
        ("sharded=true", 82),
        ("resource_class=gold", 21),
    ),
    *(("fault=power%20failure", 42), ("owner=me", 50), ("lessee=me", 65)),
    *(("conductor=conductor-1", 49), ("driver=fake-hardware", 16)),
    *(("provision_state=available", 9), ("instance_name=x", 104)),
)
def _(ironic: IronicUnderTest, query: str, minor: int) -> None:
    """the filter {} is refused before its version"""
    ironic.node()
    for path in ("nodes", "nodes/detail"):
        ironic.get(f"/v1/{path}?{query}", version=f"1.{minor - 1}", expect=406)


@check
def _(ironic: IronicUnderTest) -> None:
    """filters by description, retirement and parent do not look at the version"""
    ironic.node(description="text")
    ironic.get_each("/v1/nodes?description_contains=", "y", "x", version="1.50")
    ironic.get("/v1/nodes?retired=true", version="1.60")


@check
def _(ironic: IronicUnderTest) -> None:
    """nodes are found by one or several shards"""
    first, second, none = ironic.node(shard="a"), ironic.node(shard="b"), ironic.node()
    assert uuids(ironic.get("/v1/nodes?shard=a").body) == [first]
    assert uuids(ironic.get("/v1/nodes?shard=a,b").body) == [first, second]
    ironic.get_each("/v1/nodes?shard=", "a&shard=b", "b,,b", "", "c")
    assert uuids(ironic.get("/v1/nodes?sharded=false").body) == [none]
    assert uuids(ironic.get("/v1/nodes?sharded=true").body) == [first, second]
    ironic.get("/v1/nodes?sharded=true&shard=a")


@check
def _(ironic: IronicUnderTest) -> None:
    """a node that no conductor serves is shown all the same"""
    node = ironic.node_with(conductor_group="rack1")
    path = f"/v1/nodes/{node}"
    assert ironic.get(path).body["conductor"] is None
    ironic.put(f"{path}/states/power", {"target": "power on"}, expect=404)
    ironic.put(f"{path}/states/provision", {"target": "active"}, expect=404)
    ironic.patch(path, add("/extra/a", 1), expect=400)
    ironic.delete(path, expect=400)
    ironic.get(f"{path}/vifs", expect=400)
    ironic.get(f"{path}/validate", expect=404)
    vif = {"id": "6b9dc1b3-1b7e-44a5-9d44-61bd6ec4f2f0"}
    for method, page, body in (
        *(("POST", "vifs", vif), ("DELETE", f"vifs/{vif['id']}", None)),
        *(("PUT", "maintenance", None), ("DELETE", "maintenance", None)),
        *(("PUT", "states/console", {"enabled": True}), ("GET", "states/console", None)),
        *(("GET", "management/boot_device", None), ("PUT", "management/inject_nmi", {})),
        ("PUT", "traits", {"traits": []}),
    ):
        ironic.request(method, f"{path}/{page}", body, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node is found by the uuid of its instance"""
    instance = ironic.uuid()
    node, other = ironic.node(instance_uuid=instance), ironic.node()
    assert uuids(ironic.get(f"/v1/nodes?instance_uuid={instance}").body) == [node]
    assert uuids(ironic.get(f"/v1/nodes?instance_uuid={ironic.uuid()}").body) == []
    ironic.get(f"/v1/nodes/detail?instance_uuid={instance}")
    ironic.get(f"/v1/nodes?instance_uuid={instance}&detail=true")
    ironic.get(f"/v1/nodes?instance_uuid={instance}&fields=uuid,name")
    assert uuids(ironic.get("/v1/nodes?associated=true").body) == [node]
    assert uuids(ironic.get("/v1/nodes?associated=false").body) == [other]
    ironic.get(f"/v1/nodes?instance_uuid={instance}&maintenance=true")


@check
def _(ironic: IronicUnderTest) -> None:
    """nodes are found by what they are and have"""
    big = ironic.node(resource_class="gold", owner="me", lessee="you", description="Big 100%_node")
    rack = ironic.node_with(conductor_group="rack1")
    active = ironic.node_with(provision_state="active")
    ill = ironic.node_with(maintenance=True, fault="power failure")
    old = ironic.node_with(retired=True)
    for query, found in (
        *(("resource_class=gold", [big]), ("owner=me", [big]), ("lessee=you", [big])),
        *(("description_contains=big", [big]), ("description_contains=%25", [big])),
        *(("conductor_group=rack1", [rack]), ("conductor_group=", [big, active, ill, old])),
        *(("provision_state=active", [active]), ("provision_state=available&owner=me", [big])),
        *(("maintenance=true", [ill]), ("maintenance=false&retired=true", [old])),
        *(("maintenance=1", [ill]), ("maintenance=yes", [ill]), ("retired=true", [old])),
        *(("fault=power%20failure", [ill]), ("resource_class=gold&owner=you", [])),
        *(("resource_class=gold,silver", []), ("provision_state=deploy%20failed", [])),
    ):
        assert uuids(ironic.get(f"/v1/nodes?{query}").body) == found, query
    ironic.get_each(
        "/v1/nodes?",
        *("driver=fake-hardware", "driver=steam", "conductor=conductor-1"),
        *("conductor=conductor-2", "provision_state=available", "maintenance=false"),
        *("conductor_group=rack1,rack2", "conductor_group=rack2", "conductor_group=a%20b"),
    )


@check
def _(ironic: IronicUnderTest) -> None:
    """the children of a node are listed only when asked for"""
    parent = ironic.node()
    child = ironic.node(parent_node=parent)
    assert uuids(ironic.get("/v1/nodes").body) == [parent]
    assert uuids(ironic.get("/v1/nodes?include_children=true").body) == [parent, child]
    assert uuids(ironic.get(f"/v1/nodes?parent_node={parent}").body) == [child]
    ironic.get(f"/v1/nodes/{parent}/children")
