# SPDX-License-Identifier: Apache-2.0

"""What any test may use."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests import flaky, log_watch

# Also where the installed metadata is older than its entry point.
pytest_plugins = ["ironic_virt.testing.pytest_plugin"]

_TABLE = "table"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what CI asks for."""
    parser.addoption(
        flaky.OPTION,
        action="store_true",
        help="run what failed once more, by itself; what passes then is named, and is no failure",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Take three processes for two cores: many a test waits for others to start or to end."""
    cores = len(os.sched_getaffinity(0))
    return cores + cores // 2


def pytest_configure(config: pytest.Config) -> None:
    """Watch the logs, and the failures."""
    config.addinivalue_line("markers", "long: takes seconds, and so begins before the others")
    config.addinivalue_line("markers", "seldom: CI leaves it out, as what it finds is seldom new")
    log_watch.LogWatch.begin(config)
    flaky.SecondTry.begin(config)


# The last one: whoever shuffles tests has done so.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no core is idle at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def progress(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Show the user what takes so long, even while pytest captures output."""
    reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")

    def write(line: str) -> None:
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)

    return write


@pytest.fixture
def show(record_property: Callable[[str, Any], None]) -> Callable[[list[str]], None]:
    """Print lines at the end of the run, which pytest does not capture."""
    return lambda lines: record_property(_TABLE, list(lines))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what tests wanted to show."""
    for report in terminalreporter.getreports("passed"):
        for name, lines in report.user_properties:
            if name == _TABLE:
                terminalreporter.section(report.nodeid, "-")
                for line in lines:
                    terminalreporter.write_line(line)
