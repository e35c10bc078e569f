# SPDX-License-Identifier: Apache-2.0

"""Real Ironics for the integration tests, each started once for a session, and who uses them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_virt.testing.fault_proxy import FaultProxy
from tests.integration.services import Operator
from tests.integration.stage import Stage
from tools import real_ironic


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
def proxy(ironic: real_ironic.RealIronic) -> Iterator[FaultProxy]:
    """A fault proxy in front of the real Ironic on SQLite."""
    with FaultProxy(ironic.url) as between:
        yield between


@pytest.fixture
def stage(tmp_path: Path, ironic_on_mariadb: real_ironic.RealIronic) -> Iterator[Stage]:
    """A compute service and somebody else, on MariaDB."""
    stage = Stage(ironic_on_mariadb, tmp_path)
    yield stage
    stage.close()


@pytest.fixture
def node(stage: Stage) -> str:
    """A node that is free."""
    return stage.node()


@pytest.fixture
def operator(ironic_on_mariadb: real_ironic.RealIronic) -> Operator:
    """Somebody else."""
    return Operator(ironic_on_mariadb)
