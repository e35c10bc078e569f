# SPDX-License-Identifier: Apache-2.0

"""Three services on one database, dozens of instances, and a power cut in the middle.

Each has its own nodes by shard or conductor group, or all serve the same ones and Ironic picks.
"""

import concurrent.futures
from collections import Counter
from collections.abc import Iterator

import pytest

from ironic_virt import virt
from ironic_virt.cmd.demo.journey import free_places
from ironic_virt.compute.api import Requests
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.states import TaskState
from ironic_virt.exceptions import NoValidHost
from ironic_virt.testing.fake_ironic import Conductor, Durations, FakeIronic, FakeIronicServer
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
POOLS = "pools"
# A field of a node that assigns it to a service, and the service's option for it.
FIELDS = {"shard": "shard_key", "conductor_group": "conductor_group", POOLS: ""}
GROUPS = ("one", "two", "three")
INSTANCES = depth.choose(24, 60)
SPARE = 6
BROKEN = depth.choose(4, 8)
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


@pytest.fixture(params=FIELDS)
def field(request: pytest.FixtureRequest) -> str:
    """What says whose a node is."""
    return str(request.param)


@pytest.fixture
def kinds(field: str) -> list[str]:
    """The kind of each instance that is wanted: of pools as many as there are nodes."""
    return [*KINDS] * (INSTANCES // len(KINDS)) if field == POOLS else ["gold"] * INSTANCES


@pytest.fixture
def server(
    ironic_clock: StoppableClock, field: str, kinds: list[str]
) -> Iterator[FakeIronicServer]:
    """A fake Ironic over HTTP, some of whose nodes fail to deploy unless all are needed."""
    fake = FakeIronic(
        clock=ironic_clock,
        conductors=tuple(Conductor(f"conductor-{group}", group) for group in ("", *GROUPS)),
        durations=Durations(deploy=depth.choose((0.3, 1.0), (1.0, 4.0)), undeploy=0.2, clean=0.5),
        power_follows_deploy=True,
    )
    if field == POOLS:
        for kind in kinds:
            fake.add_node(**KINDS[kind], ports=1)
    else:
        for number in range(INSTANCES + SPARE):
            whose = {field: GROUPS[number % len(GROUPS)]}
            fake.add_node(**whose, **KINDS["gold"], ports=1)
        for node in fake.nodes()[:BROKEN]:
            fake.fail_next("deploy", "disk broken", node["uuid"])
    with FakeIronicServer(fake, threads=48) as running:
        yield running


@pytest.fixture
def services(compute: Compute, field: str) -> list[ComputeProcess]:
    """Three services, one for each shard or conductor group, or all for the same nodes."""
    pools = {"node_selection": "ironic", "capacity": "total"}
    made = [
        compute(
            host,
            DEFAULT={"graceful_shutdown_timeout": 60},
            compute={"max_concurrent_tasks": 20},
            ironic=pools if field == POOLS else {FIELDS[field]: group},
            scheduler={"max_attempts": 5 if field == POOLS else None},
        )
        for host, group in zip(HOSTS, GROUPS, strict=True)
    ]
    for one in made:
        one.start()
    for one in made:
        one.wait_for_text(" is up")
    return made


def new(kind: str) -> records.NewInstance:
    return records.NewInstance(uuid=new_uuid(), flavor=FLAVORS[kind], image=IMAGE)


@pytest.mark.long
def test_a_power_cut_loses_nothing_and_nothing_is_used_twice(
    db, database_conf, server, ironic_clock, services, field, kinds
) -> None:
    # Each of three services offers all of a pool.
    places = len(server.fake.nodes()) * (len(HOSTS) if field == POOLS else 1)
    wait_for("the records of all nodes", lambda: free_places(db) == places)
    asking = Requests(database_conf, db)
    ironic_clock.stop()
    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        asked = list(clients.map(lambda kind: asking.create(new(kind))[0].uuid, kinds))
    dying = services[1]

    def in_the_middle() -> int:
        tasks = {one.uuid for one in db.instances.list(host=dying.host) if one.task_state}
        deploying = {
            node["instance_uuid"]
            for node in server.fake.nodes()
            if node["provision_state"] == "deploying"
        }
        return len(tasks & deploying)

    wait_for(f"{dying.host} to be in the middle of it", lambda: in_the_middle() > 3)
    dying.kill()
    assert in_the_middle(), "it died too late to mean anything"
    ironic_clock.go_on()
    dying.started()
    wait_for(
        "all instances to be built or not",
        lambda: all(one.task_state is None for one in db.instances.list()),
        seconds=180,
    )
    check_whole(db, server, dict(zip(asked, kinds, strict=True)))
    if field == POOLS:
        check_full(db, server, asking)

    for uuid in asked:
        db.instances.request(uuid, TaskState.DELETING)
    wait_for("all to be deleted", lambda: not db.instances.list(), seconds=120)
    wait_for("all nodes to be free", lambda: free_places(db) == places, seconds=120)
    left = [node for node in server.fake.nodes() if node["instance_uuid"] or node["instance_info"]]
    assert left == server.fake.allocations() == []
    assert [node for node in db.compute_nodes.list() if node.instance_uuid] == []
    assert not any(pool.used for pool in db.pools.list())
    for one in services:
        assert "Traceback" not in one.text()


def check_whole(db: Database, server: FakeIronicServer, asked: dict[str, str]) -> None:
    """See that records and Ironic agree about who has what, and that it is of the right kind."""
    instances = {one.uuid: one for one in db.instances.list()}
    assert set(instances) == set(asked)
    states = Counter(one.vm_state for one in instances.values())
    assert set(states) <= {"active", "error"}, states
    assert states["active"] >= INSTANCES - BROKEN, states
    for one in instances.values():
        if one.vm_state == "error":
            assert db.instances.get(one.uuid).fault is not None
    placed = {one.uuid: one.node for one in instances.values() if one.node}
    assert len(set(placed.values())) == len(placed), "a node is used twice"
    carriers = {node["instance_uuid"]: node for node in server.fake.nodes()}
    carriers.pop(None, None)
    assert {uuid: node["uuid"] for uuid, node in carriers.items()} == placed, "leaked, or lost"
    for uuid, node in carriers.items():
        kind = KINDS[asked[uuid]]
        assert (node["resource_class"], node["traits"]) == (
            kind["resource_class"],
            kind.get("traits", []),
        )
    claimed = {
        node.instance_uuid: node.uuid for node in db.compute_nodes.list() if node.instance_uuid
    }
    assert claimed == ({} if server.fake.allocations() else placed)


def check_full(db: Database, server: FakeIronicServer, asking: Requests) -> None:
    """See that pools have all instances, spread over all services, and no place for another."""
    assert {one.vm_state for one in db.instances.list()} == {"active"}
    assert {one.host for one in db.instances.list()} == set(HOSTS)
    assert len(server.fake.allocations()) == INSTANCES
    wait_for("all pools to be seen full", lambda: not free_places(db))
    for kind in KINDS:
        with pytest.raises(NoValidHost):
            asking.create(new(kind))
