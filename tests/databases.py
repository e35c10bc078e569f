# SPDX-License-Identifier: Apache-2.0

"""A fresh database for each test, on each database that the records work with.

``IRONIC_VIRT_TEST_DATABASE`` names the kinds to use, with commas between them, or
``all``; SQLite alone unless it is set, which needs no server.  MariaDB and
PostgreSQL are taken where they run and let us in, else started for these tests
alone.  A URL in ``IRONIC_VIRT_MARIADB_URL`` or ``IRONIC_VIRT_POSTGRESQL_URL`` names
the server to use.
"""

import contextlib
import dataclasses
import glob
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ironic_virt.testing.server_process import ServerProcess
from tools.real_ironic import database as mariadb

VARIABLE = "IRONIC_VIRT_TEST_DATABASE"
POSTGRESQL_VARIABLE = "IRONIC_VIRT_POSTGRESQL_URL"
SQLITE = "sqlite"
MARIADB = "mariadb"
POSTGRESQL = "postgresql"
KINDS = (SQLITE, MARIADB, POSTGRESQL)

_USUAL_POSTGRESQL = (
    "postgresql+psycopg2://postgres@127.0.0.1:5432/postgres",
    "postgresql+psycopg2:///postgres?host=/var/run/postgresql",
)
_START_SECONDS = 300.0


class NoServer(Exception):
    """There is no server of this kind, and none can be started."""


def selected(variables: Mapping[str, str] = os.environ) -> list[str]:
    """The kinds of databases that tests are to use.

    :raises ValueError: there is no such kind.
    """
    wanted = variables.get(VARIABLE, SQLITE)
    kinds = list(KINDS) if wanted == "all" else [kind.strip() for kind in wanted.split(",")]
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"{VARIABLE}: no database {kind!r}: {', '.join(KINDS)}, or all")
    return kinds


@dataclasses.dataclass(frozen=True)
class Server:
    """Where databases are made.

    :param url: of the server; for SQLite it says nothing.
    """

    kind: str
    url: str

    @contextlib.contextmanager
    def fresh(self, directory: Path) -> Iterator[str]:
        """An empty database, gone in the end.

        :param directory: where an SQLite file goes.
        :returns: its URL.
        """
        name = f"ironic_virt_{secrets.token_hex(6)}"
        if self.kind == SQLITE:
            yield f"sqlite:///{directory / name}.sqlite"
            return
        self._execute(f"CREATE DATABASE {name}")
        try:
            url = sa.engine.make_url(mariadb.database_url(self.url, name))
            yield url.render_as_string(hide_password=False)
        finally:
            force = " WITH (FORCE)" if self.kind == POSTGRESQL else ""
            self._execute(f"DROP DATABASE {name}{force}")

    def _execute(self, statement: str) -> None:
        execute(self.url, statement)


def execute(url: str, statement: str) -> None:
    """Run one statement on a server, outside of any transaction."""
    arguments: dict[str, Any] = {"connect_args": {"connect_timeout": 60}}
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", **arguments)
    try:
        with engine.connect() as connection:
            connection.execute(sa.text(statement))
    finally:
        engine.dispose()


@contextlib.contextmanager
def server(kind: str, variables: Mapping[str, str] = os.environ) -> Iterator[Server]:
    """A server of a kind: one that runs, else one that is started here.

    :raises NoServer: there is none and none can be started.
    """
    if kind == SQLITE:
        yield Server(kind, "sqlite://")
        return
    if kind == MARIADB:
        variable, usual = mariadb.MARIADB_VARIABLE, mariadb.server_urls({})
    else:
        variable, usual = POSTGRESQL_VARIABLE, _USUAL_POSTGRESQL
    own = variables.get(variable)
    refusals = []
    for url in (own,) if own else usual:
        try:
            execute(url, "SELECT 1")
        except sa.exc.SQLAlchemyError as error:
            refusals.append(f"{url}: {str(error).splitlines()[0]}")
        else:
            yield Server(kind, url)
            return
    if own:
        raise NoServer(f"The server that {variable} names: {refusals[0]}")
    private = mariadb.private_server if kind == MARIADB else _private_postgresql
    with private("\n".join(refusals)) as url:
        yield Server(kind, url)


def _postgresql_program(name: str) -> str | None:
    # Debian keeps them out of PATH, in one directory for each version.
    directories = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *directories))
    return shutil.which(name, path=path)


@contextlib.contextmanager
def _private_postgresql(refusals: str) -> Iterator[str]:
    """Start an installed PostgreSQL that is reached by a socket in one of our directories."""
    postgres, initdb = _postgresql_program("postgres"), _postgresql_program("initdb")
    if postgres is None or initdb is None:
        raise NoServer(
            f"This needs a PostgreSQL server. None let us in:\n{refusals}\nand none is installed "
            "that could be started for these tests alone. Either install one (apt-get install "
            "postgresql), or name one that you may create databases on: "
            f"{POSTGRESQL_VARIABLE}=postgresql+psycopg2://user:password@host:5432/postgres"
        )
    directory = Path(tempfile.mkdtemp(prefix="ironic-virt-postgresql-", dir="/tmp"))
    as_user: list[str] = []
    if os.geteuid() == 0:
        # It refuses to run as root.
        account = pwd.getpwnam("postgres")
        os.chown(directory, account.pw_uid, account.pw_gid)
        as_user = [
            *(shutil.which("setpriv") or "setpriv", f"--reuid={account.pw_uid}"),
            *(f"--regid={account.pw_gid}", "--clear-groups"),
        ]
    data = directory / "data"
    made = subprocess.run(
        [*as_user, initdb, "-D", str(data), "-U", "postgres", "--auth=trust", "-E", "UTF8"],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
    )
    if made.returncode:
        shutil.rmtree(directory, ignore_errors=True)
        raise NoServer(f"{initdb} failed:\n{made.stdout[-2000:]}{made.stderr[-2000:]}")
    process = ServerProcess(
        [
            *(*as_user, postgres, "-D", str(data), "-k", str(directory)),
            *("-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=300"),
        ],
        directory=directory,
        log=directory / "log",
    )
    url = f"postgresql+psycopg2://postgres@/postgres?host={directory}"
    try:
        _await_postgresql(url, process)
        yield url
    finally:
        process.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _await_postgresql(url: str, process: ServerProcess) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            execute(url, "SELECT 1")
        except sa.exc.SQLAlchemyError as error:
            if process.exit_status is not None or time.monotonic() > deadline:
                raise NoServer(f"PostgreSQL did not start:\n{process.log_tail()}") from error
            time.sleep(0.1)
        else:
            return
