# SPDX-License-Identifier: Apache-2.0

"""A whole Nova in processes of its own, as ``make nova-deployment`` runs it.

Collected only in an environment into which ``ironic-virt`` was installed from a wheel,
beside Nova's programs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.nova_deployment import figures
from tests.nova_deployment.deployment import Deployment, over_real_ironic
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
def progress(pytestconfig):
    """Shows the user what takes so long, whatever pytest captures."""
    reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")

    def write(line: str) -> None:
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)

    return write


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
