# SPDX-License-Identifier: Apache-2.0

"""The database's clock, read over a connection that is none."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator

import pytest

from ironic_virt.compute.db.clock import DatabaseClock

NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


class Host:
    """A host whose clock is an hour late, and may be set meanwhile."""

    def __init__(self) -> None:
        self.late = HOUR
        self.seconds = 100.0

    def clock(self) -> datetime.datetime:
        return NOON + datetime.timedelta(seconds=self.seconds) - self.late

    def monotonic(self) -> float:
        return self.seconds

    @contextlib.contextmanager
    def cursor(self) -> Iterator[Host]:
        yield self

    def execute(self, statement: str) -> None:
        self.seconds += 2

    def fetchone(self) -> tuple[datetime.datetime]:
        # Of the middle of the statement.
        return ((NOON + datetime.timedelta(seconds=self.seconds - 1)).replace(tzinfo=None),)


@pytest.mark.parametrize("dialect", ["mysql", "postgresql"])
def test_the_time_is_the_databases_and_no_step_of_the_hosts_clock_matters(dialect: str) -> None:
    host = Host()
    clock = DatabaseClock(dialect, host_clock=host.clock, monotonic=host.monotonic)
    assert clock() == host.clock(), "nothing better is known yet"
    clock.read(host)
    for late in (HOUR, -HOUR, 24 * HOUR):
        host.late = late
        host.seconds += 7.5
        assert clock() == NOON + datetime.timedelta(seconds=host.seconds)


def test_a_file_has_its_hosts_clock() -> None:
    host = Host()
    clock = DatabaseClock("sqlite", host_clock=host.clock, monotonic=host.monotonic)
    clock.read(host)
    assert clock() == host.clock()
