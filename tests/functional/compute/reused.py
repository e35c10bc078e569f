# SPDX-License-Identifier: Apache-2.0

"""Databases that have all tables and nothing in them, for one test after the other.

Making the tables takes a server many times as long as emptying them, and what a test wants is
seldom how they are made.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import sqlalchemy as sa

from ironic_virt.compute.db.tables import METADATA, VERSION, schema_version
from tests import databases

_VERSION = schema_version.name
_LOCK_SECONDS = 10
_STATEMENTS: dict[str, Callable[[list[str]], list[str]]] = {
    # TRUNCATE makes each of the tables again.
    databases.MARIADB: lambda tables: [
        f"SET SESSION innodb_lock_wait_timeout = {_LOCK_SECONDS}",
        "SET SESSION foreign_key_checks = 0",
        *(f"DELETE FROM `{table}`" for table in tables),
    ],
    databases.POSTGRESQL: lambda tables: [
        f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'",
        f"TRUNCATE {', '.join(tables)} RESTART IDENTITY",
    ],
}


class Reused:
    """The databases of a server for tests that don't run at the same time.

    :param make_tables: puts the tables into an empty database, given its URL.
    :param directory: for its own file.
    """

    def __init__(
        self, server: databases.Server, make_tables: Callable[[str], None], directory: Path
    ) -> None:
        self._server = server
        self._make_tables = make_tables
        self._directory = directory
        self._kept = contextlib.ExitStack()
        self._url: str | None = None

    @contextlib.contextmanager
    def database(self, directory: Path) -> Iterator[str]:
        """One of them.

        :param directory: where an SQLite file goes, a copy.
        :returns: its URL.
        """
        url = self._with_tables()
        if self._server.kind == databases.SQLITE:
            path = directory / "records.sqlite"
            shutil.copyfile(url.removeprefix("sqlite:///"), path)
            yield f"sqlite:///{path}"
            return
        try:
            yield url
        finally:
            if not self._emptied(url):
                self.close()

    def close(self) -> None:
        """Drop what is kept."""
        self._url = None
        self._kept.close()

    def _with_tables(self) -> str:
        if self._url is None:
            url = self._kept.enter_context(self._server.fresh(self._directory))
            self._make_tables(url)
            self._url = url
        return self._url

    def _emptied(self, url: str) -> bool:
        """Empty it; false: this is not how it was given to the test, or somebody still has it."""
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        try:
            with engine.begin() as connection:
                tables = sa.inspect(connection).get_table_names()
                version = connection.scalar(sa.select(schema_version.c.version))
                if {*tables} != {*METADATA.tables} or version != VERSION:
                    return False
                tables.remove(_VERSION)
                for statement in _STATEMENTS[self._server.kind](tables):
                    connection.execute(sa.text(statement))
        except sa.exc.DBAPIError:
            return False
        return True
