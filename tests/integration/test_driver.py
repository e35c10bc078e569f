# SPDX-License-Identifier: Apache-2.0

"""The driver on a real Ironic: the life of an instance, and what can get in its way."""

from __future__ import annotations

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


def test_somebody_else_has_the_node(stage: Stage, node: str) -> None:
    theirs = str(uuid.uuid4())
    stage.operator.patch(node, instance_uuid=theirs, instance_info={"image_source": "theirs"})
    before = stage.operator.node(node)
    instance = stage.service.instance_on(node)
    with pytest.raises(exceptions.NodeTaken, match=theirs) as caught:
        stage.service.spawn(instance)
    assert (caught.value.node, caught.value.owner) == (node, theirs)
    stage.service.destroy(instance)
    stage.service.driver.failed_spawn_cleanup(instance)
    assert stage.operator.node(node) == before


def test_somebody_else_takes_the_node_between_reserving_and_deploying(
    stage: Stage, node: str
) -> None:
    theirs = str(uuid.uuid4())
    instance = stage.service.instance_on(node)
    stage.service.driver.prepare_for_spawn(instance)
    stage.operator.patch(node, instance_uuid=None)
    stage.operator.patch(node, instance_uuid=theirs, instance_info={"image_source": "theirs"})
    before = stage.operator.node(node)
    with pytest.raises(exceptions.NodeTaken, match=theirs):
        stage.service.spawn(instance)
    assert stage.operator.node(node) == before
    assert stage.operator.vifs(node) == []


def test_two_instances_want_one_node(stage: Stage, node: str) -> None:
    untouched = stage.operator.node(node)
    first, second = stage.service.instance_on(node), stage.service.instance_on(node)
    stage.service.driver.prepare_for_spawn(first)
    with pytest.raises(exceptions.NodeTaken, match=first.uuid):
        stage.service.spawn(second)
    assert stage.operator.node(node)["instance_uuid"] == first.uuid
    stage.service.driver.failed_spawn_cleanup(first)
    assert stage.operator.node(node) == untouched


def test_the_node_is_gone(stage: Stage, node: str) -> None:
    instance = stage.service.instance_on(node)
    stage.operator.provision(node, "manage")
    stage.operator.wait_for_state(node, "manageable")
    stage.operator.request("DELETE", f"/nodes/{node}")
    with pytest.raises(exceptions.NodeNotAvailable, match="no such node"):
        stage.service.spawn(instance)
    assert stage.service.driver.is_node_deleted(node)
    stage.service.destroy(instance)


@pytest.mark.parametrize("why", [r"maintenance \(fan\)", "cleaning"])
def test_a_node_that_is_not_available_is_left_as_it_is(stage: Stage, node: str, why: str) -> None:
    if why == "cleaning":
        stage.operator.force(node, provision_state=why, target_provision_state="available")
    else:
        stage.operator.request("PUT", f"/nodes/{node}/maintenance", {"reason": "fan"})
    before = stage.operator.node(node)
    with pytest.raises(exceptions.NodeNotAvailable, match=why):
        stage.service.spawn(stage.service.instance_on(node))
    assert stage.operator.node(node) == before


def test_the_node_goes_into_maintenance_after_the_reservation(stage: Stage, node: str) -> None:
    untouched = stage.operator.node(node)
    instance = stage.service.instance_on(node)
    stage.service.driver.prepare_for_spawn(instance)
    stage.operator.request("PUT", f"/nodes/{node}/maintenance", {"reason": "fan"})
    with pytest.raises(exceptions.NodeNotAvailable, match=r"maintenance \(fan\)"):
        stage.service.spawn(instance)
    stage.operator.request("DELETE", f"/nodes/{node}/maintenance")
    assert stage.operator.node(node) == untouched


def test_the_node_begins_to_be_cleaned_after_the_reservation(stage: Stage, node: str) -> None:
    service = stage.another_service(unprovision_timeout=2)
    instance = service.instance_on(node)
    service.driver.prepare_for_spawn(instance)
    stage.operator.force(node, provision_state="cleaning", target_provision_state="available")
    with pytest.raises(exceptions.DeployFailed, match="cleaning"):
        service.spawn(instance)
    assert stage.operator.node(node)["instance_uuid"] == instance.uuid
    stage.operator.force(node, provision_state="available", target_provision_state=None)
    service.destroy(instance)
    assert stage.operator.node(node)["instance_uuid"] is None


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


def test_the_node_is_in_another_shard(stage: Stage) -> None:
    ours, theirs = stage.node(shard="ours"), stage.node(shard="theirs")
    service = stage.another_service(shard_key="ours")
    assert service.driver.get_available_nodes(refresh=True) == [ours]
    before = stage.operator.node(theirs)
    with pytest.raises(exceptions.NodeNotOurs, match="'theirs'"):
        service.spawn(service.instance_on(theirs))
    instance = service.instance_on(ours)
    service.spawn(instance)
    stage.operator.patch(ours, shard="theirs")
    with pytest.raises(exceptions.NodeNotOurs, match="'theirs'"):
        service.destroy(instance)
    assert stage.operator.node(ours)["provision_state"] == "active"
    stage.operator.patch(ours, shard="ours")
    service.destroy(instance)
    assert stage.operator.node(theirs) == before


# -- tear-down from other states -----------------------------------------------


@pytest.mark.parametrize(
    "state",
    sorted(
        state
        for state in states.ALL
        if states.tear_down_step(state) is not states.TearDownStep.WAIT
    ),
)
def test_from_every_state_that_stays_the_instance_comes_off(
    stage: Stage, node: str, state: str
) -> None:
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
def test_a_service_that_died_in_a_deployment_carries_on(
    stage: Stage, node: str, after: bool
) -> None:
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
