# SPDX-License-Identifier: Apache-2.0

"""Two ``nova-compute`` of one host name; at random, one or the other ends or hangs."""

import itertools
import random
import signal
import time

import pytest

from ironic_virt.exit_codes import ExitCode
from tests.depth import choose
from tests.nova_deployment.deployment import Deployment
from tests.nova_deployment.people import Server
from tests.nova_deployment.places import (
    ACTIVE,
    HOST,
    TTL,
    WAITING,
    Place,
    boot_slowly,
    delete_all,
    told,
)
from tests.nova_deployment.processes import wait_for

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.usefixtures("free_host"),
    pytest.mark.timeout(7200),
]

ASKED_MEANWHILE = 3
SEEDS = choose(3, 20)
# In order, after Nova's time for that, without the lease, while it was loaded, and killed.
ENDS = (0, 1, ExitCode.LEASE_LOST, 128 + signal.SIGTERM, 128 + signal.SIGKILL)


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
        # No node is used twice, so there are enough.
        user.boot(draw.randint(1, 2), host=HOST)
        time.sleep(draw.uniform(0, 6))
        self._perhaps_delete()
        self.deploying |= {
            node["instance_uuid"]
            for node in self._deployment.operator.nodes().values()
            if node["provision_state"] in ("deploying", "active")
        }
        self._supervise()
        draw.choice((lambda place: place.program.kill(), self._terminate, self._stop))(
            draw.choice(self._places)
        )
        time.sleep(draw.uniform(0, 6))
        self._supervise()

    def hang(self) -> list[Server]:
        """The active process is stopped and goes on; users ask before, meanwhile and after."""
        user, draw = self._deployment.user, self._draw
        (active,) = (place for place in self._places if place.has_said(ACTIVE))
        (other,) = (place for place in self._places if place is not active)
        other.wait_for(WAITING)
        # A build whose deployment has not been requested would end in ERROR, as by any crash.
        boot_slowly(self._deployment, self._places, 1)
        self._perhaps_delete()
        time.sleep(draw.uniform(0, 6))
        active.program.signal(signal.SIGSTOP)
        for _ in range(ASKED_MEANWHILE):
            self._ask()
            time.sleep(draw.uniform(TTL / 3, TTL))
        sent = active.changes()
        active.program.signal(signal.SIGCONT)
        self._ask()
        assert active.wait_for_exit() == ExitCode.LEASE_LOST
        assert active.changes() == sent
        other.wait_for(ACTIVE)
        self._supervise()

        # Nova's start has given up each build whose request waited; it is done all the same.
        return user.wait_for_servers(
            "all servers active",
            lambda server: server.status == "ACTIVE" and server.uuid not in self.deleted,
        )

    def _ask(self) -> None:
        """A server is built, and perhaps another one is deleted."""
        self._deployment.user.boot(1, host=HOST)
        self._perhaps_delete()

    def _perhaps_delete(self) -> None:
        user = self._deployment.user
        servers = [one for one in user.servers() if one.uuid not in self.deleted]
        if self._draw.random() < 0.5 and servers:
            victim = self._draw.choice(sorted(servers, key=lambda one: one.uuid))
            user.delete([victim])
            self.deleted.add(victim.uuid)

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


def test_who_goes_on_after_a_hang_changes_and_loses_nothing(
    deployment: Deployment, places: list[Place]
) -> None:
    for seed in range(SEEDS):
        history = History(deployment, places, seed)
        with deployment.steps.step(f"seed {seed} of hangs"):
            servers = history.hang()
        assert len(servers) == ASKED_MEANWHILE + 2 - len(history.deleted), (seed, servers)
        delete_all(deployment)
