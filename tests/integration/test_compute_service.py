# SPDX-License-Identifier: Apache-2.0

"""A real ``ironic-virt-compute`` on the real Ironic: builds, a power cut, deletes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import real_ironic
from ironic_virt.compute.db import Database
from ironic_virt.compute.states import TaskState
from ironic_virt.conf import database as database_options
from tests.functional.compute.processes import ComputeProcess, create, wait_for
from tests.integration.services import SEEDS, Operator

INSTANCES = 6
SECONDS = 180.0


@pytest.fixture
def nodes(ironic_on_mariadb: real_ironic.RealIronic) -> list[str]:
    """Nodes of a shard of their own."""
    seed = next(SEEDS)
    template = real_ironic.NodeTemplate(shard=f"service-{seed}", resource_class="gold")
    return real_ironic.create_nodes(
        ironic_on_mariadb, INSTANCES, template, name=f"service-{seed}-{{}}", seed=seed
    )


@pytest.fixture
def service(
    tmp_path: Path, ironic_on_mariadb: real_ironic.RealIronic, nodes: list[str]
) -> Iterator[ComputeProcess]:
    """A compute service for them, with an embedded database; not started yet."""
    shard = Operator(ironic_on_mariadb).node(nodes[0])["shard"]
    process = ComputeProcess(
        tmp_path, "compute1", "unused", ironic_on_mariadb.url, ironic={"shard_key": shard}
    )
    process.configure(database={"connection": None})
    yield process
    process.kill()


@pytest.fixture
def db(service: ComputeProcess) -> Iterator[Database]:
    """Its records."""
    db = Database(database_options.load([str(service.config)]), patient=False).open()
    yield db
    db.close()


def test_a_service_builds_dies_goes_on_and_deletes(
    service: ComputeProcess,
    db: Database,
    nodes: list[str],
    ironic_on_mariadb: real_ironic.RealIronic,
) -> None:
    operator = Operator(ironic_on_mariadb)
    service.started()
    wait_for(
        "the records of the nodes",
        lambda: {node.uuid for node in db.compute_nodes.list() if node.available} == set(nodes),
    )
    wanted = {create(db, node): node for node in nodes}
    wait_for(
        "some to be deployed",
        lambda: any(operator.node(node)["provision_state"] != "available" for node in nodes),
    )
    service.kill()
    service.started()
    wait_for("all to be built", lambda: not db.instances.wanted("compute1"), SECONDS)
    for uuid, node in wanted.items():
        built = db.instances.get(uuid)
        assert (built.vm_state, built.node) == ("active", node), db.faults.latest(uuid)
        seen = operator.node(node)
        assert (seen["provision_state"], seen["instance_uuid"]) == ("active", uuid)

    stopped = next(iter(wanted))
    db.instances.request(stopped, TaskState.POWERING_OFF)
    wait_for("one to be stopped", lambda: db.instances.get(stopped).vm_state == "stopped", SECONDS)
    assert operator.node(wanted[stopped])["power_state"] == "power off"

    for uuid in wanted:
        db.instances.request(uuid, TaskState.DELETING)
    wait_for("all to be deleted", lambda: not db.instances.list(), SECONDS)
    for node in nodes:
        left = operator.wait_for_state(node, "available")
        assert (left["instance_uuid"], left["instance_info"]) == (None, {})
    wait_for(
        "the nodes to be free in the records",
        lambda: all(node.available and not node.in_use for node in db.compute_nodes.list()),
        SECONDS,
    )
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert "Traceback" not in service.text()
