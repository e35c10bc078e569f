# SPDX-License-Identifier: Apache-2.0

"""Real Ironics for the integration tests; each is started once for a session."""

from collections.abc import Iterator

import pytest

from ironic_virt.testing import real_ironic


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
