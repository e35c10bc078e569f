# SPDX-License-Identifier: Apache-2.0

"""The search of the logs for secrets can fail."""

import base64
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import depth, log_watch
from tests.log_sink import sitecustomize

ROOT = Path(__file__).parents[2]

_TEST = """
import base64, gzip, logging, subprocess, sys
from tests import log_watch
from tests.log_watch import watched_logs

def test_it(watched_logs):
    told = {told}
    script = f"import logging; logging.getLogger('a').debug({{told!r}})"
    if {elsewhere}:
        subprocess.run([sys.executable, "-c", script], check=True)
    else:
        logging.getLogger("a").debug(told)
"""
_CONFTEST = """
from tests import log_watch

def pytest_configure(config):
    log_watch.LogWatch.begin(config)
"""
IN_BASE64 = "base64.b64encode(b'ab' + log_watch.secret('x').encode()).decode()"
PACKED = "base64.b64encode(gzip.compress(log_watch.secret('x').encode())).decode()"


TOLD = {
    "nothing": ("'nothing'", 0),
    "secret": ("log_watch.secret('x')", 1),
    "base64": (IN_BASE64, 1),
    "gzipped": (PACKED, 1),
}
ALL = list(itertools.product(TOLD, ("here", "elsewhere"), ("alone", "xdist")))
# Each value of each of the three, and each form of a secret where it is hardest to find.
FEW = [
    ("nothing", "here", "xdist"),
    ("secret", "here", "alone"),
    *((form, "elsewhere", "xdist") for form in ("secret", "base64", "gzipped")),
]


@pytest.mark.parametrize(("form", "where", "how"), depth.choose(FEW, ALL))
def test_a_secret_in_a_log_fails_the_run(tmp_path: Path, form: str, where: str, how: str) -> None:
    told, status = TOLD[form]
    elsewhere = where == "elsewhere"
    workers = ("-p", "xdist.plugin", "-n", "1") if how == "xdist" else ()
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_it.py").write_text(_TEST.format(told=told, elsewhere=elsewhere))
    # Other plugins have nothing to do there, and take longest to import.
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environ.pop(sitecustomize.DIRECTORY)
    done = subprocess.run(
        [*(sys.executable, "-m", "pytest", "-q", *workers, "-p", "no:cacheprovider"), tmp_path],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert f"{status} lines with a secret in them" in done.stdout


@pytest.mark.parametrize("before", range(6))
def test_the_mark_is_found_in_base64_wherever_it_begins(before: int) -> None:
    encoded = base64.b64encode(b"y" * before + log_watch.MARK.encode() + b"z").decode()
    assert any(form in encoded for form in log_watch.forms())
