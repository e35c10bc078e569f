# SPDX-License-Identifier: Apache-2.0

"""The process dies between any two calls; another one goes on, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute import crashing
from tests.unit.compute.conftest import DURATIONS
from tests.unit.compute.service_stage import ServiceStage, make_conf

PASSWORD = "correct horse"
VIF = "9d1c54a0-0000-4000-8000-000000000001"
WITH: dict[TaskState, dict[str, Any]] = {
    TaskState.RESCUING: {"password": PASSWORD},
    TaskState.ATTACHING_INTERFACE: {"vif": VIF},
    TaskState.DETACHING_INTERFACE: {"vif": VIF},
}

Story = Callable[[ServiceStage, str], None]


def no_preparation(fake: FakeIronic, node: str) -> None:
    pass


def node_fails(fake: FakeIronic, node: str) -> None:
    fake.fail_next("deploy", "disk broken", node)


def image_fails(fake: FakeIronic, node: str) -> None:
    fake.fail_next("deploy", "The supplied image checksum is wrong", node, count=9)


class Deaths:
    """Every service that died during a task of an instance, started again."""

    def __init__(self, directory: Path) -> None:
        self._deaths = crashing.Deaths(directory, make_conf(directory))

    def __call__(
        self,
        *tasks: TaskState,
        prepare: Callable[[FakeIronic, str], None] = no_preparation,
    ) -> Iterator[crashing.Dying]:
        """Die in the last of these tasks of an instance."""

        def make_fake() -> FakeIronic:
            fake = FakeIronic(durations=DURATIONS, power_follows_deploy=True)
            fake.add_nodes(3, resource_class="gold", ports=1, driver_info={"takes_nmi": True})
            return fake

        def begin(stage: ServiceStage) -> str:
            node = stage.fake.nodes()[0]["uuid"]
            uuid = stage.create(node)
            prepare(stage.fake, node)
            for task in tasks[1:]:
                stage.look()
                stage.db.instances.request(uuid, task, WITH.get(task))
            return uuid

        return self._deaths(make_fake, begin)


@pytest.fixture
def deaths(records: Path) -> Deaths:
    return Deaths(records)


def check_whole(stage: ServiceStage, uuid: str, where: str) -> None:
    """See that records and Ironic agree, and that nobody else has anything."""
    found = stage.instance(uuid)
    assert found.task_state is None, where
    carrying = [node["uuid"] for node in stage.fake.nodes() if node["instance_uuid"] == uuid]
    claimed = [node.uuid for node in stage.db.compute_nodes.list() if node.instance_uuid]
    assert carrying == claimed == ([found.node] if found.node else []), where
    free = [node["uuid"] for node in stage.fake.nodes() if node["uuid"] != found.node]
    stage.nobody_has(free)
    assert all(action.finish_time for action in stage.db.actions.list(uuid)), where
    stage.service.refresh()
    for node in stage.db.compute_nodes.list():
        assert node.available == (node.uuid != found.node), where


def test_a_build_goes_on(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING):
        assert again.state(uuid) == ("active", None), where
        assert again.ironic.provision_requests("active") == 1, where
        assert again.instance(uuid).attempts == 1, where
        check_whole(again, uuid, where)


def test_a_build_that_failed_goes_on_elsewhere(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING, prepare=node_fails):
        assert again.state(uuid) == ("active", None), where
        check_whole(again, uuid, where)


def test_a_build_that_cannot_work_ends_in_error_with_the_reason(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING, prepare=image_fails):
        assert again.state(uuid) == ("error", None), where
        assert "image checksum" in again.fault(uuid), where
        check_whole(again, uuid, where)


def test_a_rebuild_goes_on(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING, TaskState.REBUILDING):
        assert again.state(uuid) == ("active", None), where
        assert again.instance(uuid).arguments == {}, where
        assert again.ironic.provision_requests("rebuild") == 1, where
        check_whole(again, uuid, where)


def test_a_delete_goes_on(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING, TaskState.DELETING):
        assert again.state(uuid) == ("deleted", None), where
        assert again.ironic.provision_requests("deleted") == 1, where
        assert again.instance(uuid).node is not None, "history keeps it"
        stage_nodes = [node["uuid"] for node in again.fake.nodes()]
        again.nobody_has(stage_nodes)


def test_powering_off_goes_on(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING, TaskState.POWERING_OFF):
        assert again.state(uuid) == ("stopped", None), where
        node = again.fake.node(str(again.instance(uuid).node))
        assert node["power_state"] == "power off", where
        check_whole(again, uuid, where)


def test_a_rescue_goes_on(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING, TaskState.RESCUING):
        assert again.state(uuid) == ("rescued", None), where
        asked = again.fake.requests.matching("PUT", "/states/provision$")
        assert {entry.body["rescue_password"] for entry in asked} == {PASSWORD}, where
        assert again.instance(uuid).arguments == {}, where
        check_whole(again, uuid, where)


def test_an_unrescue_goes_on(deaths: Deaths) -> None:
    tasks = (TaskState.SPAWNING, TaskState.RESCUING, TaskState.UNRESCUING)
    for where, again, uuid in deaths(*tasks):
        assert again.state(uuid) == ("active", None), where
        assert again.ironic.provision_requests("unrescue") == 1, where
        check_whole(again, uuid, where)


def test_an_interface_comes(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING, TaskState.ATTACHING_INTERFACE):
        found = again.instance(uuid)
        assert [port.id for port in found.ports] == [VIF], where
        assert again.ironic.trace(str(found.node))["vifs"] == [VIF], where
        check_whole(again, uuid, where)


def test_an_interface_goes(deaths: Deaths) -> None:
    tasks = (
        TaskState.SPAWNING,
        TaskState.ATTACHING_INTERFACE,
        TaskState.DETACHING_INTERFACE,
    )
    for where, again, uuid in deaths(*tasks):
        found = again.instance(uuid)
        assert found.ports == (), where
        assert again.ironic.trace(str(found.node))["vifs"] == [], where
        check_whole(again, uuid, where)


def test_an_nmi_is_sent(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.SPAWNING, TaskState.TRIGGERING_CRASH_DUMP):
        assert again.state(uuid) == ("active", None), where
        sent = [entry.status for entry in again.fake.requests.matching("PUT", "/inject_nmi$")]
        assert sent in ([204], [204, 204]), where
        assert again.db.faults.latest(uuid) is None, where
        check_whole(again, uuid, where)
