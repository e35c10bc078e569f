# SPDX-License-Identifier: Apache-2.0

"""Records on each database that was selected (see :mod:`tests.databases`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

from ironic_virt.compute.db import Database
from ironic_virt.conf import database as database_options
from tests import databases
from tests.functional.compute.stage import Clock


@pytest.fixture(scope="session", params=databases.selected())
def database_server(request: pytest.FixtureRequest) -> Iterator[databases.Server]:
    """A server of each kind."""
    with databases.server(request.param) as server:
        yield server


@pytest.fixture
def database_url(database_server: databases.Server, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    with database_server.fresh(tmp_path) as url:
        yield url


@pytest.fixture
def database_conf(database_url: str, tmp_path: Path) -> cfg.ConfigOpts:
    """Options that name it, as a file has them."""
    path = tmp_path / "records.conf"
    path.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {database_url}\n"
        # A test's data need not survive a power cut.
        "sqlite_synchronous = false\n"
    )
    return database_options.load([str(path)])


@pytest.fixture
def clock() -> Clock:
    """The records' clock."""
    return Clock()


@pytest.fixture
def db(database_conf: cfg.ConfigOpts, clock: Clock) -> Iterator[Database]:
    """Records with their tables, and nothing in them."""
    db = Database(database_conf, patient=False, clock=clock)
    db.sync()
    yield db.open()
    db.close()
