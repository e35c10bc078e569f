# SPDX-License-Identifier: Apache-2.0

"""The information about a running instance."""

import datetime

import pytest

from ironic_virt import virt
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import Stage

PROPERTIES = {"cpus": 8, "memory_mb": "16384", "local_gb": 100}


@pytest.fixture
def instance(stage: Stage, fake: FakeIronic) -> virt.Instance:
    """An active instance on a node with two ports."""
    placed = stage.instance(fake.add_node(ports=2, properties=PROPERTIES))
    stage.spawn(placed)
    return placed


def diagnosed(stage: Stage, instance: virt.Instance, ahead: float = 0) -> virt.InstanceDiagnostics:
    """By a clock that is so many seconds ahead of Ironic's."""

    def now() -> datetime.datetime:
        return datetime.datetime.fromisoformat(
            stage.fake.bm.store.timestamp()
        ) + datetime.timedelta(seconds=ahead)

    stage.driver._now = now  # type: ignore[method-assign]
    return stage.driver.get_instance_diagnostics(instance)


def test_what_ironic_knows_is_told(stage, fake, instance) -> None:
    stage.driver.power_on(instance)
    fake.requests.clear()
    told = stage.driver.get_instance_diagnostics(instance)
    assert told.state is virt.PowerState.RUNNING
    assert (told.hypervisor, told.config_drive, told.cpus, told.memory_mb) == (
        *("ironic", True),
        *(8, 16384),
    )
    assert len(set(told.macs)) == 2
    assert all(len(address) == 17 for address in told.macs)
    assert len(fake.requests) == 3
    assert {entry.method for entry in fake.requests} == {"GET"}


def test_it_is_up_since_it_was_switched_on(stage, fake, instance) -> None:
    assert diagnosed(stage, instance).uptime is None, "its power was never touched"
    stage.driver.power_on(instance)
    fake.advance(3600)
    uptime = diagnosed(stage, instance).uptime
    assert uptime is not None
    assert 3600 <= uptime < 3610
    stage.driver.reboot(instance, "HARD")
    assert (diagnosed(stage, instance).uptime or 0) < 10
    assert diagnosed(stage, instance, ahead=-500).uptime == 0
    stage.driver.power_off(instance)
    told = diagnosed(stage, instance)
    assert (told.uptime, told.state) == (None, virt.PowerState.SHUTDOWN)


def test_what_is_not_known_is_not_made_up(stage: Stage, fake: FakeIronic) -> None:
    node = fake.add_node(properties={}, ports=0)
    instance = stage.instance(node)
    stage.reserve(instance)
    fake.set_node(node, driver_internal_info={"last_power_state_change": "soon"})
    fake.set_node(node, power_state="power on")
    told = stage.driver.get_instance_diagnostics(instance)
    assert (told.uptime, told.config_drive, told.cpus) == (None, False, 0)
    assert (told.memory_mb, told.macs) == (None, ())
