# SPDX-License-Identifier: Apache-2.0

"""A real ``ironic-virt-compute`` on the real Ironic: builds, a power cut, deletes."""

import signal

from ironic_virt.compute.states import TaskState
from tests.functional.compute.processes import create, wait_for
from tests.integration.commands import SECONDS, compute_service, records_of
from tests.integration.services import SEEDS, new_nodes
from tests.integration.stage import Stage

INSTANCES = 6


def test_a_service_builds_dies_goes_on_and_deletes(stage: Stage) -> None:
    shard = f"service-{next(SEEDS)}"
    nodes = new_nodes(stage.ironic, INSTANCES, shard=shard, resource_class="gold")
    operator = stage.operator
    with compute_service(stage, shard_key=shard) as service, records_of(service) as db:
        service.started()
        wait_for(
            "the records of the nodes",
            lambda: (
                {node.uuid for node in db.compute_nodes.list() if node.available} == set(nodes)
            ),
        )
        wanted = {create(db, node): node for node in nodes}
        wait_for(
            "some to be deployed",
            lambda: any(operator.node(node)["provision_state"] != "available" for node in nodes),
        )
        service.kill()
        service.started()
        wait_for("all to be built", lambda: not db.instances.pending_tasks("compute1"), SECONDS)
        for uuid, node in wanted.items():
            built = db.instances.get(uuid)
            assert (built.vm_state, built.node) == ("active", node), db.instances.get(uuid).fault
            seen = operator.node(node)
            assert (seen["provision_state"], seen["instance_uuid"]) == ("active", uuid)

        stopped = next(iter(wanted))
        db.instances.request(stopped, TaskState.POWERING_OFF)
        wait_for(
            "one to be stopped", lambda: db.instances.get(stopped).vm_state == "stopped", SECONDS
        )
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
