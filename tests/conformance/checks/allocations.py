# SPDX-License-Identifier: Apache-2.0

"""Allocations: how Ironic picks a node, and how a node is given back."""

from typing import Any

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
    """an allocation takes a free node of the resource class"""
    ironic.node(resource_class="silver")
    node = ironic.node(resource_class="gold")
    allocation = allocate(ironic, GOLD)
    assert (allocation["state"], allocation["node_uuid"]) == ("active", node)
    body = ironic.get(f"/v1/nodes/{node}").body
    assert body["instance_uuid"] == body["allocation_uuid"] == allocation["uuid"]
    ironic.get(f"/v1/nodes/{node}/allocation")
    ironic.get("/v1/allocations")


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation has what it was made with"""
    ironic.node(resource_class="gold", traits=["CUSTOM_A"])
    allocation = allocate(
        ironic,
        {
            **GOLD,
            "uuid": ironic.uuid(),
            "name": "mine",
            "traits": ["CUSTOM_A"],
            "extra": {"flavor": "f"},
        },
    )
    assert allocation["extra"] == {"flavor": "f"}
    ironic.get("/v1/allocations/mine")


@check_each(52, 58, 60, 115)
def _(ironic: IronicUnderTest, minor: int) -> None:
    """an allocation at version 1.{} has the fields of that version"""
    ironic.node(resource_class="gold")
    with ironic.unrecorded():
        allocation = allocate(ironic, GOLD)["uuid"]
    ironic.get(f"/v1/allocations/{allocation}", version=f"1.{minor}")
    ironic.get("/v1/allocations", version=f"1.{minor}")


@check
def _(ironic: IronicUnderTest) -> None:
    """no node of the resource class is an error that says so"""
    ironic.node(resource_class="silver")
    allocation = allocate(ironic, GOLD)
    assert allocation["state"] == "error"
    assert allocation["node_uuid"] is None


@check
def _(ironic: IronicUnderTest) -> None:
    """a node with more traits than asked for is taken, one with fewer is not"""
    ironic.node(resource_class="gold", traits=["CUSTOM_A"])
    rich = ironic.node(resource_class="gold", traits=["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"])
    allocation = allocate(ironic, {**GOLD, "traits": ["CUSTOM_A", "CUSTOM_B"]})
    assert allocation["node_uuid"] == rich
    allocation = allocate(ironic, {**GOLD, "traits": ["CUSTOM_D"]})
    assert allocation["state"] == "error"


@check
def _(ironic: IronicUnderTest) -> None:
    """only candidates are taken, by uuid or by name"""
    ironic.node(resource_class="gold")
    second, third = (
        ironic.node(resource_class="gold"),
        ironic.node(resource_class="gold", name="n"),
    )
    allocation = allocate(ironic, {**GOLD, "candidate_nodes": [second]})
    assert allocation["node_uuid"] == second
    allocation = allocate(ironic, {**GOLD, "candidate_nodes": ["n"]})
    assert allocation["node_uuid"] == third
    allocation = allocate(ironic, {**GOLD, "candidate_nodes": [second]})
    assert allocation["state"] == "error"


@check
def _(ironic: IronicUnderTest) -> None:
    """a candidate that does not exist is refused at once"""
    ironic.node(resource_class="gold")
    body = {**GOLD, "candidate_nodes": [ironic.uuid()]}
    ironic.post("/v1/allocations", body, expect=400)
    ironic.post("/v1/allocations", {**GOLD, "candidate_nodes": ["nothing"]}, expect=400)
    ironic.post("/v1/allocations", {**GOLD, "candidate_nodes": "n"}, expect=400)
    ironic.post("/v1/allocations", {**GOLD, "candidate_nodes": [5]}, expect=400)
    ironic.post("/v1/allocations", {**GOLD, "candidate_nodes": ["a b"]}, expect=400)
    ironic.node(resource_class="gold")
    allocate(ironic, {**GOLD, "candidate_nodes": []})
    assert len(ironic.get("/v1/allocations").body["allocations"]) == 1


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


@check
def _(ironic: IronicUnderTest) -> None:
    """asked for again under the same uuid, an allocation stays as it was made"""
    node, other = ironic.node(resource_class="gold"), ironic.node(resource_class="gold")
    body = {**GOLD, "uuid": ironic.uuid(), "candidate_nodes": [node], "extra": {"a": 1}}
    allocate(ironic, body)
    ironic.post("/v1/allocations", {**body, "candidate_nodes": [other]}, expect=409)
    found = ironic.get(f"/v1/allocations/{body['uuid']}").body
    assert (found["node_uuid"], found["candidate_nodes"]) == (node, [node])
    ironic.get(f"/v1/nodes/{other}")


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
    for body in (
        {},
        {"resource_class": None},
        {"resource_class": 5},
        {"resource_class": "a" * 81},
        {**GOLD, "traits": "CUSTOM_A"},
        {**GOLD, "traits": ["gpu"]},
        {**GOLD, "name": "a b"},
        {**GOLD, "name": 5},
        {**GOLD, "extra": []},
        {**GOLD, "state": "active"},
        {**GOLD, "node_uuid": "x"},
        {**GOLD, "colour": "red"},
    ):
        ironic.post("/v1/allocations", body, expect=400)
    assert ironic.get("/v1/allocations").body == {"allocations": []}


@check
def _(ironic: IronicUnderTest) -> None:
    """a uuid and a name are used once"""
    for _ in range(2):
        ironic.node(resource_class="gold")
    allocation = allocate(ironic, {**GOLD, "name": "a"})
    answer = ironic.post("/v1/allocations", {**GOLD, "uuid": allocation["uuid"]}, expect=409)
    assert allocation["uuid"] in answer.fault
    ironic.post("/v1/allocations", {**GOLD, "name": "a"}, expect=409)
    assert len(ironic.get("/v1/allocations").body["allocations"]) == 1


@check
def _(ironic: IronicUnderTest) -> None:
    """a deleted allocation frees its node"""
    node = ironic.node(resource_class="gold")
    allocation = allocate(ironic, GOLD)
    assert ironic.delete(f"/v1/allocations/{allocation['uuid']}").status == 204
    ironic.get(f"/v1/allocations/{allocation['uuid']}", expect=404)
    ironic.get(f"/v1/nodes/{node}/allocation", expect=404)
    body = ironic.get(f"/v1/nodes/{node}").body
    assert (body["instance_uuid"], body["allocation_uuid"]) == (None, None)
    ironic.delete(f"/v1/allocations/{allocation['uuid']}", expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation can be deleted by its name or by its node"""
    node = ironic.node(resource_class="gold")
    allocate(ironic, {**GOLD, "name": "a"})
    ironic.delete("/v1/allocations/a")
    allocate(ironic, GOLD)
    ironic.delete(f"/v1/nodes/{node}/allocation")
    ironic.delete(f"/v1/nodes/{node}/allocation", expect=404)
    ironic.get(f"/v1/nodes/{node}")


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation in error can be deleted"""
    allocation = allocate(ironic, GOLD)
    ironic.delete(f"/v1/allocations/{allocation['uuid']}")


@check_each(
    ("active", 409),
    ("deploying", 409),
    ("deploy failed", 409),
    ("rescue", 409),
    ("available", 204),
    ("manageable", 204),
    ("error", 409),
)
def _(ironic: IronicUnderTest, state: str, _: int) -> None:
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
    change = {"op": "replace", "path": "/instance_uuid", "value": ironic.uuid()}
    ironic.patch(path, change, expect=409)
    ironic.patch(path, {"op": "remove", "path": "/instance_uuid"}, expect=ANY)
    ironic.get(path)
    ironic.get(f"/v1/allocations/{allocation}", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node with an allocation is not deleted"""
    node = ironic.node(resource_class="gold")
    allocate(ironic, GOLD)
    ironic.delete(f"/v1/nodes/{node}", expect=409)


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation can be made afterwards, for a node that is in use"""
    instance = ironic.uuid()
    node = ironic.active_node(resource_class="gold", instance_uuid=instance)
    ironic.post("/v1/allocations", {"node": node}, version="1.57", expect=ANY)
    ironic.post("/v1/allocations", {"node": node, **GOLD, "uuid": ironic.uuid()}, expect=ANY)
    made = ironic.post("/v1/allocations", {"node": node, "name": "late"}, expect=ANY)
    ironic.get(f"/v1/nodes/{node}")
    ironic.get("/v1/allocations")
    assert made.status == 201
    ironic.post("/v1/allocations", {"node": node}, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation can't be made afterwards for a node that is free, or not there"""
    node = ironic.node(resource_class="gold")
    ironic.post("/v1/allocations", {"node": node}, expect=ANY)
    ironic.post("/v1/allocations", {"node": ironic.uuid()}, expect=ANY)
    ironic.post("/v1/allocations", {"node": node, "candidate_nodes": [node]}, expect=ANY)
    ironic.get("/v1/allocations")
    ironic.get(f"/v1/nodes/{node}")


