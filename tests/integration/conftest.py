# SPDX-License-Identifier: Apache-2.0

"""Real Ironics for the integration tests, each started once for a session, and who uses them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import real_ironic
from tests.integration.services import Operator, Service, write_conf


@pytest.fixture(scope="session")
def progress(pytestconfig):
    """Shows the user what takes so long, whatever pytest captures."""
    reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")

    def write(line: str) -> None:
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)

    return write


@pytest.fixture(scope="session")
def ironic_environment(progress) -> real_ironic.IronicEnvironment:
    """The virtualenv with Ironic in it."""
    return real_ironic.ensure_environment(progress=progress)


@pytest.fixture(scope="session")
def ironic(ironic_environment, progress) -> Iterator[real_ironic.RealIronic]:
    """A real Ironic on SQLite: for one request at a time."""
    with real_ironic.RealIronic(environment=ironic_environment, progress=progress) as ironic:
        yield ironic


@pytest.fixture(scope="session")
def ironic_on_mariadb(ironic_environment, progress) -> Iterator[real_ironic.RealIronic]:
    """A real Ironic on MariaDB: for any number of requests at once."""
    with real_ironic.RealIronic(
        environment=ironic_environment, progress=progress, database=real_ironic.MARIADB
    ) as ironic:
        yield ironic


@pytest.fixture
def operator(ironic_on_mariadb: real_ironic.RealIronic) -> Operator:
    """Somebody else."""
    return Operator(ironic_on_mariadb)


@pytest.fixture
def config(tmp_path: Path, ironic_on_mariadb: real_ironic.RealIronic) -> Path:
    """The operator's file."""
    return write_conf(tmp_path, ironic_on_mariadb)


@pytest.fixture
def service(config: Path) -> Iterator[Service]:
    """A compute service."""
    running = Service(config)
    yield running
    running.driver.cleanup_host()
