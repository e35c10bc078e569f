# SPDX-License-Identifier: Apache-2.0

"""The database's clock, by which all services and commands agree whether a service is up.

A server's clock is read when a connection is made and with each report of a service; in between
a monotonic clock goes on from there, so no step of this host's clock matters.  An SQLite file
has its host's clock.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable
from typing import Any

from ironic_virt.compute.db import engine as engines

_STATEMENTS = {
    engines.MYSQL: "SELECT UTC_TIMESTAMP(6)",
    engines.POSTGRESQL: "SELECT clock_timestamp() AT TIME ZONE 'UTC'",
}


def utc_now() -> datetime.datetime:
    """This host's time in UTC, aware."""
    return datetime.datetime.now(datetime.UTC)


class DatabaseClock:
    """Tells the time of a database.  Thread-safe.

    :param dialect: of the database.
    :param monotonic: in seconds.
    """

    def __init__(
        self,
        dialect: str,
        *,
        host_clock: Callable[[], datetime.datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._statement = _STATEMENTS.get(dialect)
        self._host_clock = host_clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._read: tuple[datetime.datetime, float] | None = None

    def __call__(self) -> datetime.datetime:
        """The database's time, as far as it has been read; else this host's."""
        with self._lock:
            read = self._read
        if read is None:
            return self._host_clock()
        then, at = read
        return then + datetime.timedelta(seconds=self._monotonic() - at)

    def read(self, connection: Any) -> None:
        """Read the clock over a connection of the database's driver."""
        if self._statement is None:
            return
        with connection.cursor() as cursor:
            began = self._monotonic()
            cursor.execute(self._statement)
            (found,) = cursor.fetchone()
            at = (began + self._monotonic()) / 2
        with self._lock:
            self._read = found.replace(tzinfo=datetime.UTC), at
