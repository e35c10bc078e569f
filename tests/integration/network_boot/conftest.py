# SPDX-License-Identifier: Apache-2.0

"""An Ironic that boots nodes over the network, started once, and who uses it."""

from collections.abc import Iterator

import pytest

from tests.integration.network_boot.boot_files import BootFiles, serve_images
from tests.integration.network_boot.deployments import BootStage
from tools import real_ironic


@pytest.fixture(scope="package")
def boot_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BootFiles]:
    """What Ironic makes of images that a server has."""
    with serve_images(tmp_path_factory.mktemp("images")) as images:
        yield BootFiles(images)


@pytest.fixture(scope="package")
def ironic(ironic_environment, progress, boot_files) -> Iterator[real_ironic.RealIronic]:
    """An Ironic that boots nodes over the network."""
    with real_ironic.RealIronic(
        boot_files.options(),
        environment=ironic_environment,
        progress=progress,
        database=real_ironic.MARIADB,
    ) as ironic:
        yield ironic


@pytest.fixture
def stage(tmp_path, ironic, boot_files) -> Iterator[BootStage]:
    """A compute service, somebody else, and what is booted."""
    stage = BootStage(ironic, tmp_path, boot_files)
    yield stage
    stage.close()
