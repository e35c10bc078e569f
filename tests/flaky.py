# SPDX-License-Identifier: Apache-2.0

"""Runs a test that failed once more, by itself, when all others have ended.

Only with ``--flaky``, as CI does.  If the test passes then, the run passes too, and its last
lines name the test as flaky.  A test that fails again, many tests that fail at once, and a
module that can't be collected fail the run as ever.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

OPTION = "--flaky"
PROGRAM = "IRONIC_VIRT_TEST_PROGRAM"
"""The environment variable with the module that runs pytest, if it isn't pytest's own."""
MOST = 10
"""More failures than this have a cause that is not a single test's."""


def run_by_itself(config: pytest.Config, test: str) -> bool:
    """Whether a test passes in its own process; its output is shown."""
    program = os.environ.get(PROGRAM, "pytest")
    command = [sys.executable, "-m", program, "-n", "0", "-p", "no:cacheprovider"]
    # With the same random numbers: a failure that they cause is not an accident.
    if config.pluginmanager.hasplugin("randomly"):
        command.append(f"--randomly-seed={config.getoption('randomly_seed')}")
    return _passes([*command, test])


def _passes(command: Sequence[str]) -> bool:
    return subprocess.run(command, check=False).returncode == 0


class SecondTry:
    """The part of the process that was started first: it learns of every failure.

    :param run: whether a test passes by itself.
    """

    def __init__(
        self, config: pytest.Config, run: Callable[[pytest.Config, str], bool] = run_by_itself
    ) -> None:
        self._config = config
        self._run = run
        self._failed: dict[str, None] = {}
        self._not_collected = False
        self.flaky: list[str] = []

    @classmethod
    def begin(cls, config: pytest.Config) -> None:
        """Have failures tried again, if that is asked for; of several processes one does it."""
        if config.getoption(OPTION) and not hasattr(config, "workerinput"):
            config.pluginmanager.register(cls(config), "ironic-virt-second-try")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that can't be collected."""
        self._not_collected |= report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure, also one of a fixture."""
        if report.failed:
            self._failed[report.nodeid] = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        """Try the failed tests again, before any other check can fail the run."""
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED or self._not_collected:
            return
        if not 0 < len(self._failed) <= MOST:
            return
        writer = self._config.get_terminal_writer()
        writer.line(f"\n{len(self._failed)} failed; each is run once more by itself")
        writer.flush()
        self.flaky = [test for test in self._failed if self._run(self._config, test)]
        if len(self.flaky) == len(self._failed):
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name what is flaky."""
        for test in self.flaky:
            terminalreporter.write_line(f"flaky: {test}", yellow=True)
