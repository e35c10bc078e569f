# SPDX-License-Identifier: Apache-2.0

"""Thirty instances at once on the real Ironic with MariaDB."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.integration.services import new_nodes
from tests.integration.stage import Stage

INSTANCES = 30


def test_thirty_instances_come_and_go_at_once(stage: Stage) -> None:
    nodes = new_nodes(stage.ironic, INSTANCES, shard="thirty")
    operator, service = stage.operator, stage.another_service(shard_key="thirty")
    free = [
        node
        for node in service.driver.get_available_nodes(refresh=True)
        if service.driver.get_inventory(node).reserved == 0
    ]
    assert sorted(free) == sorted(nodes)
    instances = [service.instance_on(node) for node in free]

    with ThreadPoolExecutor(INSTANCES) as threads:
        list(threads.map(service.spawn, instances))
        carried = {node: operator.node(node)["instance_uuid"] for node in nodes}
        assert carried == {instance.node: instance.uuid for instance in instances}
        assert len(set(carried.values())) == INSTANCES
        states = {operator.node(node)["provision_state"] for node in nodes}
        assert states == {"active"}
        list(threads.map(service.destroy, instances))

    for node in nodes:
        left = operator.wait_for_state(node, "available")
        assert (left["instance_uuid"], left["instance_info"]) == (None, {})
        assert left["allocation_uuid"] is None
        assert operator.vifs(node) == []
    ours = {instance.uuid for instance in instances}
    listed = operator.request("GET", "/allocations")["allocations"]
    assert [one for one in listed if one["uuid"] in ours or one["node_uuid"] in nodes] == []
