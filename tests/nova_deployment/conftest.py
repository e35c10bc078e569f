# SPDX-License-Identifier: Apache-2.0

"""A whole Nova in its own processes, as ``make nova-deployment`` runs it.

Collected only in an environment into which ``ironic-virt`` was installed from a wheel,
next to Nova's programs.
"""

import contextlib
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ironic_virt.testing.fault_proxy import FaultProxy
from tests.backends.servers import Backend, backend
from tests.nova_deployment import figures
from tests.nova_deployment.deployment import Deployment, over_real_ironic
from tests.nova_deployment.places import ACTIVE, HOST, WAITING, Begin, Place
from tools import real_ironic

NODES = 12
"""In each shard."""

_STEPS = figures.Steps()


def _is_the_environment() -> bool:
    try:
        place = Path(str(metadata.distribution("ironic-virt").locate_file("ironic_virt")))
    except metadata.PackageNotFoundError:
        return False
    programs = Path(sys.prefix) / "bin"
    return place.is_relative_to(sys.prefix) and (programs / "nova-compute").exists()


if not _is_the_environment():
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def deployment(tmp_path_factory, progress) -> Iterator[Deployment]:
    """Nova with two computes over an Ironic that takes 10 s for a deployment, 4 s for a reboot."""
    # Its fake hardware is asked twice.
    options = real_ironic.Options(delays={"deploy": "5", "power": "2"})
    directory = tmp_path_factory.mktemp("nova")
    progress(f"Logs are kept in {directory / 'logs'}")
    with over_real_ironic(
        directory, options, nodes=NODES, steps=_STEPS, progress=progress
    ) as deployment:
        yield deployment


@pytest.fixture
def steps() -> figures.Steps:
    """What measures the steps of any deployment."""
    return _STEPS


@pytest.fixture(autouse=True)
def nothing_before(deployment: Deployment) -> None:
    """Each test begins with all nodes free."""
    deployment.wait_until_nodes_are_free()


@pytest.fixture(scope="module")
def free_host(deployment: Deployment) -> Iterator[None]:
    """No other ``nova-compute`` has the host name of places meanwhile."""
    # Nobody would say afterwards that a node of its is free again.
    deployment.wait_until_nodes_are_free()
    deployment.computes[HOST].stop()
    yield
    deployment.computes[HOST].start()


@pytest.fixture
def leases(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with backend(getattr(request, "param", "etcd")) as made:
        yield made


@pytest.fixture
def begin(deployment: Deployment, leases: Backend) -> Iterator[Begin]:
    """Starts a place, and returns when it says what it should."""
    with contextlib.ExitStack() as stack:

        def start(name: str, text: str, url: str | None = leases.url, **how: Any) -> Place:
            proxy = stack.enter_context(FaultProxy(deployment.ironic.url))
            place = Place(deployment, name, proxy, url, **how)
            stack.callback(place.program.kill)
            place.wait_for(text)
            return place

        yield start


@pytest.fixture
def places(begin: Begin) -> list[Place]:
    """The first one serves, the other one waits."""
    return [begin("first", ACTIVE), begin("second", WAITING)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show what the programs have to say when a test fails."""
    report = yield
    if report.failed and (deployment := item.funcargs.get("deployment")):
        for name, trouble in deployment.trouble().items():
            report.sections.append((f"log of {name}", trouble))
    return report


def pytest_terminal_summary(terminalreporter) -> None:
    """Print what the steps took."""
    for line in _STEPS.table():
        terminalreporter.write_line(line)
