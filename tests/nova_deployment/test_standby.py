# SPDX-License-Identifier: Apache-2.0

"""What becomes of servers when the active ``nova-compute`` of two is lost, or told to end."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from ironic_virt.exit_codes import ExitCode, FleetExitCode
from ironic_virt.nova import release
from ironic_virt.testing.fault_proxy import FaultProxy, Hang
from tests.backends.servers import Backend, backend
from tests.depth import choose
from tests.nova_deployment.deployment import Deployment
from tests.nova_deployment.people import Server
from tests.nova_deployment.places import ACTIVE, HOST, TTL, WAITING, Place, deployed, told
from tests.nova_deployment.processes import wait_for

pytestmark = pytest.mark.timeout(2400)

BUILDING = 10
FEW = 4
SEEDS = choose(3, 20)
# In order, after Nova's time for that, without the lease, while it was loaded, and killed.
ENDS = (0, 1, ExitCode.LEASE_LOST, 128 + signal.SIGTERM, 128 + signal.SIGKILL)


@pytest.fixture(scope="module", autouse=True)
def _instead(deployment: Deployment) -> Iterator[None]:
    """The places have the host name meanwhile."""
    # Nobody would say afterwards that a node of its is free again.
    deployment.wait_until_nodes_are_free()
    deployment.computes[HOST].stop()
    yield
    deployment.computes[HOST].start()


@pytest.fixture(
    params=["etcd", pytest.param("redis", marks=pytest.mark.nightly)],
)
def leases(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with backend(request.param) as made:
        yield made


@pytest.fixture
def places(deployment: Deployment, leases: Backend) -> Iterator[list[Place]]:
    """The first one serves, the other one waits."""
    ironic = deployment.ironic.url
    with FaultProxy(ironic) as one, FaultProxy(ironic) as other:
        made = []
        try:
            for name, proxy, text in (("first", one, ACTIVE), ("second", other, WAITING)):
                made.append(Place(deployment, name, proxy, leases.url))
                made[-1].wait_for(text)
            yield made
        finally:
            for place in made:
                place.program.kill()


def all_active(deployment: Deployment) -> list[Server]:
    """All servers, when nothing is done to them any more."""
    servers = deployment.user.wait_for_servers("all servers built", lambda one: one.idle)
    assert {server.status for server in servers} == {"ACTIVE"}, servers
    return servers


def boot_slowly(deployment: Deployment, places: list[Place], count: int) -> None:
    """Begin to build servers; return when Ironic was told to deploy to each of their nodes."""
    before = deployed(places).total()
    deployment.user.boot(count, host=HOST)
    wait_for("deployments", lambda: deployed(places).total() == before + count)
    assert any(server.status == "BUILD" for server in deployment.user.servers())


def delete_all(deployment: Deployment) -> None:
    deployment.user.delete(deployment.user.servers())
    wait_for("all servers gone", lambda: not deployment.user.servers())
    deployment.wait_for_no_leaks()
    deployment.wait_until_nodes_are_free()


@pytest.mark.skipif(
    "ComputeDriver.process_instances_at_startup" in {one.name for one in release.lacking()},
    reason="this Nova ends each interrupted build in ERROR",
)
def test_after_a_power_cut_the_standby_finishes_each_build_and_serves(
    deployment: Deployment, places: list[Place]
) -> None:
    (first, second), user = places, deployment.user
    boot_slowly(deployment, places, BUILDING)
    assert not second.ironic.requests, "a standby sends nothing"
    code, words = second.lease()
    assert code == 0, words
    assert "compute-a: a process is active; it renewed its lease" in words
    with deployment.steps.step("from a kill to the first request that is served"):
        first.program.kill()
        user.boot(1, host=HOST)
        began = time.monotonic()
        second.wait_for(ACTIVE)
        # The margin is for a machine that does other things besides.
        assert time.monotonic() - began < TTL + 10
        wait_for("the build", lambda: all(server.host for server in user.servers()))
    servers = all_active(deployment)
    assert deployed(places) == Counter(server.node for server in servers)
    assert len(servers) == BUILDING + 1

    user.hard_reboot(servers[:2])
    user.stop(servers[2:4])
    servers = user.wait_for_servers("reboots and stops", lambda server: server.idle)
    assert Counter(server.status for server in servers) == {"ACTIVE": 9, "SHUTOFF": 2}
    delete_all(deployment)


@pytest.mark.nightly
def test_a_restart_in_order_hands_over_in_mid_build(
    deployment: Deployment, places: list[Place]
) -> None:
    first, second = places
    for active, other in ((first, second), (second, first)):
        boot_slowly(deployment, places, FEW)
        active.program.signal(signal.SIGTERM)
        other.wait_for(ACTIVE)
        assert active.has_said("Gave the lease of compute-a back")
        active.wait_for_exit()
        sent = active.changes()
        active.start()
        active.wait_for(WAITING)
        assert active.changes() == sent
    servers = all_active(deployment)
    assert deployed(places) == Counter(server.node for server in servers)
    # A signal ends the wait, too.
    second.program.signal(signal.SIGTERM)
    assert second.wait_for_exit() == 0
    first.program.signal(signal.SIGTERM)
    first.wait_for_exit()
    code, words = first.lease()
    assert (code, "lease-of-nobody" in words) == (FleetExitCode.FOUND, True), words
    first.start()
    first.wait_for(ACTIVE)
    delete_all(deployment)


@pytest.mark.nightly
def test_who_was_stopped_sends_no_change_when_it_goes_on(
    deployment: Deployment, places: list[Place]
) -> None:
    first, second = places
    boot_slowly(deployment, places, FEW)
    first.program.signal(signal.SIGSTOP)
    sent = first.changes()
    second.wait_for(ACTIVE)
    time.sleep(TTL)
    first.program.signal(signal.SIGCONT)
    assert first.wait_for_exit() == ExitCode.LEASE_LOST
    assert first.changes() == sent
    first.start()
    first.wait_for(WAITING)
    servers = all_active(deployment)
    assert deployed(places) == Counter(server.node for server in servers)
    delete_all(deployment)


@pytest.mark.nightly
@pytest.mark.parametrize("leases", ["etcd"], indirect=True)
def test_who_is_cut_off_from_the_backend_ends_and_the_other_one_serves(
    deployment: Deployment, leases: Backend
) -> None:
    scheme, _, target = leases.url.partition("+")
    ironic = deployment.ironic.url
    with FaultProxy(ironic) as one, FaultProxy(ironic) as other, FaultProxy(target) as cut:
        first = Place(deployment, "cut-off", one, f"{scheme}+{cut.url}")
        places = [first]
        try:
            first.wait_for(ACTIVE)
            places.append(second := Place(deployment, "connected", other, leases.url))
            second.wait_for(WAITING)
            boot_slowly(deployment, places, FEW)
            cut.add(Hang())
            assert first.wait_for_exit() == ExitCode.LEASE_LOST
            sent = first.changes()
            second.wait_for(ACTIVE)
            servers = all_active(deployment)
            assert deployed(places) == Counter(server.node for server in servers)
            assert first.changes() == sent
            delete_all(deployment)
        finally:
            for place in places:
                place.program.kill()


@pytest.mark.nightly
@pytest.mark.parametrize("leases", ["etcd"], indirect=True)
def test_without_the_backend_nobody_is_active_until_it_is_back(
    deployment: Deployment, places: list[Place], leases: Backend
) -> None:
    first, second = places
    boot_slowly(deployment, places, FEW)
    leases.kill()
    assert first.wait_for_exit() == ExitCode.LEASE_LOST
    sent = first.changes()
    first.start()
    for place in places:
        place.wait_for("The backend of the lease can't be used")
    assert (first.changes(), second.changes()) == (sent, 0)
    code, words = second.lease()
    assert (code, "lease-untold" in words) == (FleetExitCode.FOUND, True), words
    leases.start()
    wait_for("an active one", lambda: any(place.has_said(ACTIVE) for place in places))
    servers = all_active(deployment)
    assert deployed(places) == Counter(server.node for server in servers)
    delete_all(deployment)


class History:
    """A seed's boots, deletes and ends of processes, and what came of them.

    :ivar deploying: servers whose deployment Ironic had begun when something was ended.
    """

    def __init__(self, deployment: Deployment, places: list[Place], seed: int) -> None:
        self._deployment = deployment
        self._places = places
        self._draw = random.Random(seed)
        self.deploying: set[str] = set()
        self.deleted: set[str] = set()

    def go_on(self) -> None:
        """One step of it."""
        user, draw = self._deployment.user, self._draw
        # No node is used twice, so that there is one for each.
        user.boot(draw.randint(1, 2), host=HOST)
        time.sleep(draw.uniform(0, 6))
        if draw.random() < 0.5 and (left := self._left()):
            victim = draw.choice(sorted(left, key=lambda one: one.uuid))
            user.delete([victim])
            self.deleted.add(victim.uuid)
        self.deploying |= {
            node["instance_uuid"]
            for node in self._deployment.operator.nodes().values()
            if node["provision_state"] in ("deploying", "active")
        }
        self._supervise()
        draw.choice((self._kill, self._terminate, self._stop))(draw.choice(self._places))
        time.sleep(draw.uniform(0, 6))
        self._supervise()

    def _left(self) -> list[Server]:
        return [one for one in self._deployment.user.servers() if one.uuid not in self.deleted]

    def _kill(self, place: Place) -> None:
        place.program.kill()

    def _terminate(self, place: Place) -> None:
        place.program.signal(signal.SIGTERM)
        place.wait_for_exit()

    def _stop(self, place: Place) -> None:
        place.program.signal(signal.SIGSTOP)
        time.sleep(TTL + self._draw.uniform(0, TTL))
        place.program.signal(signal.SIGCONT)
        if place.has_said(ACTIVE):
            place.wait_for_exit()

    def _supervise(self) -> None:
        """Start again what has ended, as a process manager does."""
        for place in self._places:
            if not place.program.running:
                assert place.program.exit_status in ENDS, place.program.tail()
                place.start()

    def settled(self) -> list[Server]:
        """The servers that were not deleted, when nothing happens to any of them."""
        seen: list[Server] = []
        since = time.monotonic()

        def look() -> bool:
            nonlocal since
            self._supervise()
            now = self._deployment.user.servers()
            if now != seen:
                seen[:], since = now, time.monotonic()
            done = not any(one.uuid in self.deleted for one in now)
            # nova-compute has lost the request with its life: Nova sends it once.
            done = done and all(one.idle or not one.host for one in now)
            return done and time.monotonic() - since > 2 * TTL

        try:
            wait_for("quiet", look)
        except AssertionError as error:
            error.add_note("\n".join(map(str, seen)))
            raise
        return seen


@pytest.mark.nightly
@pytest.mark.parametrize("leases", ["etcd"], indirect=True)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_twice_or_left_whatever_ends_when(
    deployment: Deployment, places: list[Place], seed: int
) -> None:
    history = History(deployment, places, seed)
    for _ in range(6):
        history.go_on()
    servers = history.settled()
    status = {server.uuid: server.status for server in servers}
    assert {status[uuid] for uuid in history.deploying - history.deleted} <= {"ACTIVE"}, servers
    nodes = [node for node in deployment.operator.nodes().values() if node["instance_uuid"]]
    # A build that Nova gave up between reservation and deployment has its node until it is
    # deleted, as below.
    assert {node["instance_uuid"] for node in nodes} <= status.keys(), (nodes, servers)
    deployed_to = {
        node["instance_uuid"] for node in nodes if node["provision_state"] != "available"
    }
    active = {uuid for uuid, one in status.items() if one == "ACTIVE"}
    assert deployed_to == active, (nodes, servers)
    for targets in told(places).values():
        for one, following in itertools.pairwise(targets):
            assert (one, following) != ("active", "active"), targets
    delete_all(deployment)
