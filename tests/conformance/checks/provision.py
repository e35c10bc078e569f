# SPDX-License-Identifier: Apache-2.0

"""Deploying, tearing down, rescuing, cleaning: what is left afterwards."""

from typing import Any

from tests.conformance.checks.nodes_patch import add, remove
from tests.conformance.checks.verbs import AFTERWARDS, STATES, VERBS
from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IMAGE, IronicUnderTest

STEP = {"interface": "deploy", "step": "erase", "args": {}}
HOLD = {"interface": "deploy", "step": "hold", "args": {}}


@check
def _(ironic: IronicUnderTest) -> None:
    """a node goes from enroll to available"""
    node = ironic.uuid()
    ironic.post("/v1/nodes", {"uuid": node, "driver": "fake-hardware"})
    path = f"/v1/nodes/{node}"
    ironic.provision(node, "manage")
    assert ironic.get(path).body["provision_state"] == "manageable"
    ironic.provision(node, "inspect")
    ironic.get(path)
    ironic.provision(node, "provide")
    assert ironic.get(path).body["provision_state"] == "available"


@check
def _(ironic: IronicUnderTest) -> None:
    """an instance comes and goes, and takes what was its own with it"""
    node = ironic.node(instance_uuid=ironic.uuid(), instance_info={**IMAGE, "root_gb": 10})
    path = f"/v1/nodes/{node}"
    answer = ironic.provision(node, "active")
    assert answer.status == 202
    assert ironic.get(path).body["provision_state"] == "active"
    ironic.provision(node, "undeployed", version="1.10", expect=400)
    ironic.provision(node, "deleted")
    body = ironic.get(path).body
    assert body["provision_state"] == "available"
    assert (body["instance_uuid"], body["instance_info"]) == (None, {})


