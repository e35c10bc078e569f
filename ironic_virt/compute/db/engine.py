# SPDX-License-Identifier: Apache-2.0

"""From ``[database]`` to an SQLAlchemy engine that behaves alike on every database.

oslo.db's filters are in it: an error has one type for a cause, whatever the database.  The
engine itself is SQLAlchemy's, since oslo.db would import the ORM, half of the time that a
command takes to start.  What is set here:

- every transaction sees what is committed (READ COMMITTED), so a compare and swap
  and what is read around it mean the same everywhere;
- SQLite waits for a lock instead of failing, and foreign processes may read while
  one writes (the write-ahead log is switched on with the schema);
- a server that is gone without a word is not waited for for ever;
- no error and no log line holds a statement's values: user data is among them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import pathlib
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
# For drivers by backend and name.  In seconds, but tcp_user_timeout.  No statement of ours
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
_EXTRAS = {MYSQL: ("mysql", "mysql+pymysql"), POSTGRESQL: ("postgresql", "postgresql+psycopg2")}


def shown(url: sa.URL) -> str:
    """A connection URL for people: no password, and no parameters that may hold one."""
    return url.set(query={}).render_as_string(hide_password=True)


def connection_url(conf: cfg.ConfigOpts) -> sa.URL:
    """The URL in ``[database] connection``.

    :raises InvalidConfiguration: it is none, or of a database that isn't supported.
    """
    try:
        url = sa.make_url(conf[database.GROUP].connection)
        if parameters := conf[database.GROUP].connection_parameters:
            url = url.update_query_string(parameters, append=True)
    except (sa.exc.ArgumentError, ValueError) as exc:
        # Its own text may repeat the URL, and with it the password.
        raise exceptions.InvalidConfiguration(
            _OPTION, "this is no URL of the form dialect+driver://user:password@host/name"
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
    if backend == MYSQL and "charset" not in url.query:
        url = url.update_query_dict({"charset": "utf8mb4"})
    deadlines = _DEADLINES.get((backend, url.get_driver_name()), {})
    return url.update_query_dict({**deadlines, **url.query})


def make_engine(conf: cfg.ConfigOpts) -> sa.Engine:
    """An engine; nothing is connected yet.

    :raises InvalidConfiguration: the URL is wrong, or its driver isn't installed.
    """
    url = connection_url(conf)
    options = conf[database.GROUP]
    backend = url.get_backend_name()
    _set_log_level(options.connection_debug)
    try:
        engine = sa.create_engine(
            url,
            hide_parameters=True,
            pool_pre_ping=True,
            pool_recycle=options.connection_recycle_time,
            # Each transaction is ended before its connection is given back.
            pool_reset_on_return=None,
            **_of_backend(backend, options),
        )
    except (ImportError, sa.exc.NoSuchModuleError) as exc:
        raise exceptions.InvalidConfiguration(_OPTION, _missing_driver(url, exc)) from exc
    exc_filters.register_engine(engine)
    if backend == SQLITE:
        sa.event.listen(engine, "do_connect", _make_file)
        # Python's own comes too late, and not before what changes tables.
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    if backend in _SETTINGS:
        sa.event.listen(engine, "connect", functools.partial(_SETTINGS[backend], options))
    _keep_to_process(engine)
    return engine


def _of_backend(backend: str, options: Any) -> dict[str, Any]:
    """Which connections are kept, and how they see others; a file is opened each time."""
    if backend == SQLITE:
        return {"poolclass": sa.NullPool, "connect_args": {"timeout": _BUSY_SECONDS}}
    sizes = {
        "isolation_level": "READ COMMITTED",
        "pool_size": options.max_pool_size,
        "max_overflow": options.max_overflow,
        "pool_timeout": options.pool_timeout,
    }
    return {name: value for name, value in sizes.items() if value is not None}


def _set_log_level(connection_debug: int) -> None:
    levels = ((100, logging.DEBUG), (50, logging.INFO), (0, logging.WARNING))
    for least, level in levels:
        if connection_debug >= least:
            logging.getLogger("sqlalchemy.engine").setLevel(level)
            return


def _keep_to_process(engine: sa.Engine) -> None:
    """Let a process that was forked make connections of its own."""

    def connected(_connection: object, record: Any) -> None:
        record.info["pid"] = os.getpid()

    def taken(_connection: object, record: Any, _proxy: object) -> None:
        if record.info["pid"] != os.getpid():
            raise sa.exc.DisconnectionError("the connection is another process's")

    sa.event.listen(engine, "connect", connected)
    sa.event.listen(engine, "checkout", taken)


def _missing_driver(url: sa.URL, error: Exception) -> str:
    reason = f"its driver can't be loaded ({error})"
    if (backend := url.get_backend_name()) in _EXTRAS:
        extra, driver = _EXTRAS[backend]
        reason += f"; install the extra {extra!r} and begin the URL with {driver}://"
    return reason


def is_missing(engine: sa.Engine) -> bool:
    """Whether it is of an SQLite file that isn't there; connecting would make one."""
    file = engine.url.database or ""
    return engine.url.get_backend_name() == SQLITE and not (
        file.startswith("file:") or pathlib.Path(file).exists()
    )


def make_directory(engine: sa.Engine) -> None:
    """Make the directory of the embedded database's file.

    :raises InvalidConfiguration: it can't be made.
    """
    directory = pathlib.Path(engine.url.database or "").parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise exceptions.InvalidConfiguration(
            "[DEFAULT] state_path", f"{directory} can't be made: {exc.strerror}"
        ) from exc


def _make_file(_dialect: object, _record: object, arguments: Any, _options: object) -> None:
    """Make the file of an SQLite database that is new, for its owner alone.

    SQLite makes the files of its log with the same permissions.
    """
    name = str(arguments[0])
    if name.startswith("file:"):
        return
    # What goes wrong here goes wrong again when SQLite opens it, which says what.
    with contextlib.suppress(OSError):
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


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


_SETTINGS = {SQLITE: _set_up_sqlite, MYSQL: _set_up_mysql}
