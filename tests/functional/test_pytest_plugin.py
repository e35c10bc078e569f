# SPDX-License-Identifier: Apache-2.0

"""The pytest plugin, as a project uses it that knows only its fixtures."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.functional.typed import ROOT

PROJECT = ROOT / "doc" / "source" / "examples" / "pytest_project"
PLUGIN = "ironic_virt.testing.pytest_plugin"


def run(directory: Path, *argv: str) -> str:
    """What a Python prints that runs in a directory and finds this checkout's package."""
    done = subprocess.run(
        [sys.executable, *argv],
        cwd=directory,
        # Without the variables of this run of pytest, which would change the inner one.
        env={name: value for name, value in os.environ.items() if "PYTEST" not in name}
        | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_example_project_passes_its_tests(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__"))
    # Its entry point loads it, too, where the installed metadata is this checkout's.
    said = run(project, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider")
    assert "4 passed" in said
    assert "warning" not in said


def test_it_costs_a_run_without_its_fixtures_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, pytest; before = set(sys.modules)\n"
        f"import {PLUGIN}\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    assert run(tmp_path, "-c", code).split() == ["ironic_virt", "ironic_virt.testing", PLUGIN]
