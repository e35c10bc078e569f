# SPDX-License-Identifier: Apache-2.0

"""Traits of nodes."""

from tests.conformance.registry import check
from tests.conformance.subject import ANY, IronicUnderTest


@check
def _(ironic: IronicUnderTest) -> None:
    """traits are set all at once, one by one, and removed"""
    node = ironic.node()
    path = f"/v1/nodes/{node}/traits"
    assert ironic.get(path).body == {"traits": []}
    assert ironic.put(path, {"traits": ["CUSTOM_B", "HW_CPU_X86_VMX", "CUSTOM_A"]}).status == 204
    ironic.get(path)
    answer = ironic.put(f"{path}/CUSTOM_C")
    assert answer.status == 204
    ironic.put(f"{path}/CUSTOM_C")
    ironic.get(path)
    ironic.put(path, {"traits": ["CUSTOM_D", "CUSTOM_D"]}, expect=ANY)
    ironic.get(path)
    assert ironic.delete(f"{path}/CUSTOM_D", expect=ANY)
    ironic.get(path)
    ironic.delete(path)
    assert ironic.get(path).body == {"traits": []}
    ironic.get(f"/v1/nodes/{node}")


@check
def _(ironic: IronicUnderTest) -> None:
    """traits are a list of texts, and each is the name of a trait"""
    path = f"/v1/nodes/{ironic.node(traits=['CUSTOM_A'])}/traits"
    for body in ({}, {"traits": None}, {"traits": "CUSTOM_A"}, {"traits": [5]}, [], {"a": 1}):
        ironic.put(path, body, expect=400)
    for trait in ("gpu", "CUSTOM_gpu", "CUSTOM_", "HW_NOTHING", "", "CUSTOM_A B"):
        ironic.put(path, {"traits": [trait]}, expect=400)
    ironic.put(path, {"traits": ["CUSTOM_" + "A" * 250]}, expect=400)
    ironic.put(path, {"traits": [f"CUSTOM_{number}" for number in range(51)]}, expect=400)
    ironic.put(f"{path}/gpu", expect=400)
    ironic.put(f"{path}/CUSTOM_B", {"traits": ["CUSTOM_B"]}, expect=400)
    ironic.delete(f"{path}/CUSTOM_B", expect=404)
    ironic.get(path)


@check
def _(ironic: IronicUnderTest) -> None:
    """traits are not there before version 1.37"""
    node = ironic.node()
    path = f"/v1/nodes/{node}/traits"
    ironic.get(path, version="1.36", expect=406)
    ironic.put(path, {"traits": []}, version="1.36", expect=405)
    ironic.delete(path, version="1.36", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """traits are not changed while somebody works on the node, or an instance is there"""
    node = ironic.node(traits=["CUSTOM_A"])
    path = f"/v1/nodes/{node}/traits"
    ironic.set_node(node, reservation="conductor-1")
    ironic.put(path, {"traits": []}, expect=409)
    ironic.put(f"{path}/CUSTOM_B", expect=409)
    ironic.delete(path, expect=409)
    ironic.set_node(node, reservation=None, provision_state="active")
    ironic.put(path, {"traits": []}, expect=ANY)
    ironic.put(f"{path}/CUSTOM_B", expect=ANY)
