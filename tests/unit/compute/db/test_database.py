# SPDX-License-Identifier: Apache-2.0

"""Transactions: what is tried again, how often, and what errors say."""

import logging
import pathlib
import time

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exception

from ironic_virt.compute import errors
from ironic_virt.compute.db import Database
from tests.unit.compute.db.conftest import Load

LOST = db_exception.DBConnectionError(Exception("gone"))
CONFLICT = db_exception.DBDeadlock(Exception("deadlock"))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


@pytest.fixture
def db(load: Load, tmp_path: pathlib.Path, pauses: list[float]) -> Database:
    return Database(load(f"sqlite:///{tmp_path}/x.sqlite"))


class Failing:
    """Work that fails a number of times."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.runs = 0

    def __call__(self, connection: sa.Connection) -> str:
        self.runs += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def test_a_conflict_is_tried_again(db: Database, pauses: list[float]) -> None:
    work = Failing(CONFLICT, CONFLICT)
    assert db.write(work) == "done"
    assert work.runs == 3
    assert len(pauses) == 2


def test_a_connection_that_is_lost_is_told_to_who_comes_again(db, pauses) -> None:
    with pytest.raises(errors.DatabaseError, match="gone"):
        db.read(Failing(LOST))
    assert pauses == []


def test_an_error_while_the_clock_is_read_is_one_of_the_database(db: Database) -> None:
    def refuse(_connection: sa.Connection) -> None:
        db._clock._statement = "SELECT now FROM nowhere"

    sa.event.listen(db.engine, "begin", refuse)
    with pytest.raises(errors.DatabaseError, match="no such table"):
        db.write(db.read_clock)


def test_conflicts_without_an_end_end_in_an_error(db: Database) -> None:
    with pytest.raises(errors.DatabaseError, match="deadlock"):
        db.write(Failing(*[CONFLICT] * 999))


def test_a_failed_transaction_has_no_effect(db: Database) -> None:
    db.write(lambda connection: connection.exec_driver_sql("CREATE TABLE t (a INT)"))

    def work(connection: sa.Connection) -> None:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        raise errors.NoSuchInstance("x")

    with pytest.raises(errors.NoSuchInstance):
        db.write(work)
    assert db.read(lambda c: c.scalar(sa.text("SELECT count(*) FROM t"))) == 0


def test_no_log_line_and_no_error_holds_user_data(load, tmp_path, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "sqlalchemy.engine")
    db = Database(load(f"sqlite:///{tmp_path}/x.sqlite"))
    db.open(make=True)
    statement = sa.text("INSERT INTO instances (user_data) VALUES (:user_data)")
    with pytest.raises(errors.DatabaseError) as raised:
        db.write(lambda c: c.execute(statement, {"user_data": "hush-hush"}))
    assert "NOT NULL" in str(raised.value)
    cause: BaseException | None = raised.value
    while cause is not None:
        assert "hush-hush" not in str(cause)
        cause = cause.__cause__
    assert "INSERT INTO instances" in caplog.text
    assert "hush-hush" not in caplog.text
