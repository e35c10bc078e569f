# SPDX-License-Identifier: Apache-2.0

"""The driver on a real Ironic: the life of an instance, and what can get in its way."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import real_ironic
from ironic_virt import exceptions, virt
from ironic_virt.baremetal import states
from tests.crashing import Crash
from tests.integration.services import SEEDS, Operator, Service, dying_service, write_conf

MOST_REQUESTS = 20


@pytest.fixture
def operator(ironic: real_ironic.RealIronic) -> Operator:
    """Somebody else."""
    return Operator(ironic)


@pytest.fixture
def make_node(ironic: real_ironic.RealIronic) -> Callable[..., str]:
    """Create nodes that no other test has."""

    def make(**fields: Any) -> str:
        seed = next(SEEDS)
        template = real_ironic.NodeTemplate(**fields)
        return real_ironic.create_nodes(
            ironic, 1, template, name=f"driver-{seed}-{{}}", seed=seed
        )[0]

    return make


@pytest.fixture
def node(make_node: Callable[..., str]) -> str:
    """A node that is free."""
    return make_node()


@pytest.fixture
def config(tmp_path: Path, ironic: real_ironic.RealIronic) -> Path:
    """An operator's file."""
    return write_conf(tmp_path, ironic)


@pytest.fixture
def service(config: Path) -> Iterator[Service]:
    """A compute service."""
    running = Service(config)
    yield running
    running.driver.cleanup_host()


def test_the_life_of_an_instance(service: Service, operator: Operator, node: str) -> None:
    untouched = operator.node(node)
    instance, driver = service.instance_on(node), service.driver
    service.spawn(instance)
    there = operator.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("active", instance.uuid)
    assert there["instance_info"]["configdrive"] == "******"
    assert len(operator.vifs(node)) == 1
    assert driver.get_inventory(node).reserved == 1
    assert driver.instance_exists(instance)

    driver.power_on(instance)
    assert driver.get_info(instance).state is virt.PowerState.RUNNING
    driver.reboot(instance, "SOFT")
    driver.reboot(instance, "HARD")
    assert driver.get_info(instance, use_cache=False).state is virt.PowerState.RUNNING
    driver.power_off(instance, timeout=5)
    assert driver.get_info(instance).state is virt.PowerState.SHUTDOWN

    service.destroy(instance)
    assert operator.node(node)["instance_uuid"] is None
    service.destroy(instance)
    assert operator.wait_for_state(node, "available") == untouched
    assert operator.vifs(node) == []


# -- what gets in the way: an error that says so, nothing foreign touched ------


def test_somebody_else_has_the_node(service: Service, operator: Operator, node: str) -> None:
    theirs = str(uuid.uuid4())
    operator.patch(node, instance_uuid=theirs, instance_info={"image_source": "theirs"})
    before = operator.node(node)
    instance = service.instance_on(node)
    with pytest.raises(exceptions.NodeTaken, match=theirs) as caught:
        service.spawn(instance)
    assert (caught.value.node, caught.value.owner) == (node, theirs)
    service.destroy(instance)
    service.driver.failed_spawn_cleanup(instance)
    assert operator.node(node) == before


def test_somebody_else_takes_the_node_between_reserving_and_deploying(
    service: Service, operator: Operator, node: str
) -> None:
    theirs = str(uuid.uuid4())
    instance = service.instance_on(node)
    service.driver.prepare_for_spawn(instance)
    operator.patch(node, instance_uuid=None)
    operator.patch(node, instance_uuid=theirs, instance_info={"image_source": "theirs"})
    before = operator.node(node)
    with pytest.raises(exceptions.NodeTaken, match=theirs):
        service.spawn(instance)
    assert operator.node(node) == before
    assert operator.vifs(node) == []


def test_two_instances_want_one_node(service: Service, operator: Operator, node: str) -> None:
    first, second = service.instance_on(node), service.instance_on(node)
    service.driver.prepare_for_spawn(first)
    with pytest.raises(exceptions.NodeTaken, match=first.uuid):
        service.spawn(second)
    assert operator.node(node)["instance_uuid"] == first.uuid


def test_the_node_is_gone(service: Service, operator: Operator, node: str) -> None:
    instance = service.instance_on(node)
    operator.provision(node, "manage")
    operator.wait_for_state(node, "manageable")
    operator.request("DELETE", f"/nodes/{node}")
    with pytest.raises(exceptions.NodeNotAvailable, match="no such node"):
        service.spawn(instance)
    assert service.driver.is_node_deleted(node)
    service.destroy(instance)


def test_the_node_is_in_maintenance(service: Service, operator: Operator, node: str) -> None:
    operator.request("PUT", f"/nodes/{node}/maintenance", {"reason": "fan"})
    before = operator.node(node)
    with pytest.raises(exceptions.NodeNotAvailable, match=r"maintenance \(fan\)"):
        service.spawn(service.instance_on(node))
    assert operator.node(node) == before


def test_the_node_goes_into_maintenance_after_the_reservation(
    service: Service, operator: Operator, node: str
) -> None:
    untouched = operator.node(node)
    instance = service.instance_on(node)
    service.driver.prepare_for_spawn(instance)
    operator.request("PUT", f"/nodes/{node}/maintenance", {"reason": "fan"})
    with pytest.raises(exceptions.NodeNotAvailable, match=r"maintenance \(fan\)"):
        service.spawn(instance)
    operator.request("DELETE", f"/nodes/{node}/maintenance")
    assert operator.node(node) == untouched


def test_the_node_is_being_cleaned(service: Service, operator: Operator, node: str) -> None:
    operator.force(node, provision_state="cleaning", target_provision_state="available")
    before = operator.node(node)
    with pytest.raises(exceptions.NodeNotAvailable, match="cleaning"):
        service.spawn(service.instance_on(node))
    assert operator.node(node) == before


