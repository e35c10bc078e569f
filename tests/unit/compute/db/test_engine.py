# SPDX-License-Identifier: Apache-2.0

"""Connection URLs: which are taken, and that no error shows a password."""

import os
import pathlib
import stat

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.compute.db import Database
from ironic_virt.compute.db import engine as engines
from tests.unit.compute.db.conftest import Load


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("nonsense", "not a URL"),
        ("mysql+pymysql://u:secret@[::1/x", "not a URL"),
        ("oracle://u:secret@h/x", "'oracle' is not supported"),
        ("sqlite://", "SQLite needs a file"),
        ("sqlite:///:memory:", "SQLite needs a file"),
        ("postgresql+nosuch://u:secret@h/x", r"install the extra 'postgresql'"),
        ("mysql+nosuch://u:secret@h/x", r"install the extra 'mysql'"),
    ],
)
def test_a_url_that_can_t_be_used_is_one_clear_line(load: Load, url: str, complaint: str) -> None:
    with pytest.raises(exceptions.InvalidConfiguration, match=complaint) as raised:
        Database(load(url))
    assert raised.value.option == "[database] connection"
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_password_is_never_shown(load: Load) -> None:
    db = Database(load("mysql+pymysql://u:secret@h:3307/x?ssl_key=hidden&password=secret"))
    assert db.url == "mysql+pymysql://u:***@h:3307/x"


@pytest.mark.parametrize(
    ("connection", "name", "value"),
    [
        ("mysql+pymysql://u@h/x", "read_timeout", "300"),
        ("mysql+pymysql://u@h/x?read_timeout=7", "read_timeout", "7"),
        ("mysql+pymysql://u@h/x?charset=utf8", "charset", "utf8"),
        # It is called by a name that oslo.db knows.
        ("mariadb+pymysql://u@h/x", "charset", "utf8mb4"),
        ("mariadb+pymysql://u@h/x", "connect_timeout", "10"),
        ("postgresql+psycopg2://u@h/x", "tcp_user_timeout", "300000"),
        ("postgresql://u@h/x", "keepalives_idle", "60"),
        ("postgresql://u@h/x?keepalives_idle=7", "keepalives_idle", "7"),
    ],
)
def test_our_parameters_bound_the_wait_for_a_silent_server(load, connection, name, value) -> None:
    url = engines.connection_url(load(connection))
    assert url.query[name] == value
    assert url.get_backend_name() in {"mysql", "postgresql"}


def test_a_driver_that_has_other_parameters_gets_none_of_ours(load: Load) -> None:
    assert set(engines.connection_url(load("mysql+mysqldb://u@h/x")).query) == {"charset"}


def test_the_embedded_database_is_made_and_is_its_owner_s_alone(load, tmp_path) -> None:
    before = os.umask(0o022)
    try:
        db = Database(load()).open()
        db.flavors.create(virt.Flavor("gold"))
    finally:
        os.umask(before)
    assert db.is_new
    state = tmp_path / "state"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in state.glob("*.sqlite*")}
    assert set(modes.values()) == {0o600}
    assert not Database(load()).open().is_new


def test_a_state_path_that_can_t_be_made_is_named(load: Load, tmp_path: pathlib.Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(exceptions.InvalidConfiguration, match=r"state_path.*state can't be made"):
        Database(load()).open()


@pytest.mark.parametrize(("value", "synchronous"), [("true", 2), ("false", 0)])
def test_a_file_is_written_through_unless_told_otherwise(load, value, synchronous) -> None:
    engine = engines.make_engine(load(None, f"sqlite_synchronous = {value}"))
    engines.make_file(pathlib.Path(engine.url.database or ""), in_directory=True)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == synchronous
