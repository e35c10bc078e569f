# SPDX-License-Identifier: Apache-2.0

"""Several services share the nodes of the real Ironic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.capacity import Cloud
from tests.integration.services import new_nodes
from tests.integration.stage import Stage

HOSTS = ("compute1", "compute2", "compute3")


@pytest.fixture
def make_cloud(tmp_path: Path, stage: Stage) -> Iterator[Callable[..., Cloud]]:
    """Services with these options each; their instances go with them."""
    made: list[Cloud] = []

    def make(resource_class: str, options: dict[str, dict[str, Any]]) -> Cloud:
        url = stage.ironic.url
        cloud = Cloud(tmp_path, url, stage.operator, [resource_class], options)
        made.append(cloud)
        return cloud

    yield make
    for cloud in made:
        for instance in list(cloud.instances.values()):
            cloud.delete(instance)
        cloud.stop_all()


def test_what_is_free_is_offered_by_each(stage: Stage, make_cloud: Callable[..., Cloud]) -> None:
    nodes = new_nodes(stage.ironic, 7, resource_class="common")
    cloud = make_cloud("common", {host: {"capacity": "total"} for host in HOSTS})
    assert cloud.check(everywhere=True)["common"] == dict.fromkeys(HOSTS, 7)
    for host in HOSTS:
        cloud.boot(host, "common")
    assert cloud.check(everywhere=True)["common"] == dict.fromkeys(HOSTS, 4)
    carrying = {one["uuid"]: one["instance_uuid"] for one in map(stage.operator.node, nodes)}
    free = next(node for node, instance in carrying.items() if instance is None)
    stage.operator.request("PUT", f"/nodes/{free}/maintenance", {})
    assert cloud.check(everywhere=True)["common"] == dict.fromkeys(HOSTS, 3)


def test_each_reports_the_nodes_of_its_shard(
    stage: Stage, make_cloud: Callable[..., Cloud]
) -> None:
    for number, host in enumerate(HOSTS, start=1):
        new_nodes(stage.ironic, number, resource_class="owned", shard=f"owned-{host}")
    options = {host: {"capacity": "own", "shard_key": f"owned-{host}"} for host in HOSTS}
    cloud = make_cloud("owned", options)
    assert cloud.check()["owned"] == {"compute1": 1, "compute2": 2, "compute3": 3}
    cloud.boot("compute3", "owned")
    assert cloud.check()["owned"] == {"compute1": 1, "compute2": 2, "compute3": 2}
