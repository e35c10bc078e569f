# SPDX-License-Identifier: Apache-2.0

"""From ``[database]`` to an SQLAlchemy engine that behaves alike on every database.

It has oslo.db's filters: a cause has the same type of error on every database.  The
engine itself is SQLAlchemy's, since oslo.db's imports the ORM, a third of the time that a
command takes.  What is set here:

- every transaction sees what is committed (READ COMMITTED), so a compare and swap
  and what is read around it mean the same everywhere;
- SQLite waits for a lock instead of failing;
- a server that is gone without a word is not waited for without end;
- no error and no log line holds a statement's values: user data is among them.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import pathlib
import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db.sqlalchemy import exc_filters

from ironic_virt import exceptions
from ironic_virt.conf import database

SQLITE = "sqlite"
MYSQL = "mysql"
POSTGRESQL = "postgresql"

_OPTION = f"[{database.GROUP}] connection"
_BUSY_SECONDS = 30.0
# For drivers by backend and name.  In seconds, but tcp_user_timeout.  None of our statements
# takes minutes, and MariaDB itself gives up waiting for a row after 50 s.
_LIBPQ = {
    "connect_timeout": "10",
    "keepalives_idle": "60",
    "keepalives_interval": "20",
    "keepalives_count": "5",
    "tcp_user_timeout": "300000",
    "client_encoding": "utf8",
}
_DEADLINES = {
    (MYSQL, "pymysql"): {"connect_timeout": "10", "read_timeout": "300", "write_timeout": "300"},
    (POSTGRESQL, "psycopg2"): _LIBPQ,
    (POSTGRESQL, "psycopg"): _LIBPQ,
}
_URLS = {MYSQL: "mysql+pymysql://", POSTGRESQL: "postgresql+psycopg2://"}
_NOW = {
    MYSQL: "SELECT UTC_TIMESTAMP(6)",
    POSTGRESQL: "SELECT clock_timestamp() AT TIME ZONE 'UTC'",
}


def connection_url(conf: cfg.ConfigOpts) -> sa.URL:
    """The URL in ``[database] connection``.

    :raises InvalidConfiguration: it is none, or of a database that isn't supported.
    """
    try:
        url = sa.make_url(conf[database.GROUP].connection)
    except (sa.exc.ArgumentError, ValueError) as exc:
        # Its own text may repeat the URL, and with it the password.
        raise exceptions.InvalidConfiguration(
            _OPTION, "not a URL of the form dialect+driver://user:password@host/name"
        ) from exc
    backend = url.get_backend_name()
    if backend == "mariadb":
        # oslo.db knows the errors of both by the older name.
        url = url.set(drivername=url.drivername.replace("mariadb", MYSQL, 1))
        backend = MYSQL
    if backend not in {SQLITE, MYSQL, POSTGRESQL}:
        raise exceptions.InvalidConfiguration(
            _OPTION, f"{backend!r} is not supported; use sqlite, mysql or postgresql"
        )
    if backend == SQLITE and url.database in {None, "", ":memory:"}:
        raise exceptions.InvalidConfiguration(
            _OPTION, "SQLite needs a file: sqlite:////path/to/file"
        )
    charset = {"charset": "utf8mb4"} if backend == MYSQL else {}
    deadlines = _DEADLINES.get((backend, url.get_driver_name()), {})
    return url.update_query_dict({**charset, **deadlines, **url.query})


def make_engine(conf: cfg.ConfigOpts) -> sa.Engine:
    """An engine; nothing is connected yet.

    :raises InvalidConfiguration: the URL is wrong, or its driver isn't installed.
    """
    url = connection_url(conf)
    options = conf[database.GROUP]
    backend = url.get_backend_name()
    pool = {
        "isolation_level": "READ COMMITTED",
        "pool_size": options.max_pool_size,
        "max_overflow": options.max_overflow,
        "pool_timeout": options.pool_timeout,
    }
    # A file is opened each time.
    file = {"poolclass": sa.NullPool, "connect_args": {"timeout": _BUSY_SECONDS}}
    arguments: dict[str, Any] = file if backend == SQLITE else pool
    try:
        engine = sa.create_engine(
            url,
            hide_parameters=True,
            pool_pre_ping=True,
            pool_recycle=options.connection_recycle_time,
            # Each transaction is ended before its connection is given back.
            pool_reset_on_return=None,
            **{name: value for name, value in arguments.items() if value is not None},
        )
    except (ImportError, sa.exc.NoSuchModuleError) as exc:
        reason = f"its driver can't be loaded ({exc})"
        if backend in _URLS:
            reason += f"; install the extra {backend!r} and begin the URL with {_URLS[backend]}"
        raise exceptions.InvalidConfiguration(_OPTION, reason) from exc
    exc_filters.register_engine(engine)
    if backend == SQLITE:
        sa.event.listen(engine, "connect", functools.partial(_set_up_sqlite, options))
        # Python's own comes too late, and not before what changes tables.
        sa.event.listen(engine, "begin", _begin)
    elif backend == MYSQL:
        sa.event.listen(engine, "connect", functools.partial(_set_up_mysql, options))
    return engine


def make_file(file: pathlib.Path, *, in_directory: bool) -> None:
    """Make the file of an SQLite database for its owner alone.

    SQLite makes the files of its log with the same permissions.

    :param in_directory: make its directory, too.
    :raises InvalidConfiguration: that can't be made.
    """
    if in_directory:
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise exceptions.InvalidConfiguration(
                "[DEFAULT] state_path", f"{file.parent} can't be made: {exc.strerror}"
            ) from exc
    # What goes wrong here goes wrong again when SQLite opens it, which says what.
    with contextlib.suppress(OSError):
        file.touch(mode=0o600, exist_ok=False)


def _begin(connection: sa.Connection) -> None:
    # Taken now and waited for, the lock for writing can't be refused later.
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _set_up_sqlite(options: Any, connection: Any, _record: object) -> None:
    if not options.sqlite_synchronous:
        connection.execute("PRAGMA synchronous = OFF")
    connection.isolation_level = None


def _set_up_mysql(options: Any, connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        if options.mysql_sql_mode is not None:
            cursor.execute("SET SESSION sql_mode = %s", [options.mysql_sql_mode])
        if options.mysql_wsrep_sync_wait is not None:
            cursor.execute("SET SESSION wsrep_sync_wait = %s", [options.mysql_wsrep_sync_wait])


class DatabaseClock:
    """The clock of a database, so that all agree whether a service is up.  Thread-safe.

    A server's clock is read when a connection is made and with each report of a service; in
    between a monotonic clock goes on from there, so no step of this host's clock matters.  An
    SQLite file has its host's clock.
    """

    def __init__(self, backend: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._statement = _NOW.get(backend)
        self._monotonic = monotonic
        # The database's time when the monotonic clock was at zero.
        self._zero: datetime.datetime | None = None

    def __call__(self) -> datetime.datetime:
        """The database's time, as far as it has been read; else this host's."""
        zero = self._zero
        if zero is None:
            return datetime.datetime.now(datetime.UTC)
        return zero + datetime.timedelta(seconds=self._monotonic())

    def read(self, connection: sa.Connection) -> None:
        """Read the clock, within a transaction."""
        if self._statement is None:
            return
        began = self._monotonic()
        current_time = connection.exec_driver_sql(self._statement).scalar_one()
        middle = datetime.timedelta(seconds=(began + self._monotonic()) / 2)
        self._zero = current_time.replace(tzinfo=datetime.UTC) - middle
