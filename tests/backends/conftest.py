# SPDX-License-Identifier: Apache-2.0

"""Use the database and the Ironic of the other tests of the reference service."""

from tests.functional.compute.conftest import (
    clock,
    database_conf,
    database_server,
    database_url,
    db,
    durations,
    ironic_clock,
    reused,
    server,
)

__all__ = [
    "clock",
    "database_conf",
    "database_server",
    "database_url",
    "db",
    "durations",
    "ironic_clock",
    "reused",
    "server",
]
