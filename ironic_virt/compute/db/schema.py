# SPDX-License-Identifier: Apache-2.0

"""Which revision the tables have, and how they get to the one that this version needs.

Several processes may upgrade at once: one does it, the others wait and find it
done.
"""

from __future__ import annotations

import functools
import logging
import pathlib

import sqlalchemy as sa
from alembic import command, config, script
from alembic.runtime import migration

from ironic_virt.compute import errors
from ironic_virt.compute.db import engine as engines
from ironic_virt.compute.db.transactions import Transactions

LOG = logging.getLogger(__name__)

SYNC_COMMAND = "ironic-virt-manage db sync"

_LOCK_NAME = "ironic_virt_schema"
_LOCK_NUMBER = 0x69726F6E
# Less than what a statement is given.
_LOCK_SECONDS = 240


def _alembic(connection: sa.Connection | None = None) -> config.Config:
    settings = config.Config(attributes={"connection": connection})
    # The directory may hold a percent sign, which the settings would interpolate.
    directory = str(pathlib.Path(__file__).with_name("migrations"))
    settings.set_main_option("script_location", directory.replace("%", "%%"))
    settings.set_main_option("path_separator", "newline")
    return settings


@functools.cache
def head() -> str:
    """The revision that this version of the package needs."""
    newest = script.ScriptDirectory.from_config(_alembic()).get_current_head()
    assert newest is not None, "the migrations were not installed"
    return newest


def version(transactions: Transactions) -> str | None:
    """The revision of the tables in the database; ``None``: there are none.

    :raises DatabaseUnreachable: it can't be asked.
    """
    return transactions.read(_version)


def _version(connection: sa.Connection) -> str | None:
    return migration.MigrationContext.configure(connection).get_current_revision()


def check(transactions: Transactions) -> None:
    """See that the tables are those that this version works with.

    :raises SchemaMismatch: they are older or newer, or there are none.
    :raises DatabaseUnreachable: it can't be asked.
    """
    found = version(transactions)
    if found != head():
        raise errors.SchemaMismatch(transactions.url, found, head(), _advice(found))


def _advice(found: str | None) -> str:
    if found is not None and not _is_known(found):
        return "that is of a newer version; upgrade this package"
    return f"run '{SYNC_COMMAND}'"


def _is_known(revision: str) -> bool:
    scripts = script.ScriptDirectory.from_config(_alembic())
    return revision in {known.revision for known in scripts.walk_revisions()}


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
        if before is not None and not _is_known(before):
            url = engines.shown(connection.engine.url)
            raise errors.SchemaMismatch(url, before, head(), _advice(before))
        command.upgrade(_alembic(connection), "head")
    finally:
        _unlock(connection)
    return before


def _write_ahead(transactions: Transactions) -> None:
    # Stays with the file, and can't be changed within a transaction.
    with transactions.engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")


def _lock(connection: sa.Connection) -> None:
    # SQLite has its lock already.
    if connection.dialect.name == engines.MYSQL:
        if not connection.scalar(sa.select(sa.func.get_lock(_LOCK_NAME, _LOCK_SECONDS))):
            raise _unending(connection)
    elif connection.dialect.name == engines.POSTGRESQL:
        # For this transaction; otherwise it would wait for ever.
        connection.execute(sa.text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
        try:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_NUMBER)))
        except sa.exc.OperationalError as exc:
            # What oslo.db knows no better name for; a lost connection has one.
            raise _unending(connection) from exc


def _unending(connection: sa.Connection) -> errors.DatabaseFailed:
    url = engines.shown(connection.engine.url)
    return errors.DatabaseFailed(url, f"another '{SYNC_COMMAND}' does not come to an end")


def _unlock(connection: sa.Connection) -> None:
    if connection.dialect.name == engines.MYSQL:
        connection.execute(sa.select(sa.func.release_lock(_LOCK_NAME)))
