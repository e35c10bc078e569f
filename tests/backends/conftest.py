# SPDX-License-Identifier: Apache-2.0

"""The same database and the same Ironic as the reference service's other tests."""

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
