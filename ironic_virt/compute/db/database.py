# SPDX-License-Identifier: Apache-2.0

"""The records of the reference compute service, behind one object, and their transactions.

A transaction is a method of a part of the records that takes a connection (:func:`reads`,
:func:`writes`).  It may run more than once: after a deadlock it is repeated here; if the
connection is lost, perhaps in the middle of the commit, the caller repeats it.  So a second run
must have the same effect, or be refused, as a second instance of one uuid is.

The version of the tables is in a table of one row.  Several processes may make the tables at
once, and one that was killed leaves some behind, since MariaDB commits each statement that changes
a table.  Each step checks whether it is done, and the version comes last, so the next process
continues.  Nothing upgrades tables: those of another version are refused.
"""

from __future__ import annotations

import datetime
import functools
import logging
import pathlib
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import api as db_api
from oslo_db import exception as db_exception

from ironic_virt import exceptions
from ironic_virt.compute import errors
from ironic_virt.compute.db import engine as engines
from ironic_virt.compute.db import tables
from ironic_virt.conf import database

LOG = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")
Owner = TypeVar("Owner", bound="Part")
Work = Callable[[sa.Connection], T]

SIZE = 500
"""Values for one statement: well below what an old SQLite takes (999)."""

_CONFLICTS = (db_exception.DBDeadlock, db_exception.DBConsistencyError)
_retried = db_api.wrap_db_retry(
    retry_interval=0.02,
    max_retries=50,
    max_retry_interval=1,
    jitter=True,
    exception_checker=lambda error: isinstance(error, _CONFLICTS),
)
# To make the tables, while other processes do so, too.
_MAKING_SECONDS = 60.0
_PAUSE_SECONDS = 0.05
# SQLite's words, MariaDB's and PostgreSQL's, which quotes those of the system.
_FULL = re.compile(r"\bfull\b|disk I/O error|No space left on device")


class Database:
    """The records; every method of its parts is one short transaction.

    Safe to use from any thread.  Making one connects to nothing: :meth:`open`
    does, and sees that the tables are right.

    :param conf: with ``[DEFAULT]`` of a service and ``[database]`` registered
        (:func:`ironic_virt.conf.load_records`).
    :param clock: the time that is written into records, aware; by default the database's.
    :raises InvalidConfiguration: ``[database] connection`` can't be used.
    :ivar down_time: after its last report, until a service counts as down.
    :ivar is_new: :meth:`open` has made the tables, which were not there.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        *,
        clock: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        # They need what is defined here.
        from ironic_virt.compute.db.candidates import Candidates
        from ironic_virt.compute.db.compute_nodes import ComputeNodes
        from ironic_virt.compute.db.flavors import Flavors
        from ironic_virt.compute.db.instance_records import Instances
        from ironic_virt.compute.db.services import Pools, Services

        self.engine = engines.make_engine(conf)
        self.is_sqlite = self.engine.dialect.name == engines.SQLITE
        self._clock = engines.DatabaseClock(self.engine.dialect.name)
        self.now: Callable[[], datetime.datetime] = clock or self._clock
        """The time that would be written into a record now."""
        self.down_time = datetime.timedelta(seconds=conf.service_down_time)
        self._is_embedded = database.is_embedded(conf)
        self.is_new = False
        self.services = Services(self)
        self.compute_nodes = ComputeNodes(self)
        self.pools = Pools(self)
        self.candidates = Candidates(self)
        self.instances = Instances(self)
        self.flavors = Flavors(self)

    @property
    def url(self) -> str:
        """Where the records are, for people: without a password or parameters that hold one."""
        return self.engine.url.set(query={}).render_as_string(hide_password=True)

    # -- opening --------------------------------------------------------------

    def open(self, *, make: bool | None = None) -> Database:
        """Reach the database and see that its tables are this version's.

        :param make: make them if there are none; by default those of the embedded database only.
        :returns: itself.
        :raises DatabaseError: it can't be reached.
        :raises SchemaMismatch: its tables are another version's, or there are none.
        :raises InvalidConfiguration: its disk is full.
        """
        make = self._is_embedded if make is None else make
        name = self.engine.url.database or ""
        if self.is_sqlite and not name.startswith("file:"):
            file = pathlib.Path(name)
            if make:
                engines.make_file(file, in_directory=self._is_embedded)
            elif not file.exists():
                # Connecting would make one.
                raise errors.SchemaMismatch(self.url, None, tables.VERSION)
        self.is_new = make and self.version() is None
        if self.is_new:
            self._make_tables()
            LOG.info("Made the tables of %s, version %d", self.url, tables.VERSION)
        if (version := self.version()) != tables.VERSION:
            raise errors.SchemaMismatch(self.url, version, tables.VERSION)
        return self

    def close(self) -> None:
        """Close the connections; the next transaction opens new ones."""
        self.engine.dispose()

    def version(self) -> int | None:
        """The version of the tables in the database; ``None``: there are none.

        :raises DatabaseError: it can't be asked.
        """
        return self.read(_version)

    def _make_tables(self) -> None:
        # SQLite may wait with each try, or not at all.
        deadline = time.monotonic() + _MAKING_SECONDS
        while self.version() is None:
            try:
                if self.is_sqlite:
                    # It stays with the file; others may read while one writes.
                    self._run_alone("PRAGMA journal_mode = WAL")
                self.write(_make)
            except (errors.DatabaseError, db_exception.DBDuplicateEntry) as exc:
                if _FULL.search(str(exc)):
                    raise exceptions.InvalidConfiguration(
                        f"[{database.GROUP}] connection",
                        f"can't make tables (is the disk full?): {exc}",
                    ) from exc
                # Another process makes them, too.
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def _run_alone(self, statement: str) -> None:
        """Do a statement that belongs to no transaction."""
        try:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("COMMIT")
                connection.exec_driver_sql(statement)
        except sa.exc.OperationalError as exc:
            raise errors.DatabaseError(self.url, str(exc.orig)) from exc

    # -- transactions ---------------------------------------------------------

    def read(self, work: Work[T]) -> T:
        """Run a transaction that changes nothing.

        :raises DatabaseError: the database can't be used.
        """
        return self._run(work, writes=False)

    def write(self, work: Work[T]) -> T:
        """Run a transaction that may change something: wholly or not at all.

        :raises DatabaseError: the database can't be used; perhaps it has happened.
        """
        return self._run(work, writes=True)

    def read_clock(self, connection: sa.Connection) -> None:
        """Read the database's clock, within a transaction."""
        if self.now is self._clock:
            self._clock.read(connection)

    def _run(self, work: Work[T], *, writes: bool) -> T:
        def once() -> T:
            with (
                self.engine.connect().execution_options(writes=writes) as connection,
                connection.begin(),
            ):
                # What is kept here is kept as long as the driver's connection.
                if "clock" not in connection.info:
                    self.read_clock(connection)
                    connection.info["clock"] = "read"
                return work(connection)

        try:
            result: T = _retried(once)()
            return result
        except (db_exception.DBDuplicateEntry, exceptions.IronicVirtError):
            raise
        except (db_exception.DBError, sa.exc.SQLAlchemyError) as exc:
            raise errors.DatabaseError(self.url, _reason(exc)) from exc


