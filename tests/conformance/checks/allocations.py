# SPDX-License-Identifier: Apache-2.0

"""Allocations: how Ironic picks a node, and how a node is given back."""

from typing import Any

from tests.conformance.checks.nodes_patch import add, remove, replace
from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IMAGE, IronicUnderTest

GOLD = {"resource_class": "gold"}


def allocate(ironic: IronicUnderTest, body: dict[str, Any]) -> dict[str, Any]:
    """Ask for a node, wait for the decision, and record it."""
    made = ironic.post("/v1/allocations", body)
    assert made.status == 201
    ironic.wait_for_allocation(made.body["uuid"])
    decided: dict[str, Any] = ironic.get(f"/v1/allocations/{made.body['uuid']}").body
    return decided


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation takes a free node of the resource class, and without one is an error"""
    ironic.node(resource_class="silver")
    allocation = allocate(ironic, GOLD)
    assert (allocation["state"], allocation["node_uuid"]) == ("error", None)
    node = ironic.node(resource_class="gold")
    allocation = allocate(ironic, GOLD)
    assert (allocation["state"], allocation["node_uuid"]) == ("active", node)
    body = ironic.get(f"/v1/nodes/{node}").body
    assert body["instance_uuid"] == body["allocation_uuid"] == allocation["uuid"]
    ironic.get_each("/v1/", f"nodes/{node}/allocation", "allocations")


@check
def _(ironic: IronicUnderTest) -> None:
    """a node with more traits than asked for is taken by an allocation, which keeps its fields"""
    ironic.node(resource_class="gold", traits=["CUSTOM_A"])
    rich = ironic.node(resource_class="gold", traits=["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"])
    wanted = {"name": "mine", "traits": ["CUSTOM_A", "CUSTOM_B"], "extra": {"flavor": "f"}}
    allocation = allocate(ironic, {**GOLD, "uuid": ironic.uuid(), **wanted})
    assert (allocation["node_uuid"], allocation["extra"]) == (rich, {"flavor": "f"})
    ironic.get("/v1/allocations/mine")
    allocation = allocate(ironic, {**GOLD, "traits": ["CUSTOM_D"]})
    assert allocation["state"] == "error"


@check
def _(ironic: IronicUnderTest) -> None:
    """only candidates are taken, by uuid or by name, and are refused at once if there are none"""
    ironic.node(resource_class="gold")
    second = ironic.node(resource_class="gold")
    third = ironic.node(resource_class="gold", name="n")
    for candidates in ([ironic.uuid()], ["nothing"], "n", [5], ["a b"]):
        ironic.post("/v1/allocations", {**GOLD, "candidate_nodes": candidates}, expect=400)
    for candidate, taken in ((second, second), ("n", third), (second, None)):
        allocation = allocate(ironic, {**GOLD, "candidate_nodes": [candidate]})
        assert allocation["node_uuid"] == taken
        assert (allocation["state"] == "error") == (taken is None)
    allocate(ironic, {**GOLD, "candidate_nodes": []})
    assert len(ironic.get("/v1/allocations").body["allocations"]) == 4


@check
def _(ironic: IronicUnderTest) -> None:
    """candidates that are all taken are an error that says so, and free ones are left alone"""
    taken, free = ironic.node(resource_class="gold"), ironic.node(resource_class="gold")
    first = allocate(ironic, {**GOLD, "uuid": ironic.uuid(), "candidate_nodes": [taken]})
    second = allocate(ironic, {**GOLD, "uuid": ironic.uuid(), "candidate_nodes": [taken]})
    assert (first["state"], second["state"]) == ("active", "error")
    assert "none of the requested nodes are available" in second["last_error"]
    ironic.get(f"/v1/nodes/{free}")
    ironic.delete(f"/v1/allocations/{second['uuid']}")
    ironic.get(f"/v1/nodes/{taken}")


@check_each(
    ("in maintenance", {"maintenance": True}),
    ("with an instance", {"instance_uuid": "00000000-0000-4000-8000-0000000000aa"}),
    ("of unknown power", {"power_state": None}),
    ("in use", {"provision_state": "active"}),
    ("being cleaned", {"provision_state": "cleaning"}),
    ("only manageable", {"provision_state": "manageable"}),
    ("somebody works on", {"reservation": "conductor-1"}),
    ("retired", {"retired": True}),
    ("of another owner", {"owner": "another"}),
    ("of a group that nobody serves", {"conductor_group": "rack9"}),
    ("of a shard", {"shard": "s1"}),
    ("switched on", {"power_state": "power on"}),
    ("with a power error", {"power_state": "error"}),
)
def _(ironic: IronicUnderTest, _: str, fields: dict[str, Any]) -> None:
    """whether a node {} is taken"""
    node = ironic.node(resource_class="gold")
    ironic.set_node(node, **fields)
    allocate(ironic, GOLD)


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation can't be made of nothing, or of something wrong"""
    ironic.post_each(
        "/v1/allocations",
        *({}, {"resource_class": None}, {"resource_class": 5}, {"resource_class": "a" * 81}),
        *({**GOLD, "traits": "CUSTOM_A"}, {**GOLD, "traits": ["gpu"]}, {**GOLD, "name": "a b"}),
        *({**GOLD, "name": 5}, {**GOLD, "extra": []}, {**GOLD, "state": "active"}),
        *({**GOLD, "node_uuid": "x"}, {**GOLD, "colour": "red"}),
        expect=400,
    )
    assert ironic.get("/v1/allocations").body == {"allocations": []}


