# SPDX-License-Identifier: Apache-2.0

"""The driver on a real Ironic: the life of an instance, and what can get in its way."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.baremetal import states
from tests.integration.services import Service
from tests.integration.stage import Stage
from tools import real_ironic


@pytest.fixture
def stage(tmp_path: Path, ironic: real_ironic.RealIronic) -> Iterator[Stage]:
    """On SQLite."""
    stage = Stage(ironic, tmp_path)
    yield stage
    stage.close()


def test_the_life_of_an_instance(stage: Stage, node: str) -> None:
    untouched = stage.operator.node(node)
    instance, driver = stage.service.instance_on(node), stage.service.driver
    stage.service.spawn(instance)
    there = stage.operator.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("active", instance.uuid)
    assert there["instance_info"]["configdrive"] == "******"
    assert len(stage.operator.vifs(node)) == 1
    assert driver.get_inventory(node).reserved == 1
    assert driver.instance_exists(instance)

    driver.power_on(instance)
    assert driver.get_info(instance).state is virt.PowerState.RUNNING
    driver.reboot(instance, "SOFT")
    driver.reboot(instance, "HARD")
    assert driver.get_info(instance, use_cache=False).state is virt.PowerState.RUNNING
    driver.power_off(instance, timeout=5)
    assert driver.get_info(instance).state is virt.PowerState.SHUTDOWN

    stage.service.destroy(instance)
    assert stage.operator.node(node)["instance_uuid"] is None
    stage.service.destroy(instance)
    assert stage.operator.wait_for_state(node, "available") == untouched
    assert stage.operator.vifs(node) == []


# -- what gets in the way: an error that says so, nothing foreign touched ------


def test_what_fails_validation_or_finds_no_port_is_undone(stage: Stage, node: str) -> None:
    untouched = stage.operator.node(node)
    flavor = virt.Flavor("gpu", extra_specs={"trait:CUSTOM_GPU": "required"})
    with pytest.raises(exceptions.NodeValidationFailed, match="CUSTOM_GPU") as caught:
        stage.service.spawn(stage.service.instance_on(node, flavor))
    assert "deploy" in caught.value.reasons
    assert (stage.operator.node(node), stage.operator.vifs(node)) == (untouched, [])

    vifs = [virt.Vif(str(uuid.uuid4())) for _ in range(2)]
    with pytest.raises(exceptions.VifAttachFailed, match=vifs[1].id):
        stage.service.spawn(stage.service.instance_on(node), vifs)
    assert (stage.operator.node(node), stage.operator.vifs(node)) == (untouched, [])


# -- tear-down from other states -----------------------------------------------


@pytest.mark.parametrize(
    "state",
    sorted(
        state
        for state in states.ALL
        if states.tear_down_step(state) is not states.TearDownStep.WAIT
    ),
)
def test_from_every_state_that_stays_the_instance_comes_off(stage, node, state) -> None:
    untouched = stage.operator.node(node)
    instance = stage.service.instance_on(node)
    stage.service.driver.prepare_for_spawn(instance)
    stage.operator.force(node, provision_state=state)
    stage.service.destroy(instance)
    assert stage.service.driver.instance_exists(instance) is False
    seen = stage.operator.wait(node, lambda now: now["provision_state"] != "cleaning")
    differing = {key for key in seen if seen[key] != untouched[key]}
    assert differing <= {"provision_state", "target_provision_state", "last_error"}


# -- the process dies ----------------------------------------------------------


@pytest.mark.parametrize(
    "after",
    [pytest.param(False, marks=pytest.mark.seldom), True],
    ids=["before", "after"],
)
def test_a_service_that_died_in_a_deployment_carries_on(stage, node, after) -> None:
    """It dies at its first request, then at its second, and so on until there is none left."""
    untouched = stage.operator.node(node)

    def spawn(service: Service, instance: virt.Instance) -> None:
        service.spawn(instance, [virt.Vif(instance.uuid)])

    deaths: list[str] = []
    for death, instance, restarted in stage.after_deaths(
        lambda: stage.service.instance_on(node), spawn, after=after, starting=False
    ):
        deaths.append(death)
        spawn(restarted, instance)
        there = stage.operator.node(node)
        assert (there["provision_state"], there["instance_uuid"]) == ("active", instance.uuid)
        assert stage.operator.vifs(node) == [instance.uuid], deaths
        restarted.destroy(instance)
        assert stage.operator.wait_for_state(node, "available") == untouched, deaths
        assert stage.operator.vifs(node) == [], deaths
    changes = [death.split(" ")[0] for death in deaths if not death.startswith("GET")]
    # The last one protects what runs now.
    assert changes == ["PATCH", "POST", "PATCH", "PUT", "PATCH"], deaths
