# SPDX-License-Identifier: Apache-2.0

"""With pools, the process dies between any two calls; another one goes on, and all adds up."""

from pathlib import Path

import pytest

from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.crashing import Deaths, a_deployment_fails, settled
from tests.unit.compute.service_stage import ServiceStage, make_conf

POOL = "gold~compute1"


@pytest.fixture
def deaths(records: Path) -> Deaths:
    return Deaths(records, make_conf(records, ironic={"node_selection": "ironic"}), POOL)


def check_whole(stage: ServiceStage, uuid: str, where: str) -> None:
    """See that records and Ironic agree, and that nothing is reserved for nobody."""
    has = settled(stage, uuid, where)
    allocated = {one["uuid"]: one["node_uuid"] for one in stage.fake.allocations()}
    assert allocated == dict(zip([uuid], has, strict=False)), where
    stage.fake.advance(120)
    stage.service.refresh()
    usable = sum(
        not node["maintenance"] and node["provision_state"] == "available"
        for node in stage.fake.nodes()
    )
    pool = stage.pool(POOL)
    assert (pool.used, pool.free) == (len(has), usable), where


def test_a_build_goes_on(deaths: Deaths) -> None:
    for where, again, uuid in deaths():
        assert again.state(uuid) == ("active", None), where
        assert again.ironic.provision_requests("active") == 1, where
        assert again.instance(uuid).attempts == 1, where
        check_whole(again, uuid, where)


def test_a_build_that_failed_goes_on_with_another_node(deaths: Deaths) -> None:
    for where, again, uuid in deaths(prepare=a_deployment_fails):
        assert again.state(uuid) == ("active", None), where
        check_whole(again, uuid, where)


def test_a_build_without_a_node_ends_in_error_and_keeps_no_place(deaths: Deaths) -> None:
    def no_node_is_left(fake: FakeIronic) -> None:
        for node in fake.nodes():
            fake.set_node(node["uuid"], maintenance=True)

    for where, again, uuid in deaths(prepare=no_node_is_left):
        assert again.state(uuid) == ("error", None), where
        assert "there is no node that would do" in again.fault(uuid), where
        check_whole(again, uuid, where)


def test_a_delete_goes_on(deaths: Deaths) -> None:
    for where, again, uuid in deaths(TaskState.DELETING):
        assert again.instance(uuid).is_deleted, where
        check_whole(again, uuid, where)
