# SPDX-License-Identifier: Apache-2.0

"""Make a Debian package of a wheel: ``python tools/deb.py WHEEL DIRECTORY``.

For a host whose Nova is Debian's: the modules go to ``dist-packages``, and what the wheel
requires is required of Debian.  Needs dpkg-deb.
"""

from __future__ import annotations

import argparse
import configparser
import email.parser
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

NAMES = {"keystoneauth1": "keystoneauth1", "PyYAML": "yaml"}
"""Debian's names, after ``python3-``, of what it doesn't call as PyPI does."""
PROGRAM = """#!/usr/bin/python3
import sys
from {module} import {function}
sys.exit({function}())
"""
CONTROL = """Package: ironic-virt
Version: {version}
Architecture: all
Section: python
Priority: optional
Maintainer: the ironic_virt project <ironic-virt@localhost>
Depends: {depends}
Description: {summary}
 The driver by which OpenStack Nova deploys instances on bare metal with Ironic,
 and tools for its operators.
"""


def depends(requires: list[str]) -> str:
    """Debian's packages for what a wheel requires without any extra."""
    packages = ["python3 (>= 3.11)"]
    for requirement in map(Requirement, requires):
        if requirement.marker is not None and "extra" in str(requirement.marker):
            continue
        name = "python3-" + NAMES.get(requirement.name, requirement.name.lower())
        floors = [one.version for one in requirement.specifier if one.operator == ">="]
        # A revision or epoch of Debian's makes a version larger, never smaller.
        packages += [f"{name} (>= {floor})" for floor in floors] or [name]
    return ", ".join(packages)


def build(wheel: Path, directory: Path) -> Path:
    """Write the package and return its path.

    :raises subprocess.CalledProcessError: dpkg-deb failed.
    """
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary, "root")
        modules = root / "usr" / "lib" / "python3" / "dist-packages"
        modules.mkdir(parents=True)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(modules)
        (information,) = modules.glob("*.dist-info")
        # It lists files for pip, which isn't to remove them.
        (information / "RECORD").unlink()
        (information / "INSTALLER").write_text("debian\n")
        metadata = email.parser.Parser().parsestr((information / "METADATA").read_text())
        points = configparser.ConfigParser(delimiters="=")
        points.read(information / "entry_points.txt")
        programs = root / "usr" / "bin"
        programs.mkdir()
        for name, place in points["console_scripts"].items():
            module, _, function = place.partition(":")
            (programs / name).write_text(PROGRAM.format(module=module, function=function))
            (programs / name).chmod(0o755)
        control = root / "DEBIAN"
        control.mkdir()
        version = metadata["Version"].replace(".dev", "~dev").replace("+", "~")
        (control / "control").write_text(
            CONTROL.format(
                version=version,
                depends=depends(metadata.get_all("Requires-Dist") or []),
                summary=metadata["Summary"],
            )
        )
        for script, line in (
            ("postinst", "py3compile -p ironic-virt"),
            ("prerm", "py3clean -p ironic-virt"),
        ):
            (control / script).write_text(f"#!/bin/sh\nset -e\n{line}\n")
            (control / script).chmod(0o755)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"ironic-virt_{version}_all.deb"
        command = ["dpkg-deb", "--build", "--root-owner-group", str(root), str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def main() -> int:
    """Make a package and print its path; return the exit code."""
    parser = argparse.ArgumentParser(description="Make a Debian package of a wheel.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("directory", type=Path, help="where the package is written")
    arguments = parser.parse_args()
    if shutil.which("dpkg-deb") is None:
        print("dpkg-deb is needed and is not installed (Debian: dpkg)", file=sys.stderr)
        return 1
    print(build(arguments.wheel, arguments.directory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
