# SPDX-License-Identifier: Apache-2.0

"""Three services on one database, dozens of instances, and a power cut in the middle."""

import concurrent.futures
from collections import Counter
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from ironic_virt.compute.api import Requests
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic import Conductor, Durations, FakeIronic, FakeIronicServer
from tests import depth
from tests.clock import StoppableClock
from tests.functional.compute.processes import (
    FLAVOR,
    IMAGE,
    Compute,
    ComputeProcess,
    new_uuid,
    wait_for,
)

HOSTS = ("compute1", "compute2", "compute3")
# A field of a node that assigns it to a service, and the service's option for it.
FIELDS = {"shard": "shard_key", "conductor_group": "conductor_group"}
GROUPS = ("one", "two", "three")
INSTANCES = depth.choose(24, 60)
SPARE = 6
BROKEN = depth.choose(4, 8)


@pytest.fixture(params=FIELDS)
def field(request: pytest.FixtureRequest) -> str:
    """What says whose a node is."""
    return str(request.param)


@pytest.fixture
def server(ironic_clock: StoppableClock, field: str) -> Iterator[FakeIronicServer]:
    """A fake Ironic over HTTP, some of whose nodes fail to deploy."""
    fake = FakeIronic(
        clock=ironic_clock,
        conductors=tuple(Conductor(f"conductor-{group}", group) for group in ("", *GROUPS)),
        durations=Durations(deploy=depth.choose((0.3, 1.0), (1.0, 4.0)), undeploy=0.2, clean=0.5),
        power_follows_deploy=True,
    )
    for number in range(INSTANCES + SPARE):
        whose = {field: GROUPS[number % len(GROUPS)]}
        fake.add_node(**whose, resource_class="gold", ports=1)
    for node in fake.nodes()[:BROKEN]:
        fake.fail_next("deploy", "disk broken", node["uuid"])
    with FakeIronicServer(fake, threads=48) as running:
        yield running


@pytest.fixture
def services(compute: Compute, field: str) -> list[ComputeProcess]:
    """Three services, one for each shard or conductor group."""
    made = [
        compute(
            host,
            DEFAULT={"graceful_shutdown_timeout": 60},
            compute={"max_concurrent_tasks": 20},
            ironic={FIELDS[field]: group},
        )
        for host, group in zip(HOSTS, GROUPS, strict=True)
    ]
    for one in made:
        one.start()
    for one in made:
        one.wait_for_text(" is up")
    return made


def create(db: Database, conf: cfg.ConfigOpts) -> str:
    """Request an instance on any node that the scheduler finds.

    :returns: its uuid.
    """
    new = records.NewInstance(uuid=new_uuid(), flavor=FLAVOR, image=IMAGE)
    (request,) = Requests(conf, db).create(new)
    return request.instance.uuid


@pytest.mark.long
def test_a_power_cut_loses_nothing_and_nothing_is_used_twice(
    db, database_conf, server, ironic_clock, services, field
) -> None:
    nodes = INSTANCES + SPARE
    wait_for(
        "the records of all nodes",
        lambda: sum(len(db.compute_nodes.uuids(host)) for host in HOSTS) == nodes,
    )
    ironic_clock.stop()
    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        wanted = list(clients.map(lambda _: create(db, database_conf), range(INSTANCES)))
    dying = services[1]
    wait_for(
        f"{dying.host} to be in the middle of it",
        lambda: (
            sum(
                node["provision_state"] == "deploying" and node[field] == GROUPS[1]
                for node in server.fake.nodes()
            )
            > 3
        ),
    )
    dying.kill()
    in_the_middle = [one for one in db.instances.list(host=dying.host) if one.task_state]
    assert in_the_middle, "it died too late to mean anything"
    ironic_clock.go_on()
    dying.started()
    wait_for(
        "all instances to be built or not",
        lambda: all(one.task_state is None for one in db.instances.list()),
        seconds=120,
    )
    check_whole(db, server, wanted)

    for uuid in wanted:
        db.instances.request(uuid, TaskState.DELETING)
    wait_for("all to be deleted", lambda: not db.instances.list(), seconds=120)
    wait_for(
        "all nodes to be free",
        lambda: sum(node.available for node in db.compute_nodes.list()) == nodes,
    )
    left = [node for node in server.fake.nodes() if node["instance_uuid"] or node["instance_info"]]
    assert left == []
    assert [node for node in db.compute_nodes.list() if node.instance_uuid] == []
    for one in services:
        assert "Traceback" not in one.text()


def check_whole(db: Database, server: FakeIronicServer, wanted: list[str]) -> None:
    """See that records and Ironic agree about who has what."""
    instances = {one.uuid: one for one in db.instances.list()}
    assert set(instances) == set(wanted)
    states = Counter(one.vm_state for one in instances.values())
    assert set(states) <= {"active", "error"}, states
    assert states["active"] >= INSTANCES - BROKEN, states
    for one in instances.values():
        if one.vm_state == "error":
            assert db.instances.get(one.uuid).fault is not None
    placed = {one.uuid: one.node for one in instances.values() if one.node}
    assert len(set(placed.values())) == len(placed), "a node is used twice"
    carried = {
        node["instance_uuid"]: node["uuid"]
        for node in server.fake.nodes()
        if node["instance_uuid"]
    }
    assert carried == placed, "a node is leaked, or lost"
    claimed = {
        node.instance_uuid: node.uuid for node in db.compute_nodes.list() if node.instance_uuid
    }
    assert claimed == placed
