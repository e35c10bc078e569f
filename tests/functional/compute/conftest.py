# SPDX-License-Identifier: Apache-2.0

"""Records on each database that was selected (see :mod:`tests.databases`)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from ironic_virt.compute.db import Database
from ironic_virt.conf import database as database_options
from ironic_virt.testing.fake_ironic import Conductor, Durations, FakeIronic, FakeIronicServer
from tests import databases
from tests.clock import StoppableClock
from tests.functional.compute.processes import GOLD, Compute, ComputeProcess, wait_for_nodes
from tests.functional.compute.reused import Reused
from tests.functional.compute.stage import Clock

_BY_DAY_ON_SERVERS = ("test_db_", "test_three_services")
"""What runs on MariaDB and PostgreSQL by day: statements, schema, races, power cuts."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the rest to the night; where SQLite is, all of it runs by day."""
    with_sqlite = databases.SQLITE in databases.selected()
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        kind = getattr(item, "callspec", None) and item.callspec.params.get("database_server")
        by_day = kind is not None and item.path.name.startswith(_BY_DAY_ON_SERVERS)
        if not (by_day or kind == databases.SQLITE or (kind is None and with_sqlite)):
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session", params=databases.selected())
def database_server(request: pytest.FixtureRequest) -> Iterator[databases.Server]:
    """A server of each kind."""
    with databases.server(request.param) as server:
        yield server


@pytest.fixture(scope="session")
def reused(database_server, tmp_path_factory) -> Iterator[Reused]:
    """Its databases that have their tables already."""
    directory = tmp_path_factory.mktemp("tables")

    def make_tables(url: str) -> None:
        db = Database(records_conf(directory, url))
        db.open(make=True)
        db.close()

    reused = Reused(database_server, make_tables, directory)
    yield reused
    reused.close()


@pytest.fixture
def database_url(request, database_server, reused, tmp_path) -> Iterator[str]:
    """The URL of a database in which is nothing, for ``db`` but the tables."""
    made = reused.database if "db" in request.fixturenames else database_server.fresh
    with made(tmp_path) as url:
        yield url


@pytest.fixture
def database_conf(database_url: str, tmp_path: Path) -> cfg.ConfigOpts:
    """Options that name it, as a file has them."""
    return records_conf(tmp_path, database_url)


def records_conf(directory: Path, url: str) -> cfg.ConfigOpts:
    """Options that name records, from a file."""
    path = directory / "records.conf"
    path.write_text(
        f"[DEFAULT]\nstate_path = {directory}\n[database]\nconnection = {url}\n"
        # A test's data need not survive a power cut.
        "sqlite_synchronous = false\n"
    )
    return database_options.load([str(path)])


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> Clock | None:
    """The records' clock: the database's own in the stories of services that are processes."""
    return None if "compute" in request.fixturenames else Clock()


@pytest.fixture
def db(database_conf: cfg.ConfigOpts, clock: Clock | None) -> Iterator[Database]:
    """Records with their tables, and nothing in them."""
    db = Database(database_conf, clock=clock)
    yield db.open()
    db.close()


@pytest.fixture
def durations() -> Durations:
    """How long things take; a test may say otherwise."""
    return Durations(deploy=0.2, undeploy=0.1, clean=0.2)


@pytest.fixture
def ironic_clock() -> StoppableClock:
    """The clock of the fake Ironic."""
    return StoppableClock()


@pytest.fixture
def server(durations: Durations, ironic_clock: StoppableClock) -> Iterator[FakeIronicServer]:
    """A fake Ironic over HTTP, in real time."""
    fake = FakeIronic(
        clock=ironic_clock,
        durations=durations,
        conductors=tuple(Conductor(f"conductor-{group}", group) for group in ("", "one", "two")),
        power_follows_deploy=True,
        wait_states=True,
    )
    with FakeIronicServer(fake) as running:
        yield running


@pytest.fixture
def compute(tmp_path, db, database_url, server) -> Iterator[Compute]:
    """Make compute services on one Ironic and one database; they are killed at the end."""
    made: list[ComputeProcess] = []

    def make(host: str = "compute1", **sections: Any) -> ComputeProcess:
        made.append(ComputeProcess(tmp_path, host, database_url, server.url, **sections))
        return made[-1]

    yield make
    for one in made:
        one.kill()


Serve = Callable[..., tuple[ComputeProcess, list[str]]]


@pytest.fixture
def serve(compute: Compute, db: Database, server: FakeIronicServer) -> Serve:
    """Start a compute service that has new nodes; returns it and them."""

    def serve(
        count: int = 1, *, fields: dict[str, Any] | None = None, **sections: Any
    ) -> tuple[ComputeProcess, list[str]]:
        nodes = server.fake.add_nodes(count, **GOLD, **(fields or {}))
        service = compute(**sections).started()
        wait_for_nodes(db, service.host, nodes)
        return service, nodes

    return serve
