# SPDX-License-Identifier: Apache-2.0

"""What fails once and passes by itself is named and fails no run; all else still fails it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.log_sink import sitecustomize

ROOT = Path(__file__).parents[2]

_CONFTEST = """
from tests import flaky, log_watch
from tests.log_watch import watched_logs

def pytest_addoption(parser):
    parser.addoption("--flaky", action="store_true")

def pytest_configure(config):
    log_watch.LogWatch.begin(config)
    flaky.SecondTry.begin(config)
"""
_TESTS = {
    "passes": "    pass",
    "fails_once": "    before = path.exists(); path.touch(); assert before",
    "fails": "    assert False",
    "tells_a_secret": "    logging.getLogger('a').debug(log_watch.secret('x'))",
}
_HEAD = """
import logging, pathlib
from tests import log_watch
path = pathlib.Path(__file__).with_name("was-here")
"""


@pytest.mark.parametrize(
    ("tests", "options", "status"),
    [
        (["passes", "fails_once"], ["--flaky", "-n", "2"], 0),
        (["fails_once", "fails"], ["--flaky"], 1),
        (["fails_once", "tells_a_secret"], ["--flaky"], 1),
    ],
    ids=["flaky", "a failure beside", "a secret beside"],
)
def test_a_second_try(tmp_path, tests, options, status) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    bodies = (f"def test_{name}(watched_logs):\n{_TESTS[name]}\n" for name in tests)
    (tmp_path / "test_it.py").write_text(_HEAD + "\n".join(bodies))
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTEST_ADDOPTS": "-p xdist.plugin",
        # Other plugins have nothing to do there, and take longest to import.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    environ.pop(sitecustomize.DIRECTORY)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "test_it.py"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "flaky: test_it.py::test_fails_once" in done.stdout
    assert "flaky: test_it.py::test_fails\n" not in done.stdout
