# SPDX-License-Identifier: Apache-2.0

"""Rescues on a real Ironic: there and back, failures, a service that dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import real_ironic
from ironic_virt import exceptions, virt
from tests.crashing import Crash
from tests.integration.services import SEEDS, Operator, Service, dying_service

LONG_AGO = "2020-01-01 00:00:00"
MOST_REQUESTS = 20
PASSWORD = "correct horse"

Act = Callable[[Service, virt.Instance], None]


@pytest.fixture
def make_instance(
    ironic_on_mariadb: real_ironic.RealIronic, service: Service
) -> Callable[[], virt.Instance]:
    """Make instances that are active, each on a node of its own."""

    def make() -> virt.Instance:
        seed = next(SEEDS)
        template = real_ironic.NodeTemplate()
        [node] = real_ironic.create_nodes(
            ironic_on_mariadb, 1, template, name=f"rescue-{seed}-{{}}", seed=seed
        )
        instance = service.instance_on(node)
        service.spawn(instance, [])
        return instance

    return make


@pytest.fixture
def instance(make_instance: Callable[[], virt.Instance]) -> virt.Instance:
    """One of them."""
    return make_instance()


def node_of(instance: virt.Instance) -> str:
    assert instance.node is not None
    return instance.node


def rescue(service: Service, instance: virt.Instance) -> None:
    service.driver.rescue(instance, PASSWORD)


def unrescue(service: Service, instance: virt.Instance) -> None:
    service.driver.unrescue(instance)


def state(operator: Operator, instance: virt.Instance) -> str:
    return str(operator.node(node_of(instance))["provision_state"])


def test_there_and_back(service: Service, operator: Operator, instance: virt.Instance) -> None:
    rescue(service, instance)
    there = operator.node(node_of(instance))
    assert (there["provision_state"], there["instance_uuid"]) == ("rescue", instance.uuid)
    assert there["instance_info"]["rescue_password"] == "******"
    rescue(service, instance)
    assert state(operator, instance) == "rescue"
    unrescue(service, instance)
    assert state(operator, instance) == "active"
    unrescue(service, instance)
    rescue(service, instance)
    service.destroy(instance)
    operator.wait_for_state(node_of(instance), "available")


@pytest.mark.parametrize("failed", ["rescue failed", "unrescue failed"])
@pytest.mark.parametrize(("act", "wanted"), [(rescue, "rescue"), (unrescue, "active")])
def test_a_failure_of_before_is_left(
    service: Service,
    operator: Operator,
    instance: virt.Instance,
    failed: str,
    act: Act,
    wanted: str,
) -> None:
    operator.force(node_of(instance), provision_state=failed, last_error="it broke")
    act(service, instance)
    assert state(operator, instance) == wanted
    service.destroy(instance)


@pytest.mark.seldom
def test_a_rescue_that_ironic_gives_up_ends_on_the_instances_own_system(
    config: Path, service: Service, operator: Operator, instance: virt.Instance
) -> None:
    """Ironic waits for a call from the rescue system, which never comes."""
    wait = service.driver._rescue._wait  # type: ignore[attr-defined]

    def stuck(change: object, wanted: str) -> object:
        if wanted == "rescue":
            operator.wait_for_state(node_of(instance), "rescue")
            operator.force(
                node_of(instance),
                provision_state="rescue wait",
                target_provision_state="rescue",
                provision_updated_at=LONG_AGO,
            )
        return wait(change, wanted)

    service.driver._rescue._wait = stuck  # type: ignore[attr-defined]
    with pytest.raises(exceptions.RescueFailed, match="Timeout reached") as caught:
        rescue(service, instance)
    assert "the server runs its own system" in caught.value.reason
    assert state(operator, instance) == "active"
    service.destroy(instance)


@pytest.mark.parametrize(
    "after",
    [pytest.param(False, marks=pytest.mark.seldom), True],
    ids=["before", "after"],
)
@pytest.mark.parametrize(("act", "wanted"), [(rescue, "rescue"), (unrescue, "active")])
def test_a_service_that_died_carries_on(
    config: Path,
    service: Service,
    operator: Operator,
    make_instance: Callable[[], virt.Instance],
    act: Act,
    wanted: str,
    after: bool,
) -> None:
    """It dies at its first request, then, with another instance, at its second, and so on."""
    deaths: list[str] = []
    for at in range(1, MOST_REQUESTS):
        instance = make_instance()
        if act is unrescue:
            rescue(service, instance)
        try:
            dying = dying_service(config, at, after=after)
            act(dying, instance)
        except Crash as crash:
            deaths.append(str(crash))
        else:
            break
        restarted = Service(config)
        act(restarted, instance)
        assert state(operator, instance) == wanted, deaths[-1]
        restarted.destroy(instance)
        restarted.driver.cleanup_host()
    else:
        pytest.fail(f"it died at each of these requests, and there are more: {deaths}")
    assert any(death.startswith("PUT") for death in deaths), deaths
