# SPDX-License-Identifier: Apache-2.0

"""Virtualenvs with a release of Nova and Placement, and with its Ironic.

Each is kept, under a name that tells what it holds, until that changes.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.releases.catalogue import Release, pin

# The test runner is not part of a release: the release's upper constraints don't apply to it.
_UNCONSTRAINED = ("execnet", "iniconfig", "pluggy", "pytest")
_TEST_TOOLS = [
    "ddt",
    "fixtures",
    "gabbi",
    "hypothesis",
    "oslotest",
    "psutil",
    "PyMySQL",
    "pytest-timeout",
    "pytest-xdist",
    "requests-mock",
    "testresources",
    "testscenarios",
    "testtools",
    "wsgi-intercept",
]
"""What Nova's functional fixtures and our scenarios need."""


class Broken(Exception):
    """A step failed; the text is what it said."""


def run(command: Sequence[str], **how: object) -> str:
    """Run a program and return what it printed.

    :raises Broken: it failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    if done.returncode:
        raise Broken(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class Environments:
    """The environments of a release.

    :param root: where all of them are.
    :param wheel: ours.
    """

    def __init__(self, root: Path, release: Release, wheel: Path) -> None:
        self._root = root
        self._release = release
        self._wheel = wheel
        self._interpreter = interpreter(release.python)

    def nova(self) -> Path:
        """The one with Nova, Placement and our wheel, which is installed in it each time.

        First as an operator does it, under all upper constraints of the release, then with what
        the tests need.

        :raises Broken: the wheel and the release can't be installed together.
        """
        packages = self._nova_packages()
        constraints = self._constraints(())
        directory = self._made("nova", [*packages, *_TEST_TOOLS])
        marker = directory / "complete"
        if not marker.exists():
            self._install(directory, constraints, *packages)
            self._install(directory, constraints, str(self._wheel))
            run([self._uv(), "pip", "check", "--python", str(directory)])
        tools = self._constraints(_UNCONSTRAINED)
        # Another wheel may have the same version.
        self._install(directory, tools, "--reinstall", "--no-deps", str(self._wheel))
        self._install(directory, tools, f"{self._wheel}[hashring,standby,testing]", *_TEST_TOOLS)
        run([self._uv(), "pip", "check", "--python", str(directory)])
        marker.touch()
        return directory

    def found_nova(self) -> Path | None:
        """The finished one with Nova and any of our wheels; None: it has to be made."""
        directory = self._directory("nova", [*self._nova_packages(), *_TEST_TOOLS])
        return directory if (directory / "complete").exists() else None

    def _nova_packages(self) -> list[str]:
        release = self._release
        placement = pin("openstack-placement", release.placement)
        return [pin("nova", release.nova), placement, *release.packages]

    def ironic(self) -> Path:
        packages = [pin("ironic", self._release.ironic), "PyMySQL", *self._release.packages]
        directory = self._made("ironic", packages)
        marker = directory / "complete"
        if not marker.exists():
            self._install(directory, self._constraints(()), *packages)
            marker.touch()
        return directory

    def _made(self, kind: str, packages: Sequence[str]) -> Path:
        """An environment that may hold nothing yet."""
        directory = self._directory(kind, packages)
        if self._release.is_newest or not (directory / "complete").exists():
            shutil.rmtree(directory, ignore_errors=True)
            run([self._uv(), "venv", "-q", "--python", self._interpreter, str(directory)])
        return directory

    def _directory(self, kind: str, packages: Sequence[str]) -> Path:
        file = self._release.constraints_file
        parts = [*packages, self._interpreter, file.read_text() if file else ""]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
        return self._root / f"{self._release.name}-{kind}-{digest}"

    def _install(self, directory: Path, constraints: Path | None, *what: str) -> None:
        limits = ["--constraint", str(constraints)] if constraints else []
        if self._release.is_newest:
            limits += ["--prerelease", "allow", "--refresh"]
        run([self._uv(), "pip", "install", "-q", "--python", str(directory), *limits, *what])

    def _constraints(self, left_out: Sequence[str]) -> Path | None:
        """The upper constraints, without some packages."""
        file = self._release.constraints_file
        if file is None:
            return None
        kept = [
            line
            for line in file.read_text().splitlines()
            if not line.lower().startswith(tuple(left_out))
        ]
        path = self._root / f"{self._release.name}-constraints-{len(left_out)}.txt"
        path.write_text("\n".join(kept) + "\n")
        return path

    @staticmethod
    def _uv() -> str:
        return str(Path(sys.executable).with_name("uv"))


def interpreter(version: str) -> str:
    """A Python of a version, of the command path or pyenv's; ours if there is none."""
    candidates = [f"python{version}"]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates += sorted(map(str, pyenv.glob(f"versions/{version}*/bin/python")), reverse=True)
    for candidate in candidates:
        code = "import ensurepip, sys, venv; print(sys.executable)"
        try:
            return run([candidate, "-c", code]).strip()
        except (OSError, Broken):
            continue
    return sys.executable
