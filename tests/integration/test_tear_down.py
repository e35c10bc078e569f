# SPDX-License-Identifier: Apache-2.0

"""Deployments that fail and tear-downs that are disturbed, on a real Ironic.

Fake hardware never fails and is in most states for a moment only, so nodes are
put into a state in the database; all that follows is Ironic's own doing.
"""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.baremetal import states
from tests.compute_service import FLAVOR, IMAGE
from tests.integration.services import SEEDS, Operator, Service, new_nodes, node_of
from tests.integration.stage import Stage
from tools import real_ironic

SHARD = "tear-down"
LONG_AGO = "2020-01-01 00:00:00"
# As the driver notes it.
INSTANCE_INFO = {
    "display_name": "server",
    "image_source": IMAGE.id,
    "image_checksum": IMAGE.checksum,
    "ironic_virt_keys": ["display_name", "image_checksum", "image_source"],
}
WITH_A_SYSTEM = sorted(
    state
    for state in states.ALL
    if states.tear_down_step(state) not in (states.TearDownStep.WAIT, states.TearDownStep.RELEASE)
)

MakeInstances = Callable[..., list[virt.Instance]]


@pytest.fixture
def stage(tmp_path: Path, ironic_on_mariadb: real_ironic.RealIronic) -> Iterator[Stage]:
    """For the nodes of a shard."""
    stage = Stage(ironic_on_mariadb, tmp_path, shard_key=SHARD)
    yield stage
    stage.close()


@pytest.fixture(scope="module")
def source(ironic_on_mariadb: real_ironic.RealIronic) -> str:
    """The node that others are clones of."""
    return new_nodes(ironic_on_mariadb, 1, shard=SHARD)[0]


@pytest.fixture
def make_instances(ironic_on_mariadb: real_ironic.RealIronic, source: str) -> MakeInstances:
    """Make instances, each on its own node that is in a given provision state."""

    def make(*provision_states: str, **columns: Any) -> list[virt.Instance]:
        seed = next(SEEDS)
        uuids = [str(uuid.uuid4()) for _ in provision_states]
        nodes = real_ironic.clone_nodes(
            ironic_on_mariadb,
            source,
            len(uuids),
            name=f"tear-down-{seed}-{{}}",
            seed=seed,
            differences=lambda number: {
                "instance_uuid": uuids[number],
                "instance_info": INSTANCE_INFO,
                "provision_state": provision_states[number],
                **columns,
            },
        )
        return [
            virt.Instance(instance, "instance", FLAVOR, node=node)
            for instance, node in zip(uuids, nodes, strict=True)
        ]

    return make


def assert_free_again(operator: Operator, instance: virt.Instance) -> None:
    left = operator.wait_for_state(node_of(instance), states.AVAILABLE)
    assert (left["instance_uuid"], left["instance_info"]) == (None, {})


def test_torn_down_nodes_can_be_used_again(stage: Stage, make_instances: MakeInstances) -> None:
    instances = make_instances(*WITH_A_SYSTEM, target_provision_state=states.ACTIVE)
    with ThreadPoolExecutor(len(instances)) as threads:
        list(threads.map(stage.service.destroy, instances))
    carried = [stage.operator.node(node_of(instance))["instance_uuid"] for instance in instances]
    assert carried == [None] * len(instances)
    for instance in instances:
        stage.service.destroy(instance)
        assert_free_again(stage.operator, instance)


def test_two_services_that_destroy_one_instance_both_return(stage, make_instances) -> None:
    [instance] = make_instances(states.ACTIVE)
    services = [stage.another_service() for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda service: service.destroy(instance), services))
    assert_free_again(stage.operator, instance)


@pytest.mark.parametrize(
    ("state", "after"),
    [(states.ACTIVE, False), (states.ACTIVE, True), (states.AVAILABLE, True)],
    ids=["active-before", "active-after", "available-after"],
)
def test_a_service_that_died_in_a_tear_down_carries_on(stage, make_instances, state, after):
    """It dies at its first request, then, with another instance, at its second, and so on."""
    deaths: list[str] = []
    for death, instance, restarted in stage.after_deaths(
        lambda: make_instances(state)[0], Service.destroy, after=after
    ):
        deaths.append(death)
        restarted.destroy(instance)
        assert_free_again(stage.operator, instance)
    change = "PUT /nodes/" if state == states.ACTIVE else "PATCH /nodes/"
    assert any(death.startswith(change) for death in deaths), deaths


def test_a_deployment_given_up_by_ironic_says_why_and_is_undone(stage, make_instances) -> None:
    """Its service died while it waited for a call from the node, which never comes."""
    [instance] = make_instances(
        states.DEPLOY_WAIT, target_provision_state=states.ACTIVE, provision_updated_at=LONG_AGO
    )
    with pytest.raises(exceptions.DeployFailed, match="Timeout reached") as caught:
        stage.service.spawn(instance)
    assert caught.value.last_error is not None
    assert "Timeout reached" in caught.value.last_error
    assert_free_again(stage.operator, instance)
