# SPDX-License-Identifier: Apache-2.0

"""Short transactions that are tried again when the database asks for it.

A transaction is a function of a connection.  It may run more than once: after a
deadlock here; and when the connection was lost, also in the middle of the commit,
by whoever comes again with what it wants.  So its effect must be the same when it
has happened already.

Safe to use from any thread.  Duplicate keys come out as oslo.db's
``DBDuplicateEntry`` for the caller to translate, everything else that a
database says as an error of ours.
"""

from __future__ import annotations

import datetime
import logging
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exception

from ironic_virt import exceptions
from ironic_virt.compute import errors
from ironic_virt.compute.db import engine as engines
from ironic_virt.compute.db.clock import DatabaseClock
from ironic_virt.conf import database

LOG = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[sa.Connection], T]

_CONFLICTS = (db_exception.DBDeadlock, db_exception.DBConsistencyError)
_CONFLICT_TRIES = 50
SIZE = 500
"""Values for one statement: well below what an old SQLite takes (999)."""

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0


def chunks(values: Sequence[T], size: int = SIZE) -> Iterator[Sequence[T]]:
    """Return the values in pieces of at most ``size``, for one statement each."""
    for begin in range(0, len(values), size):
        yield values[begin : begin + size]


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


class Transactions:
    """Runs transactions on one engine.

    :param patient: :meth:`reach` waits for a database that is down, as
        ``max_retries`` and ``retry_interval`` say.  A command that somebody
        waits for sets ``False``: one try.
    :param clock: the time that is written into records; by default the database's.
    :param sleep: pauses between tries, in seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        *,
        patient: bool = True,
        clock: Callable[[], datetime.datetime] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.engine = engines.make_engine(conf)
        self._clock = DatabaseClock(self.engine.dialect.name)
        self.now: Callable[[], datetime.datetime] = clock or self._clock
        if clock is None:
            sa.event.listen(self.engine, "connect", self._connected)
        self.down_time: float = conf.service_down_time
        """Seconds after its last report until a service counts as down."""
        self._options = conf[database.GROUP]
        self._patient = patient
        self._sleep = sleep

    @property
    def url(self) -> str:
        """The database's URL for people, without its password."""
        return engines.shown(self.engine.url)

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a file."""
        return self.engine.dialect.name == engines.SQLITE

    def read_clock(self, connection: sa.Connection) -> None:
        """Read the database's clock, within a transaction."""
        if self.now is self._clock:
            self._clock.read(connection.connection.dbapi_connection)

    def _connected(self, connection: Any, _record: object) -> None:
        self._clock.read(connection)
        connection.commit()

    def read(self, work: Work[T]) -> T:
        """Run a transaction that changes nothing.

        :raises DatabaseUnreachable: and :class:`~ironic_virt.compute.errors.DatabaseFailed`.
        """
        return self._run(work, writing=False)

    def write(self, work: Work[T]) -> T:
        """Run a transaction that may change something: wholly or not at all.

        :raises DatabaseUnreachable: and :class:`~ironic_virt.compute.errors.DatabaseFailed`.
        """
        return self._run(work, writing=True)

    def reach(self) -> None:
        """Connect; a patient user waits for the database to come up.

        :raises DatabaseUnreachable: it can't be reached.
        """
        left = self._options.max_retries if self._patient else 0
        while (failure := self._unreachable()) is not None:
            if left == 0:
                raise failure
            left -= 1
            LOG.warning(
                "[database-unreachable] %s; trying again in %d s",
                failure,
                self._options.retry_interval,
            )
            self._sleep(self._options.retry_interval)

    def _unreachable(self) -> errors.DatabaseUnreachable | None:
        try:
            self._once(lambda connection: connection.scalar(sa.select(1)), writing=False)
        except errors.DatabaseUnreachable as exc:
            return exc
        return None

    def dispose(self) -> None:
        """Close the connections; the next transaction opens new ones."""
        self.engine.dispose()

    def _run(self, work: Work[T], *, writing: bool) -> T:
        conflicts = 0
        while True:
            try:
                return self._once(work, writing=writing)
            except _CONFLICTS as exc:
                conflicts += 1
                if conflicts > _CONFLICT_TRIES:
                    raise errors.DatabaseFailed(self.url, _reason(exc)) from exc
            self._sleep(_pause(conflicts))

    def _once(self, work: Work[T], *, writing: bool) -> T:
        connected = False
        try:
            with self.engine.begin() as connection:
                connected = True
                if writing and self.is_sqlite:
                    # Taken now and waited for, the lock for writing can't be refused later.
                    connection.exec_driver_sql("COMMIT")
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                return work(connection)
        except (*_CONFLICTS, db_exception.DBDuplicateEntry, exceptions.IronicVirtError):
            raise
        except db_exception.DBConnectionError as exc:
            raise errors.DatabaseUnreachable(self.url, _reason(exc)) from exc
        except (db_exception.DBError, sa.exc.SQLAlchemyError) as exc:
            kind = errors.DatabaseFailed if connected else errors.DatabaseUnreachable
            raise kind(self.url, _reason(exc)) from exc


class Part:
    """A part of the records: its transactions, and what most reading comes down to."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def _rows(
        self, statement: sa.Executable, values: Mapping[str, Any] | None = None
    ) -> Sequence[Any]:
        return self._transactions.read(
            lambda connection: connection.execute(statement, values).all()
        )


def _pause(tries: int) -> float:
    return random.uniform(0.5, 1.0) * min(_FIRST_PAUSE * 2.0 ** min(tries, 16), _LONGEST_PAUSE)


def _reason(error: BaseException) -> str:
    """What the database said itself, on one line; SQLAlchemy adds the statement."""
    while True:
        inner = getattr(error, "orig", None) or getattr(error, "inner_exception", None)
        if not isinstance(inner, BaseException):
            break
        error = inner
    said = error.args[-1] if len(error.args) == 2 and isinstance(error.args[-1], str) else error
    return " ".join(str(said).split()) or type(error).__name__
