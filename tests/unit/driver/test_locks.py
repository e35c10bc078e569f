# SPDX-License-Identifier: Apache-2.0

"""A node is locked for a while, and is another's when the lock is gone.

A request that found the lock is sent again, minutes later perhaps.  Whatever it asks
for, it never reaches a node that somebody else has by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.baremetal import states
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.conftest import DURATIONS
from tests.unit.driver.stage import STRANGER, Stage, meanwhile

Act = Callable[[Stage, virt.Instance], None]


def nothing(stage: Stage, instance: virt.Instance) -> None:
    """The node is free."""


def reserve(stage: Stage, instance: virt.Instance) -> None:
    stage.driver.prepare_for_spawn(instance)


def spawn(stage: Stage, instance: virt.Instance) -> None:
    stage.spawn(instance)


def destroy(stage: Stage, instance: virt.Instance) -> None:
    stage.destroy(instance)


def rebuild(stage: Stage, instance: virt.Instance) -> None:
    stage.rebuild(instance)


def rescue(stage: Stage, instance: virt.Instance) -> None:
    stage.driver.rescue(instance, "a password")


def unrescue(stage: Stage, instance: virt.Instance) -> None:
    stage.driver.unrescue(instance)


def power_off(stage: Stage, instance: virt.Instance) -> None:
    stage.driver.power_off(instance)


def reboot(stage: Stage, instance: virt.Instance) -> None:
    stage.driver.reboot(instance, "SOFT")


def inject_nmi(stage: Stage, instance: virt.Instance) -> None:
    stage.driver.trigger_crash_dump(instance)


def rescued(stage: Stage, instance: virt.Instance) -> None:
    spawn(stage, instance)
    rescue(stage, instance)


class Case(NamedTuple):
    """An action, and which of its requests finds the lock.

    :ivar before: brings the node into the state that the action is for.
    :ivar ends_well: what the action wants is so, once another has the node.
    """

    before: Act
    act: Act
    method: str
    path: str
    nth: int = 1
    ends_well: bool = False


PROVISION, POWER = "/states/provision$", "/states/power$"
CASES = {
    "reserve": Case(nothing, reserve, "PATCH", ""),
    "spawn: configure": Case(nothing, spawn, "PATCH", "", nth=2),
    "spawn: deploy": Case(nothing, spawn, "PUT", PROVISION),
    "destroy": Case(spawn, destroy, "PUT", PROVISION, ends_well=True),
    "destroy: project": Case(spawn, destroy, "PATCH", "", ends_well=True),
    "destroy: release": Case(reserve, destroy, "PATCH", "", ends_well=True),
    "rebuild: configure": Case(spawn, rebuild, "PATCH", ""),
    "rebuild": Case(spawn, rebuild, "PUT", PROVISION),
    "rescue": Case(spawn, rescue, "PUT", PROVISION),
    "unrescue": Case(rescued, unrescue, "PUT", PROVISION),
    "power off": Case(spawn, power_off, "PUT", POWER),
    "reboot": Case(spawn, reboot, "PUT", POWER),
    "NMI": Case(spawn, inject_nmi, "PUT", "inject_nmi"),
}


def goes_to_a_stranger(fake: FakeIronic, node: str) -> None:
    fake.set_node(node, instance_uuid=STRANGER)


def leaves_the_shard(fake: FakeIronic, node: str) -> None:
    fake.set_node(node, shard="theirs")


def locked(fake: FakeIronic, node: str, case: Case, change: Callable[[], None]) -> Any:
    """Have a request of an action find the lock, and then the change."""

    def meanwhile(method: str, path: str, body: Any) -> bool:
        meanwhile.asked += 1  # type: ignore[attr-defined]
        if meanwhile.asked == case.nth:  # type: ignore[attr-defined]
            change()
            return True
        return False

    meanwhile.asked = 0  # type: ignore[attr-defined]
    text = f"Node {node} is locked by host a, please retry"
    return fake.faults.status(409, case.method, case.path, text, when=meanwhile)


@pytest.mark.parametrize("change", [goes_to_a_stranger, leaves_the_shard])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_waited_for_a_lock_never_reaches_what_is_anothers(
    set_stage: Callable[..., Stage], case: Case, change: Callable[[FakeIronic, str], None]
) -> None:
    fake = FakeIronic(durations=DURATIONS, supports_nmi=True)
    node = fake.add_node(ports=1, resource_class="gold", shard="ours")
    stage = set_stage(fake, shard_key="ours", project_fields="lessee")
    instance = stage.instance(node, project_id="p1")
    case.before(stage, instance)
    kept: dict[str, Any] = {}

    def meanwhile() -> None:
        change(fake, node)
        kept.update(stage.trace(node), lessee=fake.node(node)["lessee"])
        fake.requests.clear()

    fault = locked(fake, node, case, meanwhile)
    if case.ends_well and change is goes_to_a_stranger:
        case.act(stage, instance)
    else:
        with pytest.raises(exceptions.IronicVirtError):
            case.act(stage, instance)
    assert fault.hits == 1
    # The first one is that which found the lock.
    sent = [f"{one.method} {one.path}" for one in fake.requests if one.method != "GET"][1:]
    assert sent == []
    assert {**stage.trace(node), "lessee": fake.node(node)["lessee"]} == kept


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_waited_for_a_lock_is_sent_again_to_what_is_still_ours(
    set_stage: Callable[..., Stage], case: Case
) -> None:
    fake = FakeIronic(durations=DURATIONS, supports_nmi=True)
    node = fake.add_node(ports=1, resource_class="gold", shard="ours")
    stage = set_stage(fake, shard_key="ours", project_fields="lessee")
    instance = stage.instance(node, project_id="p1")
    case.before(stage, instance)
    fault = locked(fake, node, case, lambda: None)
    case.act(stage, instance)
    assert fault.hits == 1


def test_that_anothers_teardown_has_failed_is_nothing_to_us(
    stage: Stage, fake: FakeIronic, node: str
) -> None:
    instance = stage.instance(node)
    stage.spawn(instance)

    def meanwhile() -> None:
        fake.set_node(node, instance_uuid=STRANGER, provision_state=states.ERROR)

    locked(fake, node, CASES["destroy"], meanwhile)
    stage.destroy(instance)
    assert fake.node(node)["instance_uuid"] == STRANGER


@pytest.mark.parametrize("where", ["/vifs$", "/v1/nodes/[^/]+$"])
def test_a_node_that_is_deployed_to_while_it_is_given_back_is_torn_down(
    stage: Stage, fake: FakeIronic, node: str, where: str
) -> None:
    instance = stage.instance(node)
    stage.driver.prepare_for_spawn(instance)

    # A request that somebody had given up comes in late.
    late = meanwhile(lambda: fake.set_node(node, provision_state=states.ACTIVE), hits=True)
    method = "GET" if where == "/vifs$" else "PATCH"
    text = f"Node {node} is locked by host a, please retry"
    fake.faults.status(409, method, where, text, when=late)
    stage.destroy(instance)
    assert stage.provision_requests("deleted") == 1
    assert stage.trace(node)["provision_state"] == states.AVAILABLE
    assert fake.node(node)["instance_uuid"] is None
