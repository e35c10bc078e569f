# SPDX-License-Identifier: Apache-2.0

"""Which database the real Ironic gets, and what is said when there is none."""

import logging
from pathlib import Path

import pytest

from tools.real_ironic import database as databases
from tools.real_ironic import errors
from tools.real_ironic.environment import IronicEnvironment
from tools.real_ironic.scripts import mariadb

ENVIRONMENT = IronicEnvironment(Path("/venv"))


class Servers:
    """Stands for the program that speaks to MariaDB, and records what it is told."""

    def __init__(self, *letting_in: str) -> None:
        self.letting_in = letting_in
        self.created: list[str] = []
        self.dropped: list[str] = []

    def execute(self, python, program, action, name, *urls, check_exit_code, loglevel):
        assert loglevel == logging.NOTSET, "the URLs hold passwords"
        if action == "drop":
            self.dropped.append(f"{name} {urls[0]}")
            return "", ""
        for url in urls:
            if url in self.letting_in:
                self.created.append(f"{name} {url}")
                return f"{url}\n", ""
        assert mariadb.NO_SERVER in check_exit_code
        return "", "".join(f"{url}: refused\n" for url in urls)


@pytest.fixture
def servers(monkeypatch):
    servers = Servers()
    monkeypatch.setattr(databases.processutils, "execute", servers.execute)
    return servers


def test_a_database_s_url_keeps_the_server_s_port_and_query():
    url = databases.database_url
    assert url("mysql+pymysql://u:p@h:1/", "x") == "mysql+pymysql://u:p@h:1/x"
    assert url("mysql+pymysql://u:p@h:1", "x") == "mysql+pymysql://u:p@h:1/x"
    assert url("mysql+pymysql://u@h/?unix_socket=/s", "x") == (
        "mysql+pymysql://u@h/x?unix_socket=/s"
    )


def test_the_server_that_the_user_names_is_the_only_one_tried():
    assert databases.server_urls({"IRONIC_VIRT_MARIADB_URL": "mysql://a"}) == ("mysql://a",)
    assert len(databases.server_urls({})) == 2


def test_sqlite_is_a_file_in_the_directory():
    with databases.database("sqlite", ENVIRONMENT, Path("/state")) as url:
        assert url == "sqlite:////state/ironic.sqlite"


def test_without_any_server_the_error_says_what_to_install(servers, monkeypatch):
    monkeypatch.setattr(databases, "find_program", lambda name: None)
    with (
        pytest.raises(errors.DatabaseError) as caught,
        databases.database("mariadb", ENVIRONMENT, Path("/state"), variables={}),
    ):
        pass
    assert "apt-get install mariadb-server" in str(caught.value)
    assert "127.0.0.1:3306/: refused" in str(caught.value)


def test_a_named_server_that_refuses_is_an_error_and_not_replaced(servers):
    variables = {databases.MARIADB_VARIABLE: "mysql+pymysql://u@h/"}
    with (
        pytest.raises(errors.DatabaseError, match="u@h/: refused"),
        databases.database("mariadb", ENVIRONMENT, Path("/state"), variables=variables),
    ):
        pass


def test_an_unknown_kind_names_the_known_ones():
    with (
        pytest.raises(ValueError, match="sqlite or mariadb"),
        databases.database("oracle", ENVIRONMENT, Path("/state")),
    ):
        pass
