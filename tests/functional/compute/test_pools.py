# SPDX-License-Identifier: Apache-2.0

"""Three services without shards serve the same nodes: Ironic picks among them."""

import concurrent.futures
from collections import Counter
from collections.abc import Iterator

import pytest

from ironic_virt import virt
from ironic_virt.compute.api import Requests
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.states import TaskState
from ironic_virt.exceptions import NoValidHost
from ironic_virt.testing.fake_ironic import Durations, FakeIronic, FakeIronicServer
from tests import depth
from tests.clock import StoppableClock
from tests.functional.compute.processes import (
    IMAGE,
    Compute,
    ComputeProcess,
    new_uuid,
    wait_for,
)

HOSTS = ("compute1", "compute2", "compute3")
EACH = depth.choose(8, 20)
KINDS: dict[str, dict[str, object]] = {
    "gold": {"resource_class": "gold"},
    "gpu": {"resource_class": "gold", "traits": ["CUSTOM_GPU"]},
    "silver": {"resource_class": "silver"},
}
FLAVORS = {
    "gold": virt.Flavor("gold", extra_specs={"resources:CUSTOM_GOLD": "1"}),
    "gpu": virt.Flavor(
        "gpu",
        extra_specs={"resources:CUSTOM_GOLD": "1", "trait:CUSTOM_GPU": "required"},
    ),
    "silver": virt.Flavor("silver", extra_specs={"resources:CUSTOM_SILVER": "1"}),
}


@pytest.fixture
def kinds() -> dict[str, set[str]]:
    """The nodes of each kind; filled with them."""
    return {}


@pytest.fixture
def server(kinds: dict[str, set[str]], ironic_clock: StoppableClock) -> Iterator[FakeIronicServer]:
    """A fake Ironic over HTTP."""
    fake = FakeIronic(
        clock=ironic_clock,
        durations=Durations(deploy=depth.choose((0.2, 0.6), (0.5, 2.0)), undeploy=0.2, clean=0.5),
        power_follows_deploy=True,
    )
    for kind, fields in KINDS.items():
        kinds[kind] = set(fake.add_nodes(EACH, ports=1, **fields))
    with FakeIronicServer(fake, threads=48) as running:
        yield running


@pytest.fixture
def services(compute: Compute) -> list[ComputeProcess]:
    """Three services for the same nodes."""
    made = [
        compute(
            host,
            compute={"max_concurrent_tasks": 20},
            ironic={"node_selection": "ironic", "capacity": "total"},
            scheduler={"max_attempts": 5},
        )
        for host in HOSTS
    ]
    for one in made:
        one.start()
    for one in made:
        one.wait_for_text(" is up")
    return made


def new(kind: str) -> records.NewInstance:
    return records.NewInstance(uuid=new_uuid(), flavor=FLAVORS[kind], image=IMAGE)


def free(db: Database) -> list[int]:
    return [pool.free for pool in db.pools.list()]


def carriers(server: FakeIronicServer) -> dict[str, str]:
    return {
        node["instance_uuid"]: node["uuid"]
        for node in server.fake.nodes()
        if node["instance_uuid"]
    }


@pytest.mark.long
def test_dozens_at_once_get_the_right_nodes_despite_kills(
    db, database_conf, server, ironic_clock, services, kinds
) -> None:
    wait_for("all pools", lambda: free(db) == [EACH] * len(HOSTS) * len(KINDS))
    assert db.compute_nodes.list() == []
    asking = Requests(database_conf, db)
    ironic_clock.stop()
    wanted = [kind for _ in range(EACH) for kind in KINDS]
    with concurrent.futures.ThreadPoolExecutor(6) as clients:
        asked = list(clients.map(lambda kind: asking.create(new(kind))[0], wanted))
    dying = services[1]
    wait_for(
        f"{dying.host} to be in the middle of it",
        lambda: any(
            one.node is not None and one.task_state for one in db.instances.list(host=dying.host)
        ),
    )
    dying.kill()
    assert any(one.task_state for one in db.instances.list(host=dying.host)), "it died too late"
    ironic_clock.go_on()
    dying.started()
    of_kind = dict(zip((one.instance.uuid for one in asked), wanted, strict=True))
    wait_for(
        "all instances to be built or not",
        lambda: all(one.task_state is None for one in db.instances.list()),
        seconds=180,
    )
    instances = db.instances.list()
    faults = [fault.message for one in instances if (fault := db.instances.get(one.uuid).fault)]
    assert Counter(one.vm_state for one in instances) == {"active": 3 * EACH}, faults
    carried = carriers(server)
    assert {one.uuid: one.node for one in instances} == carried
    assert len(set(carried.values())) == 3 * EACH
    assert all(carried[uuid] in kinds[kind] for uuid, kind in of_kind.items())
    assert set(Counter(one.host for one in instances)) == set(HOSTS), "spread over all"
    assert len(server.fake.allocations()) == 3 * EACH

    wait_for("all pools to be seen full", lambda: not any(free(db)))
    for kind in KINDS:
        with pytest.raises(NoValidHost):
            asking.create(new(kind))

    for uuid in of_kind:
        db.instances.request(uuid, TaskState.DELETING)
    wait_for("all to be deleted", lambda: not db.instances.list(), seconds=120)
    wait_for(
        "all places to be free", lambda: free(db) == [EACH] * len(HOSTS) * len(KINDS), seconds=120
    )
    assert server.fake.allocations() == []
    left = [node for node in server.fake.nodes() if node["instance_uuid"] or node["instance_info"]]
    assert left == []
    assert [pool.used for pool in db.pools.list()] == [0] * len(HOSTS) * len(KINDS)
    for one in services:
        assert "Traceback" not in one.text()
