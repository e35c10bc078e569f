# SPDX-License-Identifier: Apache-2.0

"""The database's clock, read over a connection that is none."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_virt.compute.db.engine import DatabaseClock

NOON = datetime.datetime(2020, 1, 2, 12, tzinfo=datetime.UTC)


class Server:
    """A database whose clock is years behind this host's."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def time(self) -> datetime.datetime:
        return NOON + datetime.timedelta(seconds=self.seconds)

    def exec_driver_sql(self, statement: str) -> Server:
        self.seconds += 2
        return self

    def scalar_one(self) -> datetime.datetime:
        # Of the middle of the statement.
        return (self.time() - datetime.timedelta(seconds=1)).replace(tzinfo=None)


@pytest.mark.parametrize("backend", ["mysql", "postgresql"])
def test_the_time_is_the_databases_and_not_the_hosts(backend: str) -> None:
    server: Any = Server()
    clock = DatabaseClock(backend, server.monotonic)
    assert clock() > server.time(), "nothing better than this host's is known yet"
    clock.read(server)
    for _ in range(3):
        server.seconds += 7.5
        assert clock() == server.time()


def test_a_file_has_its_hosts_clock() -> None:
    server: Any = Server()
    clock = DatabaseClock("sqlite", server.monotonic)
    clock.read(server)
    assert clock() > server.time()
