# SPDX-License-Identifier: Apache-2.0

"""What a deployment may be asked for, and what a node says of projects."""

from tests.conformance.checks.nodes_patch import add, remove
from tests.conformance.checks.verbs import AFTERWARDS
from tests.conformance.registry import check, check_each
from tests.conformance.subject import IMAGE, IronicUnderTest

CORE = {"interface": "deploy", "step": "deploy", "args": {}}
LACKED = {"interface": "bios", "step": "apply_configuration", "args": {"a": [1]}, "priority": 150}
INSTALLATION = {"image_type": "partition", "ks_template": "http://a/ks.cfg"}
INSTALLATION |= {part: f"http://a/{part[0]}" for part in ("kernel", "ramdisk", "stage2")}


@check
def _(ironic: IronicUnderTest) -> None:
    """a deployment passes over steps that the node lacks, and so does a rebuild"""
    node = ironic.node(instance_info=IMAGE)
    for target in ("active", "rebuild"):
        assert ironic.provision(node, target, deploy_steps=[LACKED]).status == 202
        body = ironic.get(f"/v1/nodes/{node}?fields={AFTERWARDS}").body
        assert body["provision_state"] == "active"


@check_each(
    ("of a deployment is not to be changed", 77, 400, "available"),
    ("may be left out, and then there is none", 0, None, "deploy failed"),
)
def _(ironic: IronicUnderTest, _: str, priority: int, status: int | None, afterwards: str) -> None:
    """the core step {}"""
    node = ironic.node(instance_info=IMAGE)
    ironic.provision(node, "active", deploy_steps=[CORE | {"priority": priority}], expect=status)
    body = ironic.get(f"/v1/nodes/{node}?fields={AFTERWARDS}").body
    assert body["provision_state"] == afterwards


@check_each(
    ("no priority", {"interface": "bios", "step": "a", "args": {}}),
    ("no arguments", {"interface": "bios", "step": "a", "priority": 1}),
    ("a priority below 0", {**LACKED, "priority": -1}),
    ("an unknown interface", {**LACKED, "interface": "console"}),
    ("an unknown member", {**LACKED, "order": 1}),
)
def _(ironic: IronicUnderTest, _: str, step: object) -> None:
    """a deploy step with {} is refused"""
    node = ironic.node(instance_info=IMAGE)
    ironic.provision(node, "active", deploy_steps=[step], expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """lessee and owner are set and taken back while a node has an instance"""
    node = ironic.node(instance_info=IMAGE)
    path = f"/v1/nodes/{node}"
    mark = {"lessee": "p1", "owner": "p1"}
    ironic.patch(
        path,
        add("/instance_uuid", ironic.uuid()),
        add("/instance_info", {**IMAGE, "project_id": "p2"}),
        *(add("/lessee", "p1"), add("/owner", "p1"), add("/extra/a_mark", mark)),
    )
    ironic.provision(node, "active")
    body = ironic.get(f"{path}?fields=lessee,owner,extra").body
    assert (body["lessee"], body["owner"], body["extra"]["a_mark"]) == ("p1", "p1", mark)
    ironic.patch(path, remove("/lessee"), remove("/owner"), remove("/extra/a_mark"))
    ironic.provision(node, "deleted")
    body = ironic.get(f"{path}?fields=lessee,owner,extra").body
    assert (body["lessee"], body["owner"]) == (None, None)
    ironic.patch(path, add("/lessee", None), add("/owner", None))
    ironic.get(f"{path}?fields=lessee", version="1.64", expect=406)
    ironic.get(f"{path}?fields=owner", version="1.49", expect=406)


@check
def _(ironic: IronicUnderTest) -> None:
    """a lessee that was there before stays after the instance"""
    node = ironic.node(instance_info={**IMAGE, "project_id": "p2"}, lessee="p1")
    ironic.provision(node, "active")
    ironic.provision(node, "deleted")
    assert ironic.get(f"/v1/nodes/{node}?fields=lessee").body["lessee"] == "p1"


@check_each(
    ("an ISO image", {"boot_iso": "http://a/b.iso", "ironic_ramdisk_deploy": "True"}),
    ("the parts of an installation", IMAGE | INSTALLATION),
)
def _(ironic: IronicUnderTest, _: str, info: dict[str, str]) -> None:
    """a node of fake hardware is deployed with {}"""
    node = ironic.node(instance_info=info)
    ironic.provision(node, "active")
    assert ironic.get(f"/v1/nodes/{node}").body["provision_state"] == "active"
