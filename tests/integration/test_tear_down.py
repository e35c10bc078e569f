# SPDX-License-Identifier: Apache-2.0

"""Deployments that fail and tear-downs that are disturbed, on a real Ironic.

Fake hardware never fails and is in most states for a moment only, so nodes are
put into a state in the database; all that follows is Ironic's own doing.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import conf, exceptions, virt
from ironic_virt.baremetal import states
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer, KeystoneChannel
from ironic_virt.driver import IronicDriver
from tests.functional.compute.processes import wait_for
from tests.integration.services import (
    FLAVOR,
    IMAGE,
    SECONDS,
    SEEDS,
    Operator,
    Service,
    new_nodes,
    node_of,
)
from tests.integration.stage import Stage
from tools import real_ironic

SHARD = "tear-down"
LONG_AGO = "2020-01-01 00:00:00"
# As the driver notes it.
INSTANCE_INFO = {
    "image_source": IMAGE.id,
    "image_checksum": IMAGE.checksum,
    "ironic_virt_keys": ["image_checksum", "image_source"],
}
WITH_A_SYSTEM = sorted(
    state
    for state in states.ALL
    if states.tear_down_step(state) not in (states.TearDownStep.WAIT, states.TearDownStep.RELEASE)
)

MakeInstances = Callable[..., list[virt.Instance]]


class CountingChannel:
    """Keeps what the poller asks for.

    :ivar lists: the states that it lists, as often as it does.
    :ivar looks: the states in which it has found nodes that it looked at one by one, and
        those nodes.
    """

    def __init__(self, channel: KeystoneChannel) -> None:
        self._channel = channel
        self.lists: list[str] = []
        self.looks: dict[str, set[str]] = {}

    def send(self, method: str, path: str, **request: Any) -> Answer:
        polls = threading.current_thread().name == "ironic-virt-watcher"
        state = (request.get("params") or {}).get("provision_state")
        if polls and state is not None:
            self.lists.append(state)
        answer = self._channel.send(method, path, **request)
        if polls and path.startswith("/nodes/"):
            found = json.loads(answer.body).get("provision_state")
            self.looks.setdefault(found, set()).add(path)
        return answer


class CountedService(Service):
    """A service whose poller is counted."""

    def __init__(self, config: Path) -> None:
        options = conf.load([str(config)])
        self.channel = CountingChannel(KeystoneChannel.from_conf(options))
        super().__init__(config, IronicDriver(options, self, client=IronicClient(self.channel)))


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
    """Make instances, each on a node of its own that is in a given provision state."""

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


def test_nodes_that_had_a_system_can_be_used_again_after_their_tear_down(
    stage: Stage, make_instances: MakeInstances
) -> None:
    instances = make_instances(*WITH_A_SYSTEM, target_provision_state=states.ACTIVE)
    with ThreadPoolExecutor(len(instances)) as threads:
        list(threads.map(stage.service.destroy, instances))
    carried = [stage.operator.node(node_of(instance))["instance_uuid"] for instance in instances]
    assert carried == [None] * len(instances)
    for instance in instances:
        stage.service.destroy(instance)
        assert_free_again(stage.operator, instance)


def test_a_deployment_that_ironic_does_not_end_is_waited_for_and_then_told(
    stage: Stage, make_instances: MakeInstances
) -> None:
    [instance] = make_instances(states.DEPLOYING, target_provision_state=states.ACTIVE)
    impatient = stage.another_service(shard_key=SHARD, unprovision_timeout=2)
    with pytest.raises(exceptions.WaitTimeout, match=r"unprovision_timeout.*'deploying'"):
        impatient.destroy(instance)
    assert stage.operator.node(node_of(instance))["instance_uuid"] == instance.uuid


def test_two_services_that_destroy_one_instance_at_once_both_return(
    stage: Stage, make_instances: MakeInstances
) -> None:
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
def test_a_service_that_died_in_a_tear_down_carries_on(
    stage: Stage, make_instances: MakeInstances, state: str, after: bool
) -> None:
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


def test_a_deployment_that_ironic_gives_up_says_why_and_is_undone(
    stage: Stage, make_instances: MakeInstances
) -> None:
    """Its service died while it waited for a call from the node, which never comes."""
    [instance] = make_instances(
        states.DEPLOY_WAIT, target_provision_state=states.ACTIVE, provision_updated_at=LONG_AGO
    )
    with pytest.raises(exceptions.DeployFailed, match="Timeout reached") as caught:
        stage.service.spawn(instance)
    assert caught.value.last_error is not None
    assert "Timeout reached" in caught.value.last_error
    assert_free_again(stage.operator, instance)


def test_many_deployments_that_ironic_gives_up_cost_few_looks(
    stage: Stage, make_instances: MakeInstances
) -> None:
    count = 10
    service = CountedService(stage.config)
    instances = make_instances(
        *([states.DEPLOY_WAIT] * count), target_provision_state=states.ACTIVE
    )

    def spawn(instance: virt.Instance) -> str | None:
        with pytest.raises(exceptions.DeployFailed, match="Timeout reached") as caught:
            service.spawn(instance)
        return caught.value.node

    began = time.monotonic()
    with ThreadPoolExecutor(count) as threads:
        spawned = threads.map(spawn, instances)
        # Ironic looks for those that wait for too long every few seconds.
        wait_for("a list", lambda: states.DEPLOY_WAIT in service.channel.lists, SECONDS)
        stage.operator.force_each(
            {node_of(one): {"provision_updated_at": LONG_AGO} for one in instances}
        )
        nodes = list(spawned)
    seconds = time.monotonic() - began
    assert nodes == [instance.node for instance in instances]
    for instance in instances:
        assert_free_again(stage.operator, instance)
    # Only who is alone in a state is looked at there: the first one, and the last.
    assert len(service.channel.looks.get(states.DEPLOY_WAIT, ())) < count / 2
    lists = len(service.channel.lists)
    assert lists <= 3 * 8 * seconds, "three states at most, each eighth of the interval"
    service.driver.cleanup_host()
