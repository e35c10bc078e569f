# SPDX-License-Identifier: Apache-2.0

"""The table of what each method does in each provision state, cell by cell."""

import inspect
from pathlib import Path

import pytest

from ironic_virt.baremetal import states
from ironic_virt.driver import IronicDriver
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests import provision_states
from tests.provision_states import METHODS, WITHOUT_A_STATE, Request
from tests.unit.driver.stage import Stage, make_conf

DURATIONS = Durations(deploy=1, undeploy=1, clean=1, power=1, rescue=1, unrescue=1)
TIMEOUTS = ("deploy_timeout", "unprovision_timeout", "rescue_timeout", "power_timeout")


def test_the_table_has_every_state_in_every_column() -> None:
    listed = provision_states.listed_states()
    assert sorted(listed + provision_states.states_of_no_node()) == sorted(states.ALL)
    found = provision_states.table()
    assert found.keys() == METHODS.keys()
    for name, column in found.items():
        assert column.keys() == set(listed), name


def test_every_method_about_an_instance_has_a_column() -> None:
    theirs = {
        name
        for name, method in inspect.getmembers(IronicDriver, inspect.isfunction)
        if not name.startswith("_")
        and {"instance", "request"} & inspect.signature(method).parameters.keys()
    }
    columns = {name.partition(",")[0] for name in METHODS}
    assert theirs - columns - WITHOUT_A_STATE == set()


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_does(tmp_path: Path, name: str) -> None:
    method = METHODS[name]
    # What is different of a protected node has its own tests.
    conf = make_conf(tmp_path, protect_instances=False, **dict.fromkeys(TIMEOUTS, 8))
    seen: dict[str, str] = {}
    for state in provision_states.listed_states():
        fake = FakeIronic(durations=DURATIONS, supports_nmi=True)
        node = fake.add_node(ports=2, resource_class="gold", power_state=states.POWER_ON)
        stage = Stage(fake, conf)
        instance = stage.instance(node)
        if method.carries:
            stage.spawn(instance)
        fake.set_node(node, provision_state=state, power_state=states.POWER_ON, **method.fields)
        stage.refresh()
        seen[state] = provision_states.outcome(
            method, stage.driver, instance, lambda fake=fake: _sent(fake)
        )
        stage.driver.cleanup_host()
    assert seen == provision_states.table()[name]


def _sent(fake: FakeIronic) -> list[Request]:
    return [(entry.method, entry.status or None) for entry in fake.requests]
