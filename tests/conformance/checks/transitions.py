# SPDX-License-Identifier: Apache-2.0

"""Nodes on their way from one provision state to another."""

from tests.conformance.registry import slow_check
from tests.conformance.subject import ANY, IMAGE, IronicUnderTest


@slow_check
def _(ironic: IronicUnderTest) -> None:
    """a node that is being deployed is locked, and can't be changed"""
    node = ironic.node(instance_info=IMAGE, instance_uuid=ironic.uuid())
    path = f"/v1/nodes/{node}"
    with ironic.held_hardware():
        ironic.put(f"{path}/states/provision", {"target": "active"})
        ironic.wait_for_hardware()
        body = ironic.get(path).body
        assert body["provision_state"] == "deploying"
        assert body["target_provision_state"] == "active"
        assert body["reservation"] == "conductor-1"
        ironic.get(f"{path}/states")
        ironic.patch(path, {"op": "add", "path": "/extra/a", "value": 1}, expect=409)
        ironic.put(f"{path}/states/provision", {"target": "deleted"}, expect=ANY)
        ironic.put(f"{path}/states/power", {"target": "power on"}, expect=409)
        ironic.put(f"{path}/maintenance", expect=ANY)
        ironic.delete(path, expect=409)
    ironic.settle(node)
    ironic.get(path)


@slow_check
def _(ironic: IronicUnderTest) -> None:
    """a node that is being torn down shows it"""
    node = ironic.active_node(instance_uuid=ironic.uuid())
    path = f"/v1/nodes/{node}"
    with ironic.held_hardware():
        ironic.put(f"{path}/states/provision", {"target": "deleted"})
        ironic.wait_for_hardware()
        body = ironic.get(path).body
        assert body["provision_state"] == "deleting"
        assert body["instance_uuid"] is not None
        ironic.put(f"{path}/states/provision", {"target": "active"}, expect=ANY)
        ironic.put(f"{path}/states/provision", {"target": "deleted"}, expect=ANY)
    ironic.settle(node)
    ironic.get(path)


@slow_check
def _(ironic: IronicUnderTest) -> None:
    """a node that is being rescued shows it"""
    node = ironic.active_node()
    path = f"/v1/nodes/{node}"
    body = {"target": "rescue", "rescue_password": "secret"}
    with ironic.held_hardware():
        ironic.put(f"{path}/states/provision", body)
        ironic.wait_for_hardware()
        ironic.get(path)
    ironic.settle(node)


@slow_check
def _(ironic: IronicUnderTest) -> None:
    """a node that is being inspected shows it"""
    node = ironic.node()
    ironic.set_node(node, provision_state="manageable")
    path = f"/v1/nodes/{node}"
    with ironic.held_hardware():
        ironic.put(f"{path}/states/provision", {"target": "inspect"})
        ironic.wait_for_hardware()
        body = ironic.get(path).body
        assert body["provision_state"] == "inspecting"
    ironic.settle(node)
    ironic.get(path)
