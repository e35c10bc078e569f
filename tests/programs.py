# SPDX-License-Identifier: Apache-2.0

"""Our programs as separate processes."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).parents[1]
COMMAND = "ironic_virt.cmd.shell"
COMPUTE = "ironic_virt.cmd.compute"
MANAGE = "ironic_virt.cmd.manage"

SECONDS = 120.0
"""More than any program takes that ends by itself."""


def _line(module: str) -> list[str]:
    code = f"import sys; from {module} import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code]


def start(
    module: str, *argv: str, stdout: IO[Any], stderr: IO[Any], tree: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in its own session, with an empty standard input.

    :param module: whose ``main`` it is.
    :param tree: the checkout that has it; by default this one.
    """
    return subprocess.Popen(
        [*_line(module), *argv],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=tree,
        start_new_session=True,
    )


def run(module: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(
        [*_line(module), *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def write_script(path: Path, module: str) -> None:
    """Make a script that is a program of this checkout, wherever it is run."""
    line = shlex.join(["env", f"PYTHONPATH={_ROOT}", *_line(module)])
    path.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
    path.chmod(0o755)