@check
def _(ironic: IronicUnderTest) -> None:
    """a uuid and a name are used once, and asked for again an allocation stays as it was made"""
    node, other = ironic.node(resource_class="gold"), ironic.node(resource_class="gold")
    body = {**GOLD, "uuid": ironic.uuid(), "name": "a", "extra": {"a": 1}}
    allocate(ironic, {**body, "candidate_nodes": [node]})
    answer = ironic.post("/v1/allocations", {**body, "candidate_nodes": [other]}, expect=409)
    assert body["uuid"] in answer.fault
    ironic.post_each(
        "/v1/allocations",
        *({**GOLD, "uuid": body["uuid"]}, {**GOLD, "name": "a"}),
        expect=409,
    )
    (found,) = ironic.get("/v1/allocations").body["allocations"]
    assert (found["node_uuid"], found["candidate_nodes"]) == (node, [node])
    ironic.get_each("/v1/", f"allocations/{body['uuid']}", f"nodes/{other}")


@check_each("allocations/{uuid}", "allocations/mine", "nodes/{node}/allocation")
def _(ironic: IronicUnderTest, path: str) -> None:
    """an allocation keeps its node, and frees it when it is deleted as {}"""
    node = ironic.node(resource_class="gold")
    allocation = allocate(ironic, {**GOLD, "name": "mine"})["uuid"]
    path = f"/v1/{path.format(uuid=allocation, node=node)}"
    ironic.delete(f"/v1/nodes/{node}", expect=409)
    assert ironic.delete(path).status == 204
    ironic.get_each("/v1/", f"allocations/{allocation}", f"nodes/{node}/allocation", expect=404)
    body = ironic.get(f"/v1/nodes/{node}").body
    assert (body["instance_uuid"], body["allocation_uuid"]) == (None, None)
    ironic.delete(path, expect=404)


