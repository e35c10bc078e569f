# SPDX-License-Identifier: Apache-2.0

"""The tables: made from nothing, whoever is cut off or comes in between, and of one version."""

import concurrent.futures
import pathlib
import sqlite3
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.compute import errors
from ironic_virt.compute.db import Database, database, engine, tables
from ironic_virt.conf import database as options

SECONDS = 240
"""More than anything here should take."""


@pytest.fixture
def empty(database_conf: cfg.ConfigOpts) -> Iterator[Database]:
    """A database without tables."""
    db = Database(database_conf)
    yield db
    db.close()


def names(connection: sa.Connection) -> dict[str, set[str | None]]:
    """The indexes of each table."""
    inspector = sa.inspect(connection)
    return {
        table: {index["name"] for index in inspector.get_indexes(table)}
        for table in inspector.get_table_names()
    }


def test_tables_are_made_from_nothing_and_once(empty: Database) -> None:
    for is_new in (True, False):
        assert empty.open(make=True).is_new is is_new
    assert empty.version() == tables.VERSION


class CutOff(Exception):
    """The process dies."""


def test_tables_half_made_are_completed_by_the_next(empty, monkeypatch) -> None:
    monkeypatch.setattr(database, "_MAKING_SECONDS", 0.0)
    made: list[str] = []
    cut_at = 0

    def cut(connection: sa.Connection, cursor: Any, statement: str, *_more: Any) -> None:
        if not statement.lstrip().startswith(("CREATE", "INSERT INTO schema")):
            return
        made.append(statement)
        if len(made) == cut_at:
            if empty.is_sqlite:
                # As MariaDB does, statement by statement.
                cursor.execute("COMMIT")
            raise CutOff(statement)

    sa.event.listen(empty.engine, "after_cursor_execute", cut)
    wanted: dict[str, set[str | None]] = {}
    while not made or cut_at <= len(made):
        with empty.engine.begin() as connection:
            found = sa.MetaData()
            found.reflect(connection)
            found.drop_all(connection)
        made.clear()
        try:
            empty.open(make=True)
        except (errors.DatabaseError, CutOff):
            dead, cut_at = cut_at, -1
            empty.open(make=True)
            cut_at = dead
        with empty.engine.connect() as connection:
            wanted = wanted or names(connection)
            assert names(connection) == wanted, f"cut off after statement {cut_at}"
        cut_at += 1
    assert set(wanted) == set(tables.METADATA.tables)
    assert cut_at > len(tables.METADATA.tables)


@pytest.mark.parametrize("make", [True, False])
@pytest.mark.parametrize(
    ("found", "words"), [(9999, "newer version"), (0, "'ironic-virt server adopt'")]
)
def test_tables_of_another_version_are_refused_and_left_alone(db, make, found, words) -> None:
    with db.engine.begin() as connection:
        connection.execute(sa.update(tables.schema_version).values(version=found))
    with pytest.raises(errors.SchemaMismatch, match=words) as raised:
        db.open(make=make)
    assert raised.value.version == found
    assert db.version() == found


@pytest.mark.parametrize("pages", [1, 5])
def test_a_full_disk_is_named_at_once_and_leaves_no_tables(in_file: Database, pages: int) -> None:
    @sa.event.listens_for(in_file.engine, "connect")
    def fill(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(exceptions.InvalidConfiguration, match=r"is the disk full\?") as raised:
        in_file.open(make=True)
    assert "database or disk is full" in str(raised.value)
    assert in_file.version() is None


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where an SQLite file may be made."""
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    return directory / "records.sqlite"


@pytest.fixture
def in_file(file: pathlib.Path, monkeypatch) -> Iterator[Database]:
    """A database without tables in that file; SQLite itself waits for nobody."""
    monkeypatch.setattr(engine, "_BUSY_SECONDS", 0.0)
    config = file.with_suffix(".conf")
    config.write_text(f"[database]\nconnection = sqlite:///{file}\n")
    db = Database(options.load([str(config)]))
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


def test_a_file_in_use_is_waited_for_up_to_a_limit(in_file, reader, monkeypatch) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 5:
            reader.execute("COMMIT")

    # What SQLite itself waits counts, too.
    clock = types.SimpleNamespace(sleep=sleep, monotonic=lambda: 20.0 * len(pauses))
    monkeypatch.setattr(database, "time", clock)
    with pytest.raises(errors.DatabaseError, match="locked"):
        in_file.open(make=True)
    assert len(pauses) == 3
    assert in_file.open(make=True).is_new
    assert len(pauses) == 6


def test_several_who_make_the_tables_at_once_get_along(database_conf: cfg.ConfigOpts) -> None:
    barrier = threading.Barrier(4)

    def run(_number: int) -> None:
        db = Database(database_conf)
        try:
            barrier.wait(SECONDS)
            db.open(make=True)
            db.open()
        finally:
            db.close()

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(4), timeout=SECONDS))
