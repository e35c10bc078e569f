# SPDX-License-Identifier: Apache-2.0

"""The package as it was before, built from a commit of this repository.

``IRONIC_VIRT_FORMER`` names the commit.  Without it, that is the last release or, where there
is none, the commit before the last change of the standby.
"""

import os
import subprocess
import sys
from pathlib import Path

VARIABLE = "IRONIC_VIRT_FORMER"
VERSION = "0.0.1"
"""Of the package that is built, so that its processes differ from ours."""

_ROOT = Path(__file__).parents[2]


class NoFormer(Exception):
    """The repository, or git, is not here."""


def former_commit() -> str:
    """The commit.

    :raises NoFormer: there is none.
    """
    try:
        return (
            os.environ.get(VARIABLE)
            or _git("tag", "--sort=-creatordate").partition("\n")[0]
            or _git("log", "-1", "--format=%H^", "--", "ironic_virt/standby")
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoFormer(f"the former package can't be built: {error}") from error


def build_former(directory: Path) -> Path:
    """Build the package and install it.

    :returns: the directory to have before all others in ``PYTHONPATH``.
    :raises NoFormer: see above.
    """
    commit, source, wheels = former_commit(), directory / "source", directory / "wheels"
    source.mkdir(parents=True)
    archive = source / "archive.tar"
    _git("archive", f"--output={archive}", commit)
    _run(["tar", "-xf", str(archive), "-C", str(source)])
    python = [sys.executable, "-m"]
    _run([*python, "build", "--wheel", "--outdir", str(wheels), str(source)])
    package = directory / "package"
    pip = [*python, "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([*pip, "--target", str(package), *map(str, wheels.glob("*.whl"))])
    return package


def _git(*arguments: str) -> str:
    return _run(["git", "-C", str(_ROOT), *arguments])


def _run(command: list[str]) -> str:
    # Without the history pbr can't tell the version.
    environment = {**os.environ, "PBR_VERSION": VERSION}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()
