# SPDX-License-Identifier: Apache-2.0

"""Two processes of one host name: one serves, one waits, and a lease says which."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_virt.compute.db import Database
from ironic_virt.testing.fake_ironic import FakeIronicServer
from ironic_virt.testing.fault_proxy import FaultProxy, Status
from tests.backends.servers import Backend, backend
from tests.functional.compute.processes import (
    ComputeProcess,
    create,
    wait_for,
    wait_for_nodes,
    wait_until,
)

TTL = 10
ACTIVE, WAITING = "is active", "Standby: waiting"


class Place:
    """Where a process of the host runs, which Ironic sees apart from the other place.

    :ivar ironic: the way from there to Ironic.
    """

    def __init__(
        self, directory: Path, database_url: str, ironic: FaultProxy, backend: Backend
    ) -> None:
        directory.mkdir()
        self.ironic = ironic
        self.process = ComputeProcess(
            *(directory, "compute1", database_url, ironic.url),
            ironic={"standby_backend_url": backend.url, "standby_ttl": TTL},
        )

    def changes(self) -> int:
        """How many changes have been sent from here."""
        return sum(request.method != "GET" for request in self.ironic.requests)

    def wait_for(self, text: str) -> None:
        """Return when it says that it is active, or that it waits."""
        self.process.wait_for_text(text)


@pytest.fixture
def redis() -> Iterator[Backend]:
    with backend("redis") as made:
        yield made


@pytest.fixture
def places(tmp_path, database_url, db, server, redis) -> Iterator[list[Place]]:
    """Two of them: the first one serves, the other one waits."""
    with FaultProxy(server.url) as one, FaultProxy(server.url) as other:
        made = [
            Place(tmp_path / name, database_url, proxy, redis)
            for name, proxy in (("a", one), ("b", other))
        ]
        for place, text in zip(made, (ACTIVE, WAITING), strict=True):
            place.process.start()
            place.wait_for(text)
        made[0].process.wait_for_text(" is up")
        yield made
        for place in made:
            place.process.kill()


@pytest.fixture
def node(db: Database, server: FakeIronicServer, places: list[Place]) -> str:
    nodes: list[str] = server.fake.add_nodes(1, resource_class="gold", ports=1)
    wait_for_nodes(db, "compute1", nodes)
    return nodes[0]


def test_a_stopped_process_sends_nothing_and_is_a_standby_again(db, places, node) -> None:
    first, second = places
    refused = first.ironic.add(Status(503), "PATCH|POST|PUT|DELETE")
    uuid = create(db, node)
    wait_for("a change", lambda: refused.hits)
    first.process.signal(signal.SIGSTOP)
    sent = first.changes()
    second.wait_for(ACTIVE)
    wait_until(db, uuid, "active")
    first.process.signal(signal.SIGCONT)
    assert first.process.wait() == 4
    assert first.changes() == sent
    # It may look at the clock first, or at the backend.
    assert "[lease-lost]" in first.process.text()
    first.process.start()
    first.process.wait_for_text(WAITING)
    assert second.process.running


def test_who_is_told_to_end_hands_over(db: Database, places: list[Place], node: str) -> None:
    first, second = places
    first.process.signal(signal.SIGTERM)
    assert first.process.wait() == 0
    second.process.wait_for_text(" is up")
    first.process.start()
    first.process.wait_for_text(WAITING)
    # A signal ends the wait, too.
    first.process.signal(signal.SIGTERM)
    assert first.process.wait() == 0
    wait_until(db, create(db, node), "active")


def test_without_the_backend_nobody_is_active(places: list[Place], redis: Backend) -> None:
    first, second = places
    redis.kill()
    assert first.process.wait() == 4
    assert first.changes() == 0
    second.process.wait_for_text("The backend of the lease can't be used")
    assert second.process.text().count(ACTIVE) == 0