@check
def _(ironic: IronicUnderTest) -> None:
    """allocations are found by resource class, state, node and owner"""
    node = ironic.node(resource_class="gold", name="n")
    taken = allocate(ironic, GOLD)["uuid"]
    failed = allocate(ironic, {"resource_class": "silver"})["uuid"]
    for query, found in (
        ("resource_class=gold", [taken]),
        ("resource_class=silver", [failed]),
        ("state=active", [taken]),
        ("state=error", [failed]),
        (f"node={node}", [taken]),
        ("node=n", [taken]),
    ):
        body = ironic.get(f"/v1/allocations?{query}").body
        assert [row["uuid"] for row in body["allocations"]] == found
    ironic.get("/v1/allocations?state=colourful", expect=ANY)
    ironic.get(f"/v1/allocations?node={ironic.uuid()}", expect=ANY)
    ironic.get("/v1/allocations?owner=me", expect=ANY)
    ironic.get("/v1/allocations?owner=me", version="1.59", expect=ANY)
    ironic.get("/v1/allocations?fields=uuid,state")
    ironic.get("/v1/allocations?fields=colour", expect=ANY)
    ironic.get("/v1/allocations?limit=1")
    ironic.get(f"/v1/allocations?marker={taken}")
    ironic.get("/v1/allocations?sort_key=resource_class&sort_dir=desc")
    ironic.get("/v1/allocations?sort_key=extra", expect=ANY)
    ironic.get(f"/v1/allocations/{taken}?fields=node_uuid,last_error")


