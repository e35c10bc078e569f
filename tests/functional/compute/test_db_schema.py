# SPDX-License-Identifier: Apache-2.0

"""The tables: made from nothing, the same as the models, and of the right version."""

from __future__ import annotations

import concurrent.futures
import pathlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import autogenerate
from alembic.runtime import migration
from oslo_config import cfg

from ironic_virt.compute import errors
from ironic_virt.compute.db import Database, engine, models, schema
from ironic_virt.conf import database

SECONDS = 240
"""More than anything here should take."""


@pytest.fixture
def empty(database_conf: cfg.ConfigOpts) -> Database:
    """A database without tables."""
    return Database(database_conf, patient=False)


def test_tables_are_made_from_nothing_and_once(empty: Database) -> None:
    assert empty.version() is None
    assert empty.sync() == (None, empty.needed_version)
    assert empty.sync() == (empty.needed_version, empty.needed_version)
    assert empty.version() == empty.needed_version
    empty.close()


def test_the_migrations_make_what_the_models_say(db: Database) -> None:
    with db._transactions.engine.connect() as connection:
        assert differences(connection) == []


def differences(connection: sa.Connection) -> Sequence[object]:
    """What a database's tables lack to be the models'."""
    context = migration.MigrationContext.configure(
        connection, opts={"compare_type": True, "compare_server_default": True}
    )
    return autogenerate.compare_metadata(context, models.METADATA)


class CutOff(Exception):
    """The process dies."""


def test_a_sync_that_was_cut_off_anywhere_is_repeated(empty: Database) -> None:
    transactions = empty._transactions
    made: list[str] = []
    cut_at = 0

    def cut(connection: sa.Connection, cursor: Any, statement: str, *_more: Any) -> None:
        if not statement.lstrip().startswith(("CREATE", "INSERT INTO alembic")):
            return
        made.append(statement)
        if len(made) == cut_at:
            if transactions.is_sqlite:
                # As MariaDB does, statement by statement.
                cursor.execute("COMMIT")
            raise CutOff(statement)

    sa.event.listen(transactions.engine, "after_cursor_execute", cut)
    synced = False
    while not synced:
        cut_at += 1
        with transactions.engine.begin() as connection:
            found = sa.MetaData()
            found.reflect(connection)
            found.drop_all(connection)
        made.clear()
        try:
            empty.sync()
            synced = True
        except errors.DatabaseFailed:
            made.clear()
            dead, cut_at = cut_at, -1
            empty.sync()
            cut_at = dead
        with transactions.engine.connect() as connection:
            assert differences(connection) == [], f"cut off after statement {cut_at}"
    assert cut_at > len(models.METADATA.tables)
    empty.close()


def test_a_database_without_tables_is_refused_with_the_command_to_run(empty: Database) -> None:
    with pytest.raises(errors.SchemaMismatch, match="run 'ironic-virt-manage db sync'") as raised:
        empty.open()
    assert "\n" not in str(raised.value)
    empty.close()


@pytest.mark.parametrize("act", [Database.open, Database.sync], ids=["open", "sync"])
def test_tables_of_a_newer_version_are_refused_and_left_alone(
    db: Database, act: Callable[[Database], object]
) -> None:
    with db._transactions.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(errors.SchemaMismatch, match="newer version") as raised:
        act(db)
    assert raised.value.found == "9999"
    assert db.version() == "9999"


def test_tables_that_somebody_else_does_not_finish_are_not_waited_for_for_ever(
    empty: Database, database_conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch
) -> None:
    if empty._transactions.is_sqlite:
        pytest.skip("An SQLite file has tests of its own")
    monkeypatch.setattr(schema, "_LOCK_SECONDS", 1)
    other = Database(database_conf)
    with other._transactions.engine.begin() as connection:
        schema._lock(connection)
        with pytest.raises(errors.DatabaseFailed, match="does not come to an end"):
            empty.sync()
        schema._unlock(connection)
    assert empty.sync() == (None, empty.needed_version)
    other.close()
    empty.close()


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where an SQLite file may be made."""
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    return directory / "records.sqlite"


@pytest.fixture
def in_file(file: pathlib.Path) -> Iterator[Database]:
    """A database without tables in that file."""
    config = file.with_suffix(".conf")
    config.write_text(f"[database]\nconnection = sqlite:///{file}\n")
    db = Database(database.load([str(config)]), patient=False)
    yield db
    db.close()


@pytest.fixture
def reader(file: pathlib.Path) -> Iterator[sqlite3.Connection]:
    """Another process that reads the file, which SQLite can't switch to its log meanwhile."""
    connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
    connection.execute("CREATE TABLE other (id INTEGER)")
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM other").fetchall()
    yield connection
    connection.close()


def test_a_file_that_another_process_has_is_waited_for_and_not_for_ever(
    in_file: Database, reader: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_BUSY_SECONDS", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "_LOCK_SECONDS", 0.2)
        with pytest.raises(errors.DatabaseFailed, match="locked"):
            in_file.sync()
    timer = threading.Timer(0.3, lambda: reader.execute("COMMIT"))
    timer.start()
    assert in_file.sync() == (None, in_file.needed_version)
    timer.join(SECONDS)


def test_who_gets_the_lock_next_sees_that_the_tables_are_there(
    empty: Database, database_conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch
) -> None:
    if empty._transactions.engine.dialect.name != engine.MYSQL:
        pytest.skip("Only in MariaDB are tables there before the transaction's end")
    seen: list[str | None] = []
    unlock = schema._unlock

    def look_then(connection: sa.Connection) -> None:
        unlock(connection)
        after = Database(database_conf, patient=False)
        seen.append(after.version())
        after.close()

    monkeypatch.setattr(schema, "_unlock", look_then)
    empty.sync()
    assert seen == [empty.needed_version]
    empty.close()


def test_several_who_make_the_tables_at_once_get_along(database_conf: cfg.ConfigOpts) -> None:
    barrier = threading.Barrier(4)

    def run(_number: int) -> None:
        db = Database(database_conf)
        try:
            barrier.wait(SECONDS)
            db.sync()
            db.open()
        finally:
            db.close()

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(4), timeout=SECONDS))
