# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt`` as a process of its own, beside a compute service on the real Ironic."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.functional.compute.processes import ComputeProcess

SECONDS = 180.0


def run(service: ComputeProcess, *argv: str) -> tuple[int, str, str]:
    """Run ``ironic-virt``.

    :returns: its exit code, and what it has written.
    """
    command = [sys.executable, "-m", "ironic_virt.cmd.shell"]
    done = subprocess.run(
        [*command, "--config-file", str(service.config), *argv],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def shown(service: ComputeProcess, *argv: str) -> Any:
    """What a command that has to work shows."""
    code, out, err = run(service, *argv, "-f", "json")
    assert code == 0, err
    return json.loads(out)
