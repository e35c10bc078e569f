# SPDX-License-Identifier: Apache-2.0

"""A node is locked for a while, and is another's when the lock is gone.

A request that found the lock is sent again, minutes later perhaps.  No such request ever reaches
a node that another instance has by then.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.baremetal import states
from ironic_virt.testing.fake_ironic import FakeIronic
from ironic_virt.testing.fake_ironic.faults import Fault
from tests.unit.driver.conftest import DURATIONS
from tests.unit.driver.stage import IMAGE, STRANGER, VIF, Act, Stage, find_locked, meanwhile


def rescued(stage: Stage, instance: virt.Instance) -> None:
    stage.spawn(instance)
    stage.rescue(instance)


def spawn_with_volume(stage: Stage, instance: virt.Instance) -> None:
    stage.fake.set_node(str(instance.node), storage_interface="external")
    device = virt.BlockDevice("data", 1, {"driver_volume_type": "iscsi"})
    stage.reserve(instance)
    stage.driver.spawn(virt.DeployRequest(instance, IMAGE, block_devices=[device]))


def attach_another(stage: Stage, instance: virt.Instance) -> None:
    stage.driver.attach_interface(instance, virt.Vif("5f1f0000-0000-4000-8000-000000000002"))


class Case(NamedTuple):
    """An action, and which of its requests finds the lock.

    :ivar before: brings the node into the state that the action is for.
    :ivar ends_well: what the action wants is so, once another has the node.
    """

    before: Act | None
    act: Act
    method: str
    path: str
    nth: int = 1
    ends_well: bool = False


PROVISION, POWER, NMI = "/states/provision$", "/states/power$", "inject_nmi$"
CASES = {
    "reserve": Case(None, Stage.reserve, "PATCH", ""),
    "spawn: volume": Case(None, spawn_with_volume, "POST", "/volume/targets"),
    "spawn: configure": Case(None, Stage.spawn, "PATCH", "", nth=2),
    "spawn: deploy": Case(None, Stage.spawn, "PUT", PROVISION),
    "destroy": Case(Stage.spawn, Stage.destroy, "PUT", PROVISION, ends_well=True),
    "destroy: project": Case(Stage.spawn, Stage.destroy, "PATCH", "", ends_well=True),
    "destroy: release": Case(Stage.reserve, Stage.destroy, "PATCH", "", ends_well=True),
    "rebuild: configure": Case(Stage.spawn, Stage.rebuild, "PATCH", ""),
    "rebuild": Case(Stage.spawn, Stage.rebuild, "PUT", PROVISION),
    "rescue": Case(Stage.spawn, Stage.rescue, "PUT", PROVISION),
    "unrescue": Case(rescued, Stage.unrescue, "PUT", PROVISION),
    "power off": Case(Stage.spawn, lambda stage, one: stage.driver.power_off(one), "PUT", POWER),
    "reboot": Case(Stage.spawn, lambda stage, one: stage.driver.reboot(one, "SOFT"), "PUT", POWER),
    "attach": Case(Stage.spawn, attach_another, "POST", "/vifs$"),
    "detach": Case(
        Stage.spawn,
        lambda stage, one: stage.driver.detach_interface(one, virt.Vif(VIF)),
        *("DELETE", "/vifs/"),
    ),
    "NMI": Case(Stage.spawn, lambda stage, one: stage.driver.trigger_crash_dump(one), "PUT", NMI),
}
CHANGES: dict[str, dict[str, Any]] = {
    "goes to a stranger": {"instance_uuid": STRANGER},
    "leaves the shard": {"shard": "theirs"},
    "stays": {},
}


def locked(fake: FakeIronic, case: Case, change: Callable[[], None]) -> Fault:
    """Have a request of an action find the lock, and then the change."""
    asked = itertools.count(1)

    def meanwhile(method: str, path: str, body: Any) -> bool:
        if next(asked) != case.nth:
            return False
        change()
        return True

    return find_locked(fake, case.method, case.path, when=meanwhile)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_request_repeated_after_a_lock_spares_others(set_stage, case, change) -> None:
    fake = FakeIronic(durations=DURATIONS, supports_nmi=True)
    node = fake.add_node(ports=2, resource_class="gold", shard="ours")
    stage = set_stage(fake, shard_key="ours", project_fields="lessee")
    instance = stage.instance(node, project_id="p1")
    if case.before is not None:
        case.before(stage, instance)
    kept: dict[str, Any] = {}

    def meanwhile() -> None:
        fake.set_node(node, **CHANGES[change])
        kept.update(stage.trace(node), lessee=fake.node(node)["lessee"])
        fake.requests.clear()

    fault = locked(fake, case, meanwhile)
    if change == "stays" or (case.ends_well and change == "goes to a stranger"):
        case.act(stage, instance)
    else:
        with pytest.raises(exceptions.IronicVirtError):
            case.act(stage, instance)
    assert fault.hits == 1
    # The first one is that which found the lock.
    sent = [f"{one.method} {one.path}" for one in fake.requests if one.method != "GET"][1:]
    if change == "stays":
        assert sent
        return
    assert sent == []
    assert {**stage.trace(node), "lessee": fake.node(node)["lessee"]} == kept


def test_that_anothers_teardown_has_failed_is_nothing_to_us(stage, fake, node, instance) -> None:
    def meanwhile() -> None:
        fake.set_node(node, instance_uuid=STRANGER, provision_state=states.ERROR)

    locked(fake, CASES["destroy"], meanwhile)
    stage.destroy(instance)
    assert fake.node(node)["instance_uuid"] == STRANGER


@pytest.mark.parametrize(("method", "where"), [("GET", "/vifs$"), ("PATCH", "/v1/nodes/[^/]+$")])
def test_a_node_deployed_to_while_given_back_is_torn_down(stage, fake, node, method, where):
    instance = stage.instance(node)
    stage.reserve(instance)
    # A request that somebody had given up comes in late.
    late = meanwhile(lambda: fake.set_node(node, provision_state=states.ACTIVE), hits=True)
    find_locked(fake, method, where, when=late)
    stage.destroy(instance)
    assert stage.provision_requests("deleted") == 1
    assert stage.trace(node)["provision_state"] == states.AVAILABLE
    assert fake.node(node)["instance_uuid"] is None