class Part:
    """A part of the records."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def _rows(self, statement: sa.Executable) -> Sequence[Any]:
        return self._db.read(lambda connection: connection.execute(statement).all())


def reads(
    method: Callable[Concatenate[Owner, sa.Connection, P], T],
) -> Callable[Concatenate[Owner, P], T]:
    """Make a part's method a transaction that changes nothing; it gets the connection."""

    @functools.wraps(method)
    def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._db.read(lambda connection: method(self, connection, *args, **kwargs))

    return call


def writes(
    method: Callable[Concatenate[Owner, sa.Connection, P], T],
) -> Callable[Concatenate[Owner, P], T]:
    """Make a part's method a transaction: it happens as a whole or not at all."""

    @functools.wraps(method)
    def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._db.write(lambda connection: method(self, connection, *args, **kwargs))

    return call


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return the values in pieces of at most :data:`SIZE`, for one statement each."""
    for begin in range(0, len(values), SIZE):
        yield values[begin : begin + SIZE]


def rows_in(
    connection: sa.Connection,
    statement: sa.Select[*tuple[Any, ...]],
    column: sa.ColumnElement[Any],
    values: Collection[Any],
) -> Sequence[Any]:
    """The rows in which a column has one of these values, however many they are."""
    return [
        row
        for some in chunks(sorted(values))
        for row in connection.execute(statement.where(column.in_(some)))
    ]


def insert_or_retry(
    connection: sa.Connection, insert: sa.Insert, rows: Sequence[dict[str, Any]]
) -> None:
    """Insert rows; if one is there, made just now, have the transaction begin again."""
    try:
        connection.execute(insert, rows)
    except db_exception.DBDuplicateEntry as exc:
        raise db_exception.RetryRequest(exc) from exc


def _version(connection: sa.Connection) -> int | None:
    if not sa.inspect(connection).has_table(tables.schema_version.name):
        return None
    return connection.scalar(sa.select(tables.schema_version.c.version))


def _make(connection: sa.Connection) -> None:
    is_mariadb = getattr(connection.dialect, "is_mariadb", False)
    collation = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
    for table in tables.METADATA.tables.values():
        table.kwargs.update(tables.MYSQL, mysql_collate=collation)
    tables.METADATA.create_all(connection)
    for table in tables.METADATA.tables.values():
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    if _version(connection) is None:
        connection.execute(sa.insert(tables.schema_version).values(version=tables.VERSION))


def _reason(error: BaseException) -> str:
    """What the database said itself, on one line; SQLAlchemy adds the statement."""
    inner: object = error
    while isinstance(inner, BaseException):
        error = inner
        inner = getattr(error, "orig", None) or getattr(error, "inner_exception", None)
    text = error.args[-1] if len(error.args) == 2 and isinstance(error.args[-1], str) else error
    return " ".join(str(text).split()) or type(error).__name__
