# SPDX-License-Identifier: Apache-2.0

"""A stand-in for ``ipmitool``, so that nodes of fake hardware can have serial consoles.

Ironic's console interface ``ipmitool-socat`` runs ``socat``, the real one, which runs this.
It takes every command.  A serial line says who it is and then echoes, to one at a time for
each address of a BMC, until it is asked to stop.
"""

import os
from collections.abc import Mapping
from pathlib import Path

GREETING = "stand-in for a serial line"

_PROGRAM = f"""#!/bin/sh
host= before=
for argument in "$@"; do
    [ "$before" = -H ] && host=$argument
    before=$argument
done
session="$(dirname "$0")/session-$host"
case "$*" in
*"sol activate")
    echo $$ > "$session"
    echo "{GREETING}"
    exec cat
    ;;
*"sol deactivate")
    [ ! -f "$session" ] || kill "$(cat "$session")" 2>/dev/null
    rm -f "$session"
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
