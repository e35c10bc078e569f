# SPDX-License-Identifier: Apache-2.0

"""Compute services as processes on the real Ironic."""

import contextlib
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