@check
def _(ironic: IronicUnderTest) -> None:
    """name and extra of an allocation can be changed, nothing else"""
    ironic.node(resource_class="gold")
    path = f"/v1/allocations/{allocate(ironic, GOLD)['uuid']}"
    ironic.patch(path, {"op": "add", "path": "/name", "value": "new"})
    ironic.patch(path, {"op": "add", "path": "/extra/a", "value": 1})
    ironic.patch(path, {"op": "remove", "path": "/name"})
    ironic.patch(path, {"op": "add", "path": "/name", "value": "a b"}, expect=400)
    ironic.patch(path, {"op": "replace", "path": "/state", "value": "error"}, expect=400)
    ironic.patch(path, {"op": "replace", "path": "/node_uuid", "value": None}, expect=400)
    ironic.patch(path, {"op": "replace", "path": "/resource_class", "value": "a"}, expect=400)
    ironic.patch(path, {"op": "add", "path": "/name", "value": "x"}, version="1.56", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """there are no allocations before version 1.52"""
    node = ironic.node()
    ironic.get("/v1/allocations", version="1.51", expect=404)
    ironic.get(f"/v1/allocations/{ironic.uuid()}", version="1.51", expect=404)
    ironic.get(f"/v1/nodes/{node}/allocation", version="1.51", expect=404)
    ironic.post("/v1/allocations", GOLD, version="1.51", expect=405)
    ironic.delete(f"/v1/allocations/{ironic.uuid()}", version="1.51", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """an allocation that is not there"""
    ironic.get(f"/v1/allocations/{ironic.uuid()}", expect=404)
    ironic.get("/v1/allocations/nothing", expect=404)
    ironic.get("/v1/allocations/a%20b", expect=ANY)
    ironic.delete(f"/v1/allocations/{ironic.uuid()}", expect=404)
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
