# SPDX-License-Identifier: Apache-2.0

"""A secret in a log fails a run; what fails once and passes by itself is named and does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import depth
from tests.log_sink import sitecustomize

_CONFTEST = """
from tests import flaky, log_watch
from tests.log_watch import watched_logs

def pytest_addoption(parser):
    parser.addoption("--flaky", action="store_true")

def pytest_configure(config):
    log_watch.LogWatch.begin(config)
    flaky.SecondTry.begin(config)
"""
_HEAD = """
import base64, gzip, logging, pathlib, subprocess, sys
from tests import log_watch
path = pathlib.Path(__file__).with_name("was-here")

def here(text):
    logging.getLogger("a").debug(text)

def elsewhere(text):
    script = f"import logging; logging.getLogger('a').debug({text!r})"
    subprocess.run([sys.executable, "-c", script], check=True)
"""
SECRET = "log_watch.secret('x')"
IN_BASE64 = f"base64.b64encode(b'{{}}' + {SECRET}.encode() + b'z').decode()"
PACKED = f"base64.b64encode(gzip.compress({SECRET}.encode())).decode()"
FORMS = [SECRET, *(IN_BASE64.format("y" * before) for before in range(3)), PACKED]


def run(directory: Path, tests: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run tests by their names, as our own are run."""
    (directory / "conftest.py").write_text(_CONFTEST)
    bodies = (f"def test_{name}(watched_logs):\n    {body}\n" for name, body in tests.items())
    (directory / "test_it.py").write_text(_HEAD + "\n".join(bodies))
    # Other plugins have nothing to do there, and take longest to import.
    environ = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PYTEST_ADDOPTS": "-p xdist.plugin",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    environ.pop(sitecustomize.DIRECTORY)
    command = [sys.executable, "-m", "pytest", "-q", *options, "test_it.py"]
    return subprocess.run(
        command, cwd=directory, env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("how", [("-n", "1"), *depth.choose([], [()])])
def test_each_secret_in_a_log_fails_the_run(tmp_path: Path, how: tuple[str]) -> None:
    told = [f"{where}({form})" for form in FORMS for where in ("here", "elsewhere")]
    done = run(tmp_path, {f"{number}": line for number, line in enumerate(told)}, *how)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{len(told)} passed" in done.stdout
    assert f"{len(told)} lines with a secret in them" in done.stdout


FLAKY = {
    "passes": "here('nothing')",
    "fails_once": "before = path.exists(); path.touch(); assert before",
}


@pytest.mark.parametrize(
    ("another", "status"),
    [({}, 0), ({"fails": "assert False"}, 1), ({"tells": f"here({SECRET})"}, 1)],
    ids=["flaky", "a failure beside", "a secret beside"],
)
def test_a_second_try(tmp_path: Path, another: dict[str, str], status: int) -> None:
    done = run(tmp_path, FLAKY | another, "--flaky", "-n", "2")
    assert done.returncode == status, done.stdout + done.stderr
    assert "flaky: test_it.py::test_fails_once" in done.stdout
    assert "flaky: test_it.py::test_fails\n" not in done.stdout