def test_the_node_begins_to_be_cleaned_after_the_reservation(
    tmp_path: Path, ironic: real_ironic.RealIronic, operator: Operator, node: str
) -> None:
    service = Service(write_conf(tmp_path, ironic, unprovision_timeout=2))
    instance = service.instance_on(node)
    service.driver.prepare_for_spawn(instance)
    operator.force(node, provision_state="cleaning", target_provision_state="available")
    with pytest.raises(exceptions.DeployFailed, match="cleaning"):
        service.spawn(instance)
    assert operator.node(node)["instance_uuid"] == instance.uuid
    operator.force(node, provision_state="available", target_provision_state=None)
    service.destroy(instance)
    assert operator.node(node)["instance_uuid"] is None
    service.driver.cleanup_host()


def test_the_node_fails_validation(service: Service, operator: Operator, node: str) -> None:
    untouched = operator.node(node)
    flavor = virt.Flavor("gpu", extra_specs={"trait:CUSTOM_GPU": "required"})
    with pytest.raises(exceptions.NodeValidationFailed, match="CUSTOM_GPU") as caught:
        service.spawn(service.instance_on(node, flavor))
    assert "deploy" in caught.value.reasons
    assert operator.node(node) == untouched
    assert operator.vifs(node) == []


def test_a_vif_finds_no_port(service: Service, operator: Operator, node: str) -> None:
    untouched = operator.node(node)
    vifs = [virt.Vif(str(uuid.uuid4())) for _ in range(2)]
    with pytest.raises(exceptions.VifAttachFailed, match=vifs[1].id):
        service.spawn(service.instance_on(node), vifs)
    assert operator.node(node) == untouched
    assert operator.vifs(node) == []


def test_the_node_is_in_another_shard(
    tmp_path: Path,
    ironic: real_ironic.RealIronic,
    operator: Operator,
    make_node: Callable[..., str],
) -> None:
    ours, theirs = make_node(shard="ours"), make_node(shard="theirs")
    service = Service(write_conf(tmp_path, ironic, shard_key="ours"))
    assert service.driver.get_available_nodes(refresh=True) == [ours]
    before = operator.node(theirs)
    with pytest.raises(exceptions.NodeNotOurs, match="'theirs'"):
        service.spawn(service.instance_on(theirs))
    instance = service.instance_on(ours)
    service.spawn(instance)
    operator.patch(ours, shard="theirs")
    with pytest.raises(exceptions.NodeNotOurs, match="'theirs'"):
        service.destroy(instance)
    assert operator.node(ours)["provision_state"] == "active"
    operator.patch(ours, shard="ours")
    service.destroy(instance)
    assert operator.node(theirs) == before
    service.driver.cleanup_host()


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
    service: Service, operator: Operator, node: str, state: str
) -> None:
    untouched = operator.node(node)
    instance = service.instance_on(node)
    service.driver.prepare_for_spawn(instance)
    operator.force(node, provision_state=state)
    service.destroy(instance)
    assert service.driver.instance_exists(instance) is False
    seen = operator.wait(node, lambda now: now["provision_state"] != "cleaning")
    differing = {key for key in seen if seen[key] != untouched[key]}
    assert differing <= {"provision_state", "target_provision_state", "last_error"}


def test_a_protected_node_is_not_torn_down(
    service: Service, operator: Operator, node: str
) -> None:
    instance = service.instance_on(node)
    service.spawn(instance)
    operator.patch(node, protected=True)
    with pytest.raises(exceptions.TearDownFailed, match="protected"):
        service.destroy(instance)
    assert operator.node(node)["provision_state"] == "active"
    operator.patch(node, protected=False)
    service.destroy(instance)


def test_a_reservation_that_came_to_nothing_is_taken_off(
    service: Service, operator: Operator, node: str
) -> None:
    untouched = operator.node(node)
    instance = service.instance_on(node)
    service.driver.prepare_for_spawn(instance)
    service.driver.failed_spawn_cleanup(instance)
    assert operator.node(node) == untouched


# -- the process dies ----------------------------------------------------------


@pytest.mark.parametrize(
    "after",
    [pytest.param(False, marks=pytest.mark.seldom), True],
    ids=["before", "after"],
)
def test_a_service_that_died_in_a_deployment_carries_on(
    config: Path, operator: Operator, node: str, after: bool
) -> None:
    """It dies at its first request, then at its second, and so on until there is none left."""
    untouched = operator.node(node)
    deaths: list[str] = []
    for at in range(1, MOST_REQUESTS):
        dying = dying_service(config, at, after=after, starting=False)
        instance = dying.instance_on(node)
        vifs = [virt.Vif(str(uuid.uuid4()))]
        try:
            dying.spawn(instance, vifs)
        except Crash as crash:
            deaths.append(str(crash))
        dying.driver.cleanup_host()

        restarted = Service(config)
        restarted.spawn(instance, vifs)
        there = operator.node(node)
        assert (there["provision_state"], there["instance_uuid"]) == ("active", instance.uuid)
        assert operator.vifs(node) == [vifs[0].id], deaths
        restarted.destroy(instance)
        restarted.driver.cleanup_host()
        assert operator.wait_for_state(node, "available") == untouched, deaths
        assert operator.vifs(node) == [], deaths
        if len(deaths) < at:
            break
    else:
        pytest.fail(f"it died at each of these requests, and there are more: {deaths}")
    changes = [death.split(" ")[0] for death in deaths if not death.startswith("GET")]
    assert changes == ["PATCH", "POST", "PATCH", "PUT"], deaths
