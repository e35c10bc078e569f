# SPDX-License-Identifier: Apache-2.0

"""Which revision the tables have, and how they get to the one that this version needs.

Several processes may upgrade at once: one does it, the others wait and find it
done.  The database's own lock sees to that.  Only who upgrades imports alembic, which
would be a fifth of what a start takes.
"""

from __future__ import annotations

import functools
import logging
import pathlib
import time

import sqlalchemy as sa

from ironic_virt.compute import errors
from ironic_virt.compute.db import engine as engines
from ironic_virt.compute.db.transactions import Transactions

LOG = logging.getLogger(__name__)

SYNC_COMMAND = "ironic-virt-manage db sync"

_MIGRATIONS = pathlib.Path(__file__).with_name("migrations")
_VERSION_TABLE = "alembic_version"
_LOCK_NAME = "ironic_virt_schema"
_LOCK_NUMBER = 0x69726F6E
# Less than what a statement is given.
_LOCK_SECONDS = 240
_PAUSE_SECONDS = 0.05


@functools.cache
def _revisions() -> tuple[str, ...]:
    """All that this version of the package knows, the oldest first.

    A migration's file is named after its revision: ``r0001_first_tables.py``.
    """
    names = [path.name for path in (_MIGRATIONS / "versions").glob("r[0-9]*_*.py")]
    return tuple(sorted(name.removeprefix("r").partition("_")[0] for name in names))


def head() -> str:
    """The revision that this version of the package needs."""
    assert _revisions(), "the migrations were not installed"
    return _revisions()[-1]


def version(transactions: Transactions) -> str | None:
    """The revision of the tables in the database; ``None``: there are none.

    :raises DatabaseUnreachable: it can't be asked.
    """
    return transactions.read(_version)


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(_VERSION_TABLE):
        return None
    found: str | None = connection.scalar(sa.text(f"SELECT version_num FROM {_VERSION_TABLE}"))
    return found


def check(transactions: Transactions) -> None:
    """See that the tables are those that this version works with.

    :raises SchemaMismatch: they are older or newer, or there are none.
    :raises DatabaseUnreachable: it can't be asked.
    """
    found = version(transactions)
    if found != head():
        raise errors.SchemaMismatch(transactions.url, found, head(), _advice(found))


def _advice(found: str | None) -> str:
    if found is not None and found not in _revisions():
        return "that is of a newer version; upgrade this package"
    return f"run '{SYNC_COMMAND}'"


def sync(transactions: Transactions) -> tuple[str | None, str]:
    """Create the tables, or upgrade them to this version's.

    :returns: the revisions before and after.
    :raises SchemaMismatch: they are of a newer version; nothing was changed.
    :raises DatabaseUnreachable: it can't be reached.
    """
    found = version(transactions)
    if found == head():
        return found, found
    if transactions.is_sqlite:
        _write_ahead(transactions)
    before = transactions.write(_upgrade)
    LOG.info("The schema of %s: from %s to %s", transactions.url, before or "nothing", head())
    return before, head()


def _upgrade(connection: sa.Connection) -> str | None:
    _lock(connection)
    try:
        before = _version(connection)
        if before is not None and before not in _revisions():
            url = engines.shown(connection.engine.url)
            raise errors.SchemaMismatch(url, before, head(), _advice(before))
        _migrate(connection)
    finally:
        _unlock(connection)
    return before


def _migrate(connection: sa.Connection) -> None:
    from alembic import command, config

    settings = config.Config(attributes={"connection": connection})
    # The directory may hold a percent sign, which the settings would interpolate.
    settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    settings.set_main_option("path_separator", "newline")
    command.upgrade(settings, "head")


def _write_ahead(transactions: Transactions) -> None:
    """Switch the write-ahead log of an SQLite file on; it stays with the file.

    That can't be done within a transaction, and of two processes that do it at once SQLite
    refuses one instead of letting it wait.
    """
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            with transactions.engine.connect() as connection:
                connection.exec_driver_sql("COMMIT")
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            return
        except sa.exc.OperationalError as exc:
            if time.monotonic() > until:
                raise errors.DatabaseFailed(transactions.url, str(exc.orig)) from exc
        time.sleep(_PAUSE_SECONDS)


def _lock(connection: sa.Connection) -> None:
    # An SQLite file is locked by the transaction.
    if connection.dialect.name == engines.MYSQL:
        if not connection.scalar(sa.select(sa.func.get_lock(_LOCK_NAME, _LOCK_SECONDS))):
            raise _unending(engines.shown(connection.engine.url))
    elif connection.dialect.name == engines.POSTGRESQL:
        # For this transaction; otherwise it would wait for ever.
        connection.execute(sa.text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
        try:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_NUMBER)))
        except sa.exc.OperationalError as exc:
            # What oslo.db knows no better name for; a lost connection has one.
            raise _unending(engines.shown(connection.engine.url)) from exc


def _unending(url: str) -> errors.DatabaseFailed:
    return errors.DatabaseFailed(url, f"another '{SYNC_COMMAND}' does not come to an end")


def _unlock(connection: sa.Connection) -> None:
    if connection.dialect.name == engines.MYSQL:
        # Tables are there at once, but their version only with the end of the transaction:
        # whoever is next would make them again.
        connection.exec_driver_sql("COMMIT")
        connection.execute(sa.select(sa.func.release_lock(_LOCK_NAME)))
