# SPDX-License-Identifier: Apache-2.0

"""The same life on servers of several ages."""

import pytest

from ironic_virt import exceptions
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.conftest import DURATIONS
from tests.unit.driver.stage import READY_DRIVE, SetStage


@pytest.mark.parametrize("newest", [38, 45, 51, 56, 61, 81, 82, 87, 104, 115])
def test_an_instance_comes_and_goes(set_stage: SetStage, newest: int) -> None:
    fake = FakeIronic(durations=DURATIONS, max_version=(1, newest))
    node = fake.add_node(ports=1)
    stage = set_stage(fake)
    stage.service.drive = READY_DRIVE
    stage.driver.init_host("compute1")
    untouched = stage.trace(node)
    instance = stage.instance(node)
    stage.spawn(instance)
    assert fake.node(node)["provision_state"] == "active"
    stage.driver.reboot(instance, "SOFT")
    stage.driver.power_off(instance, timeout=10)
    stage.destroy(instance)
    assert stage.trace(node) == untouched
    stage.reserve(instance)
    stage.driver.failed_spawn_cleanup(instance)
    assert stage.trace(node) == untouched
    answers = {entry.status for entry in fake.requests}
    assert answers <= {200, 202, 204}, "an old server is asked only what it knows"


def test_a_server_older_than_traits_is_refused(set_stage: SetStage) -> None:
    fake = FakeIronic(max_version=(1, 36))
    with pytest.raises(exceptions.MicroversionNotSupported, match=r"this driver needs .*1\.38"):
        set_stage(fake).driver.init_host("compute1")