@check
def _(ironic: IronicUnderTest) -> None:
    """a deployment needs an image that can be checked, and no known power state"""
    source, checksum = {"image_source": "http://images/image"}, {"image_checksum": "0" * 32}
    for info, powered, expect in (
        *(({}, True, ANY), (source, True, ANY), (checksum, True, ANY)),
        (IMAGE, False, 202),
    ):
        node = ironic.node(instance_info=info, powered=powered)
        ironic.provision(node, "active", expect=expect)
        ironic.get(f"/v1/nodes/{node}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a node is made ready for a rebuild member by member, and keeps its notes afterwards"""
    info = {**IMAGE, "display_name": "a", "old": 1}
    node = ironic.active_node(instance_uuid=ironic.uuid(), instance_info=info)
    path = f"/v1/nodes/{node}"
    before = ironic.get(f"{path}?fields=provision_state,provision_updated_at,instance_info").body
    mark = {"wish": "req-1", "since": before["provision_updated_at"]}
    answer = ironic.patch(
        path,
        remove("/instance_info/old"),
        add("/instance_info/image_source", "http://images/other"),
        add("/instance_info/preserve_ephemeral", "True"),
        *(add("/instance_info/display_name", "b"), add("/instance_info/a_mark", mark)),
    )
    assert answer.body["provision_updated_at"] == before["provision_updated_at"]
    ironic.set_node(node, provision_updated_at=None)
    ironic.provision(node, "rebuild", configdrive={"meta_data": {"name": "b"}})
    after = ironic.get(path).body
    assert after["provision_updated_at"] is not None
    assert after["instance_info"]["a_mark"] == mark
    for name in ("a~1b", "a.b", "a b"):
        ironic.patch(path, add(f"/instance_info/{name}", 1), expect=400)


@check_each("deploy failed", "error")
def _(ironic: IronicUnderTest, state: str) -> None:
    """a rebuild takes a node out of {}"""
    node = ironic.active_node(instance_uuid=ironic.uuid())
    ironic.set_node(node, provision_state=state, last_error="it broke")
    path = f"/v1/nodes/{node}"
    ironic.patch(path, add("/instance_info/image_type", "whole-disk"))
    ironic.provision(node, "rebuild")
    body = ironic.get(path).body
    assert (body["provision_state"], body["last_error"]) == ("active", None)


@check
def _(ironic: IronicUnderTest) -> None:
    """a rebuild of an image of unknown type is a failure of the server"""
    iso = {"boot_iso": "http://a/b.iso", "ironic_ramdisk_deploy": "True"}
    for info in ({}, {"image_source": "glance-id"}, iso):
        node = ironic.node_with(provision_state="active", instance_info=info)
        ironic.provision(node, "rebuild", expect=500)
        ironic.get(f"/v1/nodes/{node}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a rescue needs a password, and nothing else does"""
    node = ironic.active_node()
    ironic.provision(node, "rescue", expect=400)
    for target, password in (("rescue", ""), ("rescue", 5), ("rebuild", "secret")):
        ironic.provision(node, target, rescue_password=password, expect=400)


@check_each(
    *(("adopt", {}, 17), ("clean", {"clean_steps": []}, 15), ("abort", {}, 13)),
    *(("rescue", {"rescue_password": "secret"}, 38), ("unrescue", {}, 38), ("unhold", {}, 85)),
    *(("service", {"service_steps": []}, 87), ("inspect", {}, 6), ("manage", {}, 4)),
    ("provide", {}, 4),
)
def _(ironic: IronicUnderTest, verb: str, arguments: dict[str, Any], minor: int) -> None:
    """the verb {} is not known before its version"""
    node = ironic.node()
    for version in (minor - 1, minor):
        body = {"target": verb, **arguments}
        ironic.put(f"/v1/nodes/{node}/states/provision", body, version=f"1.{version}", expect=ANY)
    ironic.settle(node)
    ironic.get(f"/v1/nodes/{node}?fields={AFTERWARDS}")


@check
def _(ironic: IronicUnderTest) -> None:
    """steps belong to the verbs that run them"""
    node = ironic.node(instance_info=IMAGE)
    for target, kind, steps in (
        *(("active", "clean", [STEP]), ("active", "service", [STEP])),
        *(("deleted", "deploy", [STEP]), ("active", "deploy", "all")),
    ):
        ironic.provision(node, target, **{f"{kind}_steps": steps}, expect=400)
    ironic.provision(node, "active", deploy_steps=[{"step": "x"}], expect=500)
    ironic.provision(node, "active", deploy_steps=[STEP], version="1.68", expect=406)
    ironic.provision(node, "clean", expect=400)
    ironic.provision(node, "service", expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """a step that holds needs an interface, and is then passed over"""
    cleaned, serviced = ironic.node(), ironic.active_node()
    deployed = ironic.node(instance_info=IMAGE)
    ironic.set_node(cleaned, provision_state="manageable")
    for node, target, steps, end in (
        (cleaned, "clean", "clean_steps", "manageable"),
        (serviced, "service", "service_steps", "active"),
        (deployed, "active", "deploy_steps", "active"),
    ):
        ironic.provision(node, target, **{steps: [{"step": "hold"}]}, expect=500)
        step = HOLD | ({"priority": 99} if target == "active" else {})
        ironic.provision(node, target, **{steps: [step]}, expect=ANY)
        body = ironic.get(f"/v1/nodes/{node}?fields={AFTERWARDS}").body
        assert body["provision_state"] in (end, "available")


@check_each("active", "rescue")
def _(ironic: IronicUnderTest, state: str) -> None:
    """a protected instance is neither rebuilt nor torn down: {}"""
    instance = ironic.uuid()
    node = ironic.active_node(instance_uuid=instance)
    path = f"/v1/nodes/{node}"
    if state == "rescue":
        ironic.provision(node, "rescue", rescue_password="secret")
    own, reason = add("/instance_uuid", instance), add("/protected_reason", "a server")
    body = ironic.patch(path, own, add("/protected", True), reason).body
    assert (body["protected"], body["protected_reason"]) == (True, "a server")
    ironic.provision(node, "deleted", expect=403)
    ironic.provision(node, "rebuild", expect=ANY)
    ironic.delete(path, expect=ANY)
    other = add("/instance_uuid", ironic.uuid())
    ironic.patch(path, other, add("/protected", False), expect=409)
    assert ironic.get(path).body["protected"]
    # What else may come late is taken.
    if state == "active":
        ironic.provision(node, "rescue", rescue_password="secret")
        assert ironic.get(path).body["protected"]
    ironic.provision(node, "unrescue")
    assert ironic.get(path).body["protected"]
    body = ironic.patch(path, own, add("/protected", False)).body
    assert (body["protected"], body["protected_reason"]) == (False, None)
    ironic.provision(node, "deleted")


@check
def _(ironic: IronicUnderTest) -> None:
    """a protected node says why, and keeps its instance's disk, but not the instance"""
    node = ironic.active_node(instance_uuid=ironic.uuid())
    path = f"/v1/nodes/{node}"
    why = f"{path}?fields=protected,protected_reason"
    ironic.patch(path, add("/protected", True), add("/protected_reason", "runs the till"))
    assert ironic.get(why).body["protected_reason"] == "runs the till"
    ironic.get(f"{path}?fields=protected_reason", version="1.47", expect=406)
    ironic.patch(path, remove("/protected"))
    ironic.get(why)
    ironic.patch(path, add("/protected", True))
    ironic.patch(path, add("/instance_info", {}), remove("/instance_uuid"))
    assert ironic.get(path).body["protected"]
    ironic.provision(node, "deleted", expect=403)


@check_each(*(one for one in STATES if one not in ("active", "rescue")))
def _(ironic: IronicUnderTest, state: str) -> None:
    """an instance is not protected in state {}"""
    path = f"/v1/nodes/{ironic.node_with(provision_state=state)}"
    ironic.patch(path, add("/protected", True), expect=409)
    later = (add("/protected_reason", "a server"), add("/protected", False))
    ironic.patch_each(path, *later, expect=ANY)
    ironic.get(path)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node without cleaning is available after its instance, and a retired one manageable"""
    for fields, state in (
        ({"automated_clean": False}, "available"),
        ({"retired": True}, "manageable"),
    ):
        node = ironic.active_node()
        ironic.set_node(node, **fields)
        ironic.provision(node, "deleted")
        assert ironic.get(f"/v1/nodes/{node}").body["provision_state"] == state
    ironic.provision(node, "provide", expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """the project of an instance becomes the lessee of the node, until it is gone"""
    node = ironic.node(instance_info={**IMAGE, "project_id": "p1"})
    for target in ("active", "deleted"):
        ironic.provision(node, target)
        ironic.get(f"/v1/nodes/{node}")


@check
def _(ironic: IronicUnderTest) -> None:
    """an instance can't ask for traits that the node lacks"""
    node = ironic.node(instance_info={**IMAGE, "traits": ["CUSTOM_A"]}, traits=["CUSTOM_B"])
    answer = ironic.put(f"/v1/nodes/{node}/states/provision", {"target": "active"}, expect=400)
    assert "CUSTOM_A" in answer.fault
    ironic.get(f"/v1/nodes/{node}/validate")


@check
def _(ironic: IronicUnderTest) -> None:
    """no verb is possible while somebody works on the node"""
    for verb in VERBS:
        node = ironic.node(instance_info=IMAGE)
        ironic.set_node(node, reservation="conductor-1")
        ironic.put(f"/v1/nodes/{node}/states/provision", verb, expect=ANY)
