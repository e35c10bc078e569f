# SPDX-License-Identifier: Apache-2.0

"""Two real ``ironic-virt-compute`` serve the same nodes of the real Ironic, which picks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from ironic_virt import virt
from ironic_virt.compute.api import Requests
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.states import TaskState
from ironic_virt.conf import database as database_options
from ironic_virt.exceptions import NoValidHost
from tests.functional.compute.processes import IMAGE, ComputeProcess, new_uuid, wait_for
from tests.integration.commands import SECONDS, compute_service, records_of
from tests.integration.services import SEEDS, new_nodes
from tests.integration.stage import Stage

HOSTS = ("compute1", "compute2")
NODES = 6


@pytest.fixture
def resource_class() -> str:
    """One that no other test has."""
    return f"pools-{next(SEEDS)}"


@pytest.fixture
def nodes(stage: Stage, resource_class: str) -> list[str]:
    """Nodes of a shard of their own."""
    return new_nodes(stage.ironic, NODES, shard=resource_class, resource_class=resource_class)


@pytest.fixture
def services(
    stage: Stage, nodes: list[str], resource_class: str
) -> Iterator[list[ComputeProcess]]:
    """Two services with an embedded database, for the same nodes."""
    options = {"shard_key": resource_class, "node_selection": "ironic", "capacity": "total"}
    with contextlib.ExitStack() as running:
        yield [
            running.enter_context(compute_service(stage, host, **options)).started()
            for host in HOSTS
        ]


@pytest.fixture
def db(services: list[ComputeProcess]) -> Iterator[Database]:
    """Their records."""
    with records_of(services[0]) as db:
        yield db


def test_all_nodes_are_given_out_once_and_come_back(
    stage: Stage,
    services: list[ComputeProcess],
    db: Database,
    nodes: list[str],
    resource_class: str,
) -> None:
    def free() -> list[int]:
        return [pool.free for pool in db.pools.list()]

    wait_for("the pools", lambda: free() == [NODES] * len(HOSTS))
    wanted = {f"resources:CUSTOM_{resource_class.upper().replace('-', '_')}": "1"}
    flavor = virt.Flavor("bm", extra_specs=wanted)
    asking = Requests(database_options.load([str(services[0].config)]), db)
    new = records.NewInstance(uuid=new_uuid(), flavor=flavor, image=IMAGE)
    asked = asking.create(new, least=NODES)
    wait_for(
        "all to be built or not",
        lambda: all(one.task_state is None for one in db.instances.list()),
        SECONDS,
    )
    built = {one.uuid: one for one in db.instances.list()}
    assert set(built) == {one.instance.uuid for one in asked}
    faults = [db.instances.get(uuid).fault for uuid in built]
    assert {one.vm_state for one in built.values()} == {"active"}, faults
    assert {one.node for one in built.values()} == set(nodes)
    assert {one.host for one in built.values()} == set(HOSTS), "spread over both"
    for uuid, one in built.items():
        seen = stage.operator.node(str(one.node))
        assert (seen["provision_state"], seen["instance_uuid"]) == ("active", uuid)

    wait_for("the pools to be seen full", lambda: not any(free()))
    with pytest.raises(NoValidHost):
        asking.create(records.NewInstance(uuid=new_uuid(), flavor=flavor, image=IMAGE))

    services[0].kill()
    for uuid in built:
        db.instances.request(uuid, TaskState.DELETING)
    services[0].started()
    wait_for("all to be deleted", lambda: not db.instances.list(), SECONDS)
    for node in nodes:
        left = stage.operator.wait_for_state(node, "available")
        assert (left["instance_uuid"], left["instance_info"]) == (None, {})
    wait_for("all places to be free", lambda: free() == [NODES] * len(HOSTS), SECONDS)
    allocations = stage.operator.request("GET", "/allocations")["allocations"]
    assert [one for one in allocations if one["resource_class"] == resource_class] == []
    for one in services:
        assert "Traceback" not in one.text()
