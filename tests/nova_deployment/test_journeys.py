# SPDX-License-Identifier: Apache-2.0

"""The journeys of two pages in ``doc/source/nova``, with servers that a reader watches."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from ironic_virt.sharding.ring import Ring
from tests import depth
from tests.nova_deployment.deployment import RESOURCE_CLASS, Deployment
from tests.nova_deployment.fake_ironic import FakeIronicProcess
from tests.nova_deployment.page import Page
from tests.nova_deployment.people import Server
from tests.nova_deployment.processes import wait_for
from tests.nova_deployment.watching import Reader

# As long as all of its waits may take; a quiet machine needs a tenth.
pytestmark = pytest.mark.timeout(7200)

PAGES = [
    Path(__file__).parents[2] / f"doc/source/nova/{name}.rst"
    for name in ("journeys", "journey_pools")
]
NODES = depth.choose(24, nightly=200)
FEW = depth.choose(12, nightly=200)
SERVERS = depth.choose(6, nightly=80)
REFRESH = depth.choose(10, nightly=30)
DEATHS = depth.choose(1, nightly=10)
"""How often each command that changes something is killed."""

RING = [f"compute-{letter}" for letter in "abcdef"]
THREE = RING[:3]


@pytest.fixture
def deployment(request, tmp_path, progress, steps) -> Iterator[Deployment]:
    """Nova with the services of a journey."""
    computes, nodes = request.param
    ironic = FakeIronicProcess(tmp_path, nodes, RESOURCE_CLASS)
    progress(f"Logs are kept in {tmp_path / 'logs'}")
    with Deployment(
        tmp_path, ironic, computes=computes, refresh=REFRESH, steps=steps, progress=progress
    ) as deployment:
        yield deployment


@pytest.fixture
def page(deployment: Deployment, tmp_path: Path, request: pytest.FixtureRequest) -> Page:
    return Page(PAGES, deployment, tmp_path, random.Random(request.node.originalname), DEATHS)


Show = Callable[[list[str]], None]


def told(page: Page, reader: Reader) -> list[str]:
    assert page.killed
    return [f"{page.killed} times killed; looked {reader.looks} times, and all was well"]


def booted(deployment: Deployment, count: int = SERVERS, **more: str) -> list[Server]:
    deployment.user.boot(count, **more)
    servers = deployment.user.wait_for_servers("servers built", lambda server: server.idle)
    assert {server.status for server in servers} == {"ACTIVE"}, servers
    return servers


def rebooted(deployment: Deployment, servers: list[Server]) -> None:
    user = deployment.user
    user.hard_reboot(servers)
    seen = user.wait_for_servers("all servers rebooted", lambda server: server.idle)
    assert {server.status for server in seen} == {"ACTIVE"}, seen
    for server in servers:
        assert set(user.results(server, "reboot")) == {"Success"}


def deleted(deployment: Deployment) -> None:
    deployment.user.delete(deployment.user.servers())
    wait_for("all servers gone", lambda: not deployment.user.servers())
    deployment.wait_for_no_leaks()


def sound(page: Page, but: Collection[str] = ()) -> None:
    """Return when ``check`` finds nothing, but for these: a service may be about to see."""
    rows: list[dict[str, str]] = []

    def look() -> bool:
        rows[:] = page.run("check", code=(0, 2))
        return {row["Code"] for row in rows} == set(but)

    try:
        wait_for("nothing found", look)
    except AssertionError as error:
        error.add_note("\n".join(map(str, rows)))
        raise


def moved(deployment: Deployment, servers: list[Server]) -> list[Server]:
    """Those that have another host now."""
    hosts = {server.uuid: server.host for server in deployment.user.servers()}
    return [server for server in servers if hosts[server.uuid] != server.host]


def shards(deployment: Deployment) -> dict[str, str | None]:
    return {uuid: node["shard"] for uuid, node in deployment.operator.nodes().items()}


def even(hosts: dict[str, str], among: list[str]) -> None:
    """Whether each has as many as the others, within 5 % or a node."""
    counts = Counter(hosts.values())
    assert counts.keys() == set(among)
    mean = len(hosts) / len(among)
    assert all(abs(count - mean) <= max(1, 0.05 * mean) for count in counts.values()), counts


@pytest.mark.nightly
@pytest.mark.parametrize(
    "deployment", [({host: {"peer_list": ",".join(RING)} for host in RING}, NODES)], indirect=True
)
def test_from_a_ring_to_shards(deployment: Deployment, page: Page, show: Show) -> None:
    ring = Ring(RING)
    expected = {uuid: ring.owner(uuid) for uuid in deployment.all_nodes}
    wait_for(
        "the ring settled",
        lambda: (
            {
                uuid: host
                for host, nodes in deployment.user.compute_nodes().items()
                for uuid in nodes
            }
            == expected
        ),
    )
    # So many that some have to leave it.
    largest, size = Counter(expected.values()).most_common(1)[0]
    servers = booted(deployment, size - 2, host=largest)
    with Reader(deployment, {server.uuid for server in servers}) as reader:
        sound(page, {"option-deprecated"})
        page.run("ring-keep", reader=reader)
        assert reader.hosts() == shards(deployment) == expected
        for host in RING:
            page.configure("ring-shard", host)
            page.run("ring-restart", {"compute-a": host})
        sound(page)
        assert reader.hosts() == shards(deployment) == expected
        rebooted(deployment, servers[:1])

        others = [host for host in RING if host != largest][:2]
        names = dict(zip(("compute-c", "compute-d", "compute-e"), (largest, *others), strict=True))
        rows = page.run("ring-balance", names)
        givers = [
            line.split()[4] for line in page.said.splitlines() if ". Stop nova-compute on" in line
        ]
        assert givers == [largest]
        assert {row["Service"] for row in rows if row["Moving In"]} <= set(others)
        page.run("ring-move", names, reader=reader)
        sound(page)
        assert reader.hosts() == shards(deployment)
        assert Counter(reader.hosts().values())[largest] == size - 4
        assert moved(deployment, servers)
    show(told(page, reader))
    rebooted(deployment, servers)
    deleted(deployment)


@pytest.mark.parametrize("deployment", [({"compute-a": {}}, FEW)], indirect=True)
def test_from_one_service_to_three(deployment: Deployment, page: Page, show: Show) -> None:
    servers = booted(deployment)
    with Reader(deployment, {server.uuid for server in servers}) as reader:
        for host in THREE[1:]:
            page.configure("three-shard", host, "compute-b")
            page.run("three-start", {"compute-b": host})
        sound(page)
        page.run("three-keep", reader=reader)
        page.configure("three-shard", "compute-a", "compute-b")
        page.run("three-restart")
        page.run("three-plan", {"--number 8": f"--number {2 * FEW // 3}"})
        page.run("three-move", reader=reader)
        page.run("three-back")
        sound(page)
        assert reader.hosts() == shards(deployment)
        even(reader.hosts(), THREE)
        assert moved(deployment, servers)
    show(told(page, reader))
    rebooted(deployment, servers)
    deleted(deployment)


@pytest.mark.nightly
@pytest.mark.parametrize("deployment", [({"compute-a": {}}, FEW)], indirect=True)
def test_into_pools_and_out_to_the_driver_of_nova(deployment, page, show) -> None:
    nodes = set(deployment.all_nodes)
    servers = booted(deployment, SERVERS // 2)
    with Reader(deployment, {server.uuid for server in servers}) as reader:
        sound(page)
        assert reader.hosts().keys() == nodes
        page.run("pools-enter", reader=reader)
        (pool,) = reader.hosts()
        page.configure("pools-options", "compute-a")
        page.run("pools-start")
        sound(page)
        assert set(reader.hosts()) == {pool}
        rebooted(deployment, servers[:1])
        # What is new comes along.
        servers = booted(deployment, 2)

        page.run("pools-leave", reader=reader)
        page.configure("pools-in-tree", "compute-a")
        page.run("pools-start")
        sound(page)
        assert reader.hosts().keys() == nodes
        assert {(one.host, one.node) for one in deployment.user.servers()} == {
            ("compute-a", uuid)
            for uuid, node in deployment.operator.nodes().items()
            if node["instance_uuid"]
        }
    show(told(page, reader))
    rebooted(deployment, servers)
    deleted(deployment)
    deployment.wait_until_nodes_are_free()
