# SPDX-License-Identifier: Apache-2.0

"""With pools, the process dies between any two calls; another one goes on, and all adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute import crashing
from tests.unit.compute.conftest import DURATIONS
from tests.unit.compute.service_stage import ServiceStage, make_conf

NODES = 2
POOL = "gold~compute1"


def no_preparation(fake: FakeIronic) -> None:
    pass


def node_fails(fake: FakeIronic) -> None:
    # Whichever Ironic picks.
    fake.fail_next("deploy", "disk broken")


def no_node_is_left(fake: FakeIronic) -> None:
    for node in fake.nodes():
        fake.set_node(node["uuid"], maintenance=True)


@pytest.fixture
def deaths(records: Path) -> Callable[..., Iterator[crashing.Dying]]:
    """Every service that died during a task of an instance, started again."""
    every = crashing.Deaths(records, make_conf(records, ironic={"node_selection": "ironic"}))

    def each(
        *tasks: TaskState, prepare: Callable[[FakeIronic], None] = no_preparation
    ) -> Iterator[crashing.Dying]:
        def make_fake() -> FakeIronic:
            fake = FakeIronic(durations=DURATIONS, power_follows_deploy=True)
            fake.add_nodes(NODES, resource_class="gold", ports=1)
            return fake

        def begin(stage: ServiceStage) -> str:
            uuid = stage.create(pool=POOL)
            prepare(stage.fake)
            for task in tasks[1:]:
                stage.look()
                stage.db.instances.request(uuid, task)
            return uuid

        return every(make_fake, begin)

    return each


def check_whole(stage: ServiceStage, uuid: str, where: str) -> None:
    """See that records and Ironic agree, and that nothing is reserved for nobody."""
    found = stage.instance(uuid)
    assert found.task_state is None, where
    carrying = {node["uuid"] for node in stage.fake.nodes() if node["instance_uuid"] == uuid}
    live = not found.is_deleted and found.node is not None
    assert carrying == ({found.node} if live else set()), where
    allocated = {one["uuid"]: one["node_uuid"] for one in stage.fake.allocations()}
    assert allocated == ({uuid: found.node} if live else {}), where
    stage.fake.advance(120)
    stage.service.refresh()
    usable = sum(
        not node["maintenance"] and node["provision_state"] == "available"
        for node in stage.fake.nodes()
    )
    pool = stage.pool(POOL)
    assert (pool.used, pool.free) == (int(live), usable), where


Deaths = Callable[..., Iterator[crashing.Dying]]


def test_a_build_goes_on(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING):
        assert again.state(uuid) == ("active", None), where
        assert again.ironic.provision_requests("active") == 1, where
        assert again.instance(uuid).attempts == 1, where
        check_whole(again, uuid, where)


def test_a_build_that_failed_goes_on_with_another_node(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING, prepare=node_fails):
        assert again.state(uuid) == ("active", None), where
        check_whole(again, uuid, where)


def test_a_build_without_a_node_ends_in_error_and_keeps_no_place(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING, prepare=no_node_is_left):
        assert again.state(uuid) == ("error", None), where
        assert "there is no node that would do" in again.fault(uuid), where
        check_whole(again, uuid, where)


def test_a_delete_goes_on(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING, TaskState.DELETING):
        assert again.instance(uuid).is_deleted, where
        check_whole(again, uuid, where)
