# SPDX-License-Identifier: Apache-2.0

"""Nova in this process, as ``make nova`` runs it; without Nova nothing is collected.

Nova's test support patches threads unless a variable is set before its first import.
"""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nova import figures
from tools import real_ironic

_LONGEST = 1200
"""Seconds for one test; ten servers take less than one minute where nothing else runs.

More than the longest wait: what that has seen says more than where the threads are."""

_FIGURES = "figures"

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")

if importlib.util.find_spec("placement") is None:
    collect_ignore_glob = ["test_*.py", "upstream/test_*.py"]
else:
    from nova import monkey_patch

    # Nova refuses native threads if anything has imported eventlet before this.  Up to 2025.1
    # it has eventlet only, and has patched by now.
    if hasattr(monkey_patch, "patch"):
        monkey_patch.patch()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have a test that hangs end the run, and leave Nova's own driver out of CI.

    Threads that wait for each other would keep the test's own cleanup waiting as well.

    Nova's own driver changes with Nova's release only.  Where a test compares what both take,
    it runs by day and with each release.
    """
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.timeout(_LONGEST, method="thread"))
        driver = getattr(getattr(item, "cls", None), "driver", None)
        if driver == figures.IN_TREE:
            compared = item.path.stem == "test_life"
            item.add_marker(pytest.mark.seldom if compared else pytest.mark.nightly)


@pytest.fixture(scope="session")
def ironic(progress) -> Iterator[real_ironic.RealIronic]:
    """A real Ironic that deploys at once and cleans."""
    with real_ironic.RealIronic(database=real_ironic.MARIADB, progress=progress) as ironic:
        yield ironic


@pytest.fixture(scope="session")
def slow_ironic(progress) -> Iterator[real_ironic.RealIronic]:
    """A real Ironic that takes 20 s for a deployment: its hardware is asked twice."""
    options = real_ironic.Options(delays={"deploy": "10"})
    with real_ironic.RealIronic(
        options, database=real_ironic.MARIADB, progress=progress
    ) as ironic:
        yield ironic


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand over the figures of a process of pytest-xdist."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_FIGURES] = figures.packed()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take them; a process that has crashed has none."""
    figures.unpack(getattr(node, "workeroutput", {}).get(_FIGURES, ()))