@check_each(
    *("active", "deploying", "deploy failed", "rescue", "available", "manageable", "error")
)
def _(ironic: IronicUnderTest, state: str) -> None:
    """whether the allocation of a node in state {} can be deleted"""
    node = ironic.node(resource_class="gold")
    with ironic.unrecorded():
        allocation = allocate(ironic, GOLD)["uuid"]
    ironic.set_node(node, provision_state=state)
    ironic.delete(f"/v1/allocations/{allocation}", expect=ANY)
    ironic.get(f"/v1/allocations/{allocation}", expect=ANY)
    ironic.set_node(node, maintenance=True)
    ironic.delete(f"/v1/nodes/{node}/allocation", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """tearing an instance down deletes its allocation"""
    node = ironic.node(resource_class="gold", instance_info=IMAGE)
    allocation = allocate(ironic, GOLD)["uuid"]
    ironic.provision(node, "active")
    ironic.delete(f"/v1/allocations/{allocation}", expect=409)
    ironic.provision(node, "deleted")
    ironic.get(f"/v1/allocations/{allocation}", expect=404)
    body = ironic.get(f"/v1/nodes/{node}").body
    assert (body["instance_uuid"], body["allocation_uuid"]) == (None, None)


@check
def _(ironic: IronicUnderTest) -> None:
    """whether the instance of an allocated node can be taken off or changed"""
    node = ironic.node(resource_class="gold")
    allocation = allocate(ironic, GOLD)["uuid"]
    path = f"/v1/nodes/{node}"
    change = replace("/instance_uuid", ironic.uuid())
    ironic.patch(path, change, expect=409)
    ironic.patch(path, remove("/instance_uuid"), expect=ANY)
    ironic.get(path)
    ironic.get(f"/v1/allocations/{allocation}", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation can be made afterwards, for a node that is in use"""
    instance = ironic.uuid()
    node = ironic.active_node(resource_class="gold", instance_uuid=instance)
    ironic.post("/v1/allocations", {"node": node}, version="1.57", expect=ANY)
    ironic.post("/v1/allocations", {"node": node, **GOLD, "uuid": ironic.uuid()}, expect=ANY)
    made = ironic.post("/v1/allocations", {"node": node, "name": "late"}, expect=ANY)
    ironic.get_each("/v1/", f"nodes/{node}", "allocations")
    assert made.status == 201
    ironic.post("/v1/allocations", {"node": node}, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation can't be made afterwards for a node that is free, or not there"""
    node = ironic.node(resource_class="gold")
    for body in (
        {"node": node},
        {"node": ironic.uuid()},
        {"node": node, "candidate_nodes": [node]},
    ):
        ironic.post("/v1/allocations", body, expect=ANY)
    ironic.get_each("/v1/", "allocations", f"nodes/{node}")


@check
def _(ironic: IronicUnderTest) -> None:
    """allocations are found by resource class, state, node and owner"""
    node = ironic.node(resource_class="gold", name="n")
    taken = allocate(ironic, GOLD)["uuid"]
    failed = allocate(ironic, {"resource_class": "silver"})["uuid"]
    path = "/v1/allocations?"
    for query, found in (
        *(("resource_class=gold", taken), ("resource_class=silver", failed)),
        *(("state=active", taken), ("state=error", failed)),
        *((f"node={node}", taken), ("node=n", taken)),
    ):
        body = ironic.get(f"{path}{query}").body
        assert [row["uuid"] for row in body["allocations"]] == [found]
    ironic.get_each(path, "state=colourful", f"node={ironic.uuid()}", "owner=me", expect=ANY)
    ironic.get(f"{path}owner=me", version="1.59", expect=ANY)
    ironic.get_each(path, "fields=colour", "sort_key=extra", expect=ANY)
    ironic.get_each(path, "fields=uuid,state", "limit=1", f"marker={taken}")
    ironic.get(f"{path}sort_key=resource_class&sort_dir=desc")
    ironic.get(f"/v1/allocations/{taken}?fields=node_uuid,last_error")


@check
def _(ironic: IronicUnderTest) -> None:
    """name and extra of an allocation can be changed, nothing else"""
    ironic.node(resource_class="gold")
    path = f"/v1/allocations/{allocate(ironic, GOLD)['uuid']}"
    ironic.patch_each(path, add("/name", "new"), add("/extra/a", 1), remove("/name"))
    ironic.patch_each(
        path,
        *(add("/name", "a b"), replace("/state", "error")),
        *(replace("/node_uuid", None), replace("/resource_class", "a")),
        expect=400,
    )
    ironic.patch(path, add("/name", "x"), version="1.56", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """there are no allocations before version 1.52"""
    before: dict[str, Any] = {"version": "1.51"}
    pages = (f"nodes/{ironic.node()}/allocation", f"allocations/{ironic.uuid()}", "allocations")
    ironic.get_each("/v1/", *pages, **before, expect=404)
    ironic.post("/v1/allocations", GOLD, **before, expect=405)
    ironic.delete(f"/v1/allocations/{ironic.uuid()}", **before, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation that is not there"""
    ironic.get_each("/v1/allocations/", f"{ironic.uuid()}", "nothing", expect=404)
    ironic.get("/v1/allocations/a%20b", expect=ANY)
    for path in ("allocations/{}", "nodes/{}/allocation"):
        ironic.delete(f"/v1/{path.format(ironic.uuid())}", expect=404)
    ironic.get(f"/v1/nodes/{ironic.node()}/allocation", expect=404)
    ironic.get(f"/v1/nodes/{ironic.uuid()}/allocation", expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation of an owner takes only nodes of that owner"""
    ironic.node(resource_class="gold")
    assert allocate(ironic, {**GOLD, "owner": "me"})["state"] == "error"
    node = ironic.node(resource_class="gold", owner="me")
    assert allocate(ironic, {**GOLD, "owner": "me"})["node_uuid"] == node


@check
def _(ironic: IronicUnderTest) -> None:
    """the uuid of an allocation is not looked at"""
    # Nobody can ask how it ends, and it may not end on a node of the next check.
    made = ironic.post("/v1/allocations", {"resource_class": "nobodys", "uuid": "nonsense"})
    assert made.body["uuid"] == "nonsense"
