# SPDX-License-Identifier: Apache-2.0

"""What has happened to a node."""

from tests.conformance.registry import check, check_each
from tests.conformance.subject import IMAGE, IronicUnderTest


@check
def _(ironic: IronicUnderTest) -> None:
    """a node to which nothing has happened has no history, and then a deployment that goes well"""
    path = f"/v1/nodes/{ironic.node()}/history"
    assert ironic.get(path).body == {"history": []}
    ironic.get(path, version="1.77", expect=404)
    ironic.get(f"{path}/{ironic.uuid()}", expect=404)
    ironic.get(f"/v1/nodes/{ironic.active_node()}/history?detail=true")


@check
def _(ironic: IronicUnderTest) -> None:
    """a failed cleaning is in the history of the node"""
    node = ironic.node(instance_info=IMAGE)
    ironic.set_node(node, provision_state="manageable")
    step = {"interface": "deploy", "step": "erase", "args": {}}
    ironic.provision(node, "clean", clean_steps=[step])
    ironic.get(f"/v1/nodes/{node}")
    path = f"/v1/nodes/{node}/history"
    (event,) = ironic.get(path).body["history"]
    ironic.get_each(path, "?detail=true", f"/{event['uuid']}", "?limit=1")


_STATES = "provision_state,target_provision_state,last_error,power_state,reservation,maintenance"


@check_each("deploy", "rebuild", "rescue", "unrescue", "undeploy")
def _(ironic: IronicUnderTest, step: str) -> None:
    """how {} failed is in the history of the node"""
    node = ironic.node(instance_info=IMAGE, instance_uuid=ironic.uuid())
    with ironic.unrecorded():
        if step != "deploy":
            ironic.provision(node, "active")
        if step == "unrescue":
            ironic.provision(node, "rescue", rescue_password="secret")
    ironic.fail(node, "deploy" if step == "rebuild" else step, "the disk is gone")
    body = {"rescue_password": "secret"} if step == "rescue" else {}
    ironic.provision(node, {"deploy": "active", "undeploy": "deleted"}.get(step, step), **body)
    ironic.get(f"/v1/nodes/{node}?fields={_STATES}")
    path = f"/v1/nodes/{node}/history"
    ironic.get(f"{path}?detail=true")
    # As the driver asks for it.
    newest = ironic.get(f"{path}?detail=true&sort_dir=desc&limit=20", version="1.78").body
    assert "the disk is gone" in newest["history"][0]["event"]
    ironic.get(f"{path}?detail=true&sort_dir=desc&limit=1")


@check_each("power on", "rebooting", "soft rebooting")
def _(ironic: IronicUnderTest, target: str) -> None:
    """how {} failed is in the history of the node"""
    node = ironic.node()
    ironic.fail(node, "power", "the BMC is on fire")
    ironic.put(f"/v1/nodes/{node}/states/power", {"target": target})
    ironic.settle(node)
    ironic.get_each("/v1/nodes/", f"{node}?fields={_STATES}", f"{node}/history?detail=true")


@check
def _(ironic: IronicUnderTest) -> None:
    """a VIF that is not attached or not detached is in the history of the node"""
    path, vif = f"/v1/nodes/{ironic.node()}", ironic.uuid()
    ironic.post(f"{path}/vifs", {"id": vif}, expect=400)
    ironic.delete(f"{path}/vifs/{vif}", expect=400)
    ironic.get_each(path, "", "/history?detail=true")
