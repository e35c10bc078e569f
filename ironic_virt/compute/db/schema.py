# SPDX-License-Identifier: Apache-2.0

"""The version of the tables, in a table of one row, and how tables are made.

Several processes may make them at once, and one that was cut off leaves some behind, since
MariaDB commits each statement that changes a table.  Each step looks whether it is done, and the
version comes last, so whoever comes next goes on.  Nothing upgrades tables: those of another
version are refused.
"""

from __future__ import annotations

import logging
import time

import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import models
from ironic_virt.compute.db.transactions import Transactions

LOG = logging.getLogger(__name__)

VERSION = 1
"""To be raised with each change of the tables."""

# Of versions before the first release.
_FORMER_TABLE = "alembic_version"
_MAKING_SECONDS = 60.0
_PAUSE_SECONDS = 0.05


def version(transactions: Transactions) -> int | None:
    """Return the version of the tables in the database; ``None``: there are none.

    :raises DatabaseUnreachable: it can't be asked.
    """
    return transactions.read(_version)


def _version(connection: sa.Connection) -> int | None:
    inspector = sa.inspect(connection)
    if inspector.has_table(models.schema_version.name):
        return connection.scalar(sa.select(models.schema_version.c.version))
    return 0 if inspector.has_table(_FORMER_TABLE) else None


def check(transactions: Transactions) -> None:
    """See that the tables are those that this version works with.

    :raises SchemaMismatch: they are another version's, or there are none.
    :raises DatabaseUnreachable: it can't be asked.
    """
    found = version(transactions)
    if found != VERSION:
        raise mismatch(transactions, found)


def mismatch(transactions: Transactions, found: int | None) -> errors.SchemaMismatch:
    """The error about tables of another version, or ``None``, and what to do."""
    if found is None:
        advice = "start 'ironic-virt-compute', which makes them"
    elif found > VERSION:
        advice = "that is of a newer version; upgrade this package"
    else:
        advice = "use an empty database, and take the servers over with 'ironic-virt server adopt'"
    return errors.SchemaMismatch(transactions.url, found, VERSION, advice)


def make(transactions: Transactions) -> bool:
    """Make the tables, if there are none.

    :returns: whether there were none.
    :raises SchemaMismatch: they are another version's; nothing was changed.
    :raises DatabaseUnreachable: it can't be reached.
    """
    if version(transactions) is not None:
        check(transactions)
        return False
    until = time.monotonic() + _MAKING_SECONDS
    while True:
        try:
            if transactions.is_sqlite:
                _write_ahead(transactions)
            transactions.write(_make)
        except (errors.DatabaseFailed, db_exception.DBDuplicateEntry):
            # Another process makes them, too.
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)
        if version(transactions) is not None:
            check(transactions)
            LOG.info("Made the tables of %s, version %d", transactions.url, VERSION)
            return True


def _make(connection: sa.Connection) -> None:
    for table in models.METADATA.tables.values():
        table.kwargs.update(models.MYSQL)
    models.METADATA.create_all(connection)
    for table in models.METADATA.tables.values():
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    if _version(connection) is None:
        connection.execute(sa.insert(models.schema_version).values(version=VERSION))


def _write_ahead(transactions: Transactions) -> None:
    """Switch the write-ahead log of an SQLite file on; it stays with the file.

    :raises DatabaseFailed: another process has the file; SQLite does not wait for it.
    """
    try:
        with transactions.engine.connect() as connection:
            # Not within a transaction.
            connection.exec_driver_sql("COMMIT")
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    except sa.exc.OperationalError as exc:
        raise errors.DatabaseFailed(transactions.url, str(exc.orig)) from exc
