# SPDX-License-Identifier: Apache-2.0

"""Power on a real Ironic: failures, nodes that are never powered off, NMIs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import real_ironic
from ironic_virt import exceptions, virt
from tests.integration.services import SEEDS, Operator, Service

MakeInstance = Callable[..., virt.Instance]


@pytest.fixture
def make_instance(
    ironic_on_mariadb: real_ironic.RealIronic, service: Service, operator: Operator
) -> MakeInstance:
    """Make instances that are active and on, each on a node of its own with such fields."""

    def make(**fields: Any) -> virt.Instance:
        seed = next(SEEDS)
        [node] = real_ironic.create_nodes(
            ironic_on_mariadb, 1, name=f"power-{seed}-{{}}", seed=seed
        )
        operator.patch(node, **fields)
        instance = service.instance_on(node)
        service.spawn(instance, [])
        service.driver.power_on(instance)
        return instance

    return make


def node_of(instance: virt.Instance) -> str:
    assert instance.node is not None
    return instance.node


def nmis(operator: Operator, instance: virt.Instance) -> int:
    events = operator.request("GET", f"/nodes/{instance.node}/history")["history"]
    return [one["event"] for one in events].count("An NMI was injected")


def test_a_node_that_is_never_powered_off(
    service: Service, operator: Operator, make_instance: MakeInstance
) -> None:
    instance = make_instance(disable_power_off=True)
    for timeout in (0, 5):
        with pytest.raises(exceptions.PowerOffDisabled, match="disable_power_off"):
            service.driver.power_off(instance, timeout=timeout)
    for kind in ("SOFT", "HARD"):
        service.driver.reboot(instance, kind)
    assert operator.node(node_of(instance))["power_state"] == "power on"
    service.driver.rescue(instance, "correct horse")
    service.driver.unrescue(instance)
    service.destroy(instance)
    assert operator.wait_for_state(node_of(instance), "available")["instance_uuid"] is None


def test_a_change_that_fails_says_why(
    service: Service, operator: Operator, make_instance: MakeInstance
) -> None:
    instance = make_instance()
    operator.patch(node_of(instance), driver_info={"fails": {"power": "the BMC is on fire"}})
    for act in (
        lambda: service.driver.power_off(instance, timeout=5),
        lambda: service.driver.reboot(instance, "SOFT"),
        lambda: service.driver.reboot(instance, "HARD"),
    ):
        with pytest.raises(exceptions.PowerFailed, match="the BMC is on fire"):
            act()
    operator.patch(node_of(instance), driver_info={})
    service.driver.reboot(instance, "HARD")
    service.destroy(instance)


def test_what_had_failed_before_is_no_failure_of_a_reboot(
    service: Service, operator: Operator, make_instance: MakeInstance
) -> None:
    instance = make_instance()
    operator.force(
        node_of(instance), provision_state="service failed", last_error="no such firmware"
    )
    service.driver.reboot(instance, "HARD")
    service.destroy(instance)


def test_an_nmi_reaches_the_node_that_takes_one(
    service: Service, operator: Operator, make_instance: MakeInstance
) -> None:
    instance = make_instance(driver_info={"takes_nmi": True})
    service.driver.trigger_crash_dump(instance)
    assert nmis(operator, instance) == 1
    operator.patch(node_of(instance), driver_info={})
    with pytest.raises(exceptions.CrashDumpFailed, match="does not support inject_nmi"):
        service.driver.trigger_crash_dump(instance)
    assert nmis(operator, instance) == 1
    service.destroy(instance)
