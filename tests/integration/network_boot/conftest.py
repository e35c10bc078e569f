# SPDX-License-Identifier: Apache-2.0

"""An Ironic that boots nodes over the network, started once, and who uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import real_ironic
from tests.integration.network_boot.boot_files import BootFiles, Images, Installer, serve_images
from tests.integration.network_boot.deployments import MakeNode, has_drive
from tests.integration.services import SEEDS, Operator, Service, write_conf


@pytest.fixture(scope="package")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    """Where images are."""
    with serve_images(tmp_path_factory.mktemp("images")) as images:
        yield images


@pytest.fixture(scope="package")
def boot_files(images: Images) -> BootFiles:
    """What Ironic makes of them."""
    return BootFiles(images)


@pytest.fixture(scope="package")
def ironic(
    ironic_environment: real_ironic.IronicEnvironment,
    progress: Any,
    boot_files: BootFiles,
) -> Iterator[real_ironic.RealIronic]:
    """An Ironic that boots nodes over the network."""
    with real_ironic.RealIronic(
        boot_files.options(),
        environment=ironic_environment,
        progress=progress,
        database=real_ironic.MARIADB,
    ) as ironic:
        yield ironic


@pytest.fixture
def operator(ironic: real_ironic.RealIronic) -> Operator:
    """Somebody else."""
    return Operator(ironic)


@pytest.fixture
def service(tmp_path: Path, ironic: real_ironic.RealIronic) -> Iterator[Service]:
    """A compute service; its instances have no config drive."""
    running = Service(write_conf(tmp_path, ironic))
    has_drive(running, None)
    yield running
    running.driver.cleanup_host()


@pytest.fixture
def installer(ironic: real_ironic.RealIronic, boot_files: BootFiles) -> Installer:
    """Anaconda."""
    return Installer(ironic, boot_files)


@pytest.fixture
def make_node(ironic: real_ironic.RealIronic) -> MakeNode:
    """Make free nodes."""

    def make(
        deploy_interface: str,
        boot_interface: str = "ipxe",
        shard: str | None = None,
        resource_class: str = "baremetal",
        **fields: Any,
    ) -> str:
        seed = next(SEEDS)
        # The fake management interface knows no disk to boot from.
        told = {
            "deploy_interface": deploy_interface,
            "boot_interface": boot_interface,
            "management_interface": "noop",
            **fields,
        }
        template = real_ironic.NodeTemplate(
            fields=told, shard=shard, resource_class=resource_class
        )
        [node] = real_ironic.create_nodes(ironic, 1, template, name=f"boot-{seed}-{{}}", seed=seed)
        return node

    return make
