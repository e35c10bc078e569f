# SPDX-License-Identifier: Apache-2.0

"""Power, maintenance, boot device, NMI, validation."""

from tests.conformance.checks.nodes_patch import add
from tests.conformance.registry import check, check_each, slow_check
from tests.conformance.subject import ANY, IMAGE, NEWEST, IronicUnderTest


@check_each("power on", "power off", "rebooting", "soft rebooting", "soft power off")
def _(ironic: IronicUnderTest, target: str) -> None:
    """{} can be asked of a node that is off, on or unknown"""
    for before in ("power off", "power on", None, "error"):
        node = ironic.node(powered=False)
        ironic.set_node(node, power_state=before)
        answer = ironic.put(f"/v1/nodes/{node}/states/power", {"target": target})
        assert answer.status == 202
        ironic.settle(node)
        ironic.get(f"/v1/nodes/{node}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a power request names a known state, and may have a timeout from version 1.27"""
    node, on = ironic.node(), {"target": "power on", "timeout": 5}
    path = f"/v1/nodes/{node}/states/power"
    unknown = ({}, *({"target": wrong} for wrong in ("on", None, 5, "error")))
    ironic.put_each(path, *unknown, {"target": "power on", "colour": "red"}, expect=400)
    later = (on, {"target": "soft power off"}, {"target": "soft rebooting"})
    ironic.put_each(path, *later, version="1.26", expect=406)
    ironic.put_each(path, *(on | {"timeout": wrong} for wrong in (0, -1, "many")), expect=400)
    ironic.put(path, on, version="1.27")
    ironic.settle(node)
    ironic.put(path, {"target": "soft power off", "timeout": "5"})
    ironic.settle(node)
    ironic.get(f"/v1/nodes/{node}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a node that somebody works on is validated, but neither its power nor maintenance changes"""
    path = f"/v1/nodes/{ironic.node_with(reservation='conductor-1', maintenance=True)}"
    ironic.get(f"{path}/validate")
    answer = ironic.put(f"{path}/states/power", {"target": "power on"}, expect=409)
    assert "locked" in answer.fault
    ironic.put(f"{path}/maintenance", {"reason": "a"}, expect=409)
    ironic.delete(f"{path}/maintenance", expect=409)


@check
def _(ironic: IronicUnderTest) -> None:
    """a node that must not be switched off is not"""
    for target in ("power off", "soft power off", "rebooting"):
        node = ironic.node_with(disable_power_off=True, power_state="power on")
        ironic.put(f"/v1/nodes/{node}/states/power", {"target": target}, expect=ANY)
        ironic.settle(node)
        ironic.get(f"/v1/nodes/{node}")


@check_each(
    *(("cleaning", ANY), ("clean wait", ANY), ("clean failed", 202), ("deploying", 202)),
    *(("active", 202), ("enroll", 202), ("rescue", 202), ("error", 202)),
    *(("rescue failed", 202), ("unrescue failed", 202), ("service failed", 202)),
)
def _(ironic: IronicUnderTest, state: str, status: int) -> None:
    """what has failed before is not said any more of a node in state {} that could be switched"""
    for target in ("rebooting", "soft rebooting", "power on", "power off"):
        ill = {"last_error": "it broke", "maintenance": target == "power off"}
        node = ironic.node_with(provision_state=state, **ill)
        answer = ironic.put(f"/v1/nodes/{node}/states/power", {"target": target}, expect=status)
        if answer.status == 202:
            ironic.settle(node)
        ironic.get(f"/v1/nodes/{node}?fields=power_state,target_power_state,last_error")


@slow_check
def _(ironic: IronicUnderTest) -> None:
    """a node that is being switched shows what it is going to be"""
    node = ironic.node()
    path = f"/v1/nodes/{node}"
    with ironic.held_hardware():
        ironic.put(f"{path}/states/power", {"target": "power on"})
        ironic.wait_for_hardware()
        body = ironic.get(path).body
        assert (body["power_state"], body["target_power_state"]) == ("power off", "power on")
        ironic.put(f"{path}/states/power", {"target": "power off"}, expect=409)
        ironic.patch(path, add("/extra/a", 1), expect=409)
    ironic.settle(node)
    ironic.get(path)


@check
def _(ironic: IronicUnderTest) -> None:
    """maintenance is set with a reason, which is text, and cleared, which ends a fault"""
    node = ironic.node()
    path = f"/v1/nodes/{node}"
    for body, reason in (({"reason": "ill"}, "ill"), ({"reason": "worse"}, "worse"), (None, None)):
        assert ironic.put(f"{path}/maintenance", body).status == 202
        assert ironic.get(path).body["maintenance_reason"] == reason
    ironic.put_each(f"{path}/maintenance", {"reason": 5}, {"colour": "red"}, expect=400)
    ironic.get(f"{path}/maintenance", expect=ANY)
    ironic.set_node(node, fault="power failure", maintenance_reason="x")
    for _ in range(2):
        assert ironic.delete(f"{path}/maintenance").status == 202
        body = ironic.get(path).body
        assert (body["maintenance"], body["maintenance_reason"]) == (False, None)


@check
def _(ironic: IronicUnderTest) -> None:
    """a boot device is set, shown and one of those supported"""
    node = ironic.node()
    path = f"/v1/nodes/{node}/management/boot_device"
    pxe = {"boot_device": "pxe"}
    ironic.get_each(path, "", "/supported")
    ironic.put(path, {**pxe, "persistent": True})
    ironic.get(path)
    wrong = (
        {"boot_device": "disk"},
        {"boot_device": "floppy"},
        {},
        pxe | {"persistent": "perhaps"},
    )
    ironic.put_each(path, *wrong, expect=400)
    ironic.set_node(node, reservation="conductor-1")
    ironic.put(path, pxe, expect=409)
    ironic.get(f"{path}/supported")


@check
def _(ironic: IronicUnderTest) -> None:
    """fake hardware can't be sent an NMI"""
    path = f"/v1/nodes/{ironic.node()}/management/inject_nmi"
    ironic.put_each(path, {}, None, {"a": 1}, expect=400)
    ironic.put(path, {}, version="1.28", expect=404)
    ironic.get(path, expect=405)


@check_each("active", "available", "deploying", "rescue", "cleaning")
def _(ironic: IronicUnderTest, state: str) -> None:
    """hardware that takes an NMI is sent one in state {}, unless somebody works on the node"""
    node = ironic.node(driver_info={"takes_nmi": True})
    ironic.set_node(node, provision_state=state)
    path = f"/v1/nodes/{node}/management/inject_nmi"
    for version in (NEWEST, "1.38"):
        assert ironic.put(path, {}, version=version).status == 204
    ironic.get(f"/v1/nodes/{node}/history?detail=true")
    ironic.set_node(node, reservation="conductor-1")
    assert "locked" in ironic.put(path, {}, expect=409).fault


@check
def _(ironic: IronicUnderTest) -> None:
    """validation says for each interface whether it is ready, and which are not there"""
    kinds = ("rescue", "console", "bios", "raid", "inspect", "firmware")
    node = ironic.node(**{f"{kind}_interface": f"no-{kind}" for kind in kinds})
    ironic.get(f"/v1/nodes/{node}/validate")
    for info in ({}, IMAGE, {**IMAGE, "traits": ["CUSTOM_A"]}, {"traits": "CUSTOM_A"}):
        node = ironic.node(instance_info=info)
        ironic.get(f"/v1/nodes/{node}/validate")
    ironic.get_each("/v1/nodes/validate?", f"node={node}", f"node_uuid={node}")
    ironic.get("/v1/nodes/validate", expect=ANY)
    ironic.get(f"/v1/nodes/{node}/validate", version="1.1")
