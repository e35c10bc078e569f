# SPDX-License-Identifier: Apache-2.0

"""Compute services as processes on the real Ironic, and ``ironic-virt`` commands."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from ironic_virt.compute.db import Database
from ironic_virt.conf import database as database_options
from tests.functional.compute.processes import ComputeProcess
from tests.integration.stage import Stage

SECONDS = 180.0


@contextlib.contextmanager
def compute_service(
    stage: Stage, host: str = "compute1", **options: Any
) -> Iterator[ComputeProcess]:
    """A compute service with an embedded database, and options for Ironic; not started yet."""
    process = ComputeProcess(
        *(stage.directory, host, "unused", stage.ironic.url),
        ironic=options,
        database={"connection": None},
    )
    try:
        yield process
    finally:
        process.kill()


@contextlib.contextmanager
def records_of(service: ComputeProcess) -> Iterator[Database]:
    db = Database(database_options.load([str(service.config)]), patient=False).open()
    try:
        yield db
    finally:
        db.close()


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


def done(service: ComputeProcess, *argv: str) -> None:
    """Run a command that has to work."""
    code, _, err = run(service, *argv)
    assert code == 0, err
