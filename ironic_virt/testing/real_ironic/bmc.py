# SPDX-License-Identifier: Apache-2.0

"""A stand-in for ``ipmitool``, so that nodes of fake hardware can have serial consoles.

Ironic's console interface ``ipmitool-socat`` runs ``socat``, the real one, which runs this.
It takes every command; a serial line says who it is and then echoes.
"""

import os
from collections.abc import Mapping
from pathlib import Path

GREETING = "stand-in for a serial line"

_PROGRAM = f"""#!/bin/sh
case "$*" in
*"sol activate")
    echo "{GREETING}"
    exec cat
    ;;
esac
"""


def install(directory: Path) -> Path:
    """Write the program.

    :returns: the directory that it is in, for a ``PATH``.
    """
    programs = directory / "bin"
    programs.mkdir(exist_ok=True)
    program = programs / "ipmitool"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    return programs


def environment(programs: Path, ours: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment variables with which it is found before any real one."""
    return {**ours, "PATH": f"{programs}{os.pathsep}{ours.get('PATH', os.defpath)}"}
