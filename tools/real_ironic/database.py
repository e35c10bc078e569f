# SPDX-License-Identifier: Apache-2.0

"""The database under the real Ironic: an SQLite file or one on MariaDB.

SQLite is enough for one request at a time; with more Ironic answers "database
is locked" and leaves allocations unfinished.  For MariaDB a server that runs
already and lets us in is taken, else an installed one is started for this test
alone.  All SQL is spoken by Ironic's own virtualenv, so this package needs no
database driver.
"""

import contextlib
import getpass
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from oslo_concurrency import processutils

from ironic_virt.testing.server_process import ServerProcess
from tools.real_ironic import errors
from tools.real_ironic.environment import IronicEnvironment
from tools.real_ironic.scripts import SCRIPTS
from tools.real_ironic.scripts.mariadb import NO_SERVER

MARIADB_VARIABLE = "IRONIC_VIRT_MARIADB_URL"
SQLITE = "sqlite"
MARIADB = "mariadb"

_USUAL_SERVERS = (
    "mysql+pymysql://root@localhost/?unix_socket=/run/mysqld/mysqld.sock",
    "mysql+pymysql://root@127.0.0.1:3306/",
)
_START_SECONDS = 300.0
# Debian and others keep servers out of an ordinary user's PATH.
_SERVER_DIRECTORIES = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/bin")


def server_urls(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The servers to try, in order: the one that the user named, else the usual places.

    :param variables: environment variables.
    """
    if own := variables.get(MARIADB_VARIABLE):
        return (own,)
    return _USUAL_SERVERS


def database_url(server_url: str, name: str) -> str:
    """The URL of a database on a server."""
    base, question_mark, query = server_url.partition("?")
    scheme, _, rest = base.partition("://")
    authority = rest.partition("/")[0]
    return f"{scheme}://{authority}/{name}{question_mark}{query}"


@contextlib.contextmanager
def database(
    kind: str,
    environment: IronicEnvironment,
    directory: Path,
    *,
    variables: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """A fresh and empty database, which is dropped in the end.

    :param kind: :data:`SQLITE` or :data:`MARIADB`.
    :param environment: whose Python speaks to the database.
    :param directory: where an SQLite file goes.
    :param variables: environment variables; those of this process when None.
    :returns: the database's URL, in SQLAlchemy's format.
    :raises DatabaseError: when there is no MariaDB and none can be started.
    """
    if kind == SQLITE:
        yield f"sqlite:///{directory / 'ironic.sqlite'}"
    elif kind == MARIADB:
        with _mariadb(environment, os.environ if variables is None else variables) as url:
            yield url
    else:
        raise ValueError(f"no database {kind!r}: choose {SQLITE} or {MARIADB}")


@contextlib.contextmanager
def _mariadb(environment: IronicEnvironment, variables: Mapping[str, str]) -> Iterator[str]:
    name = f"ironic_virt_{secrets.token_hex(6)}"
    with contextlib.ExitStack() as stack:
        refusals, server = _create(environment, name, *server_urls(variables))
        if server is None and MARIADB_VARIABLE in variables:
            raise errors.DatabaseError(f"The server that {MARIADB_VARIABLE} names:\n{refusals}")
        if server is None:
            url = stack.enter_context(private_server(refusals))
            refusals, server = _create(environment, name, url)
        if server is None:
            raise errors.DatabaseError(f"The MariaDB that was started for this test:\n{refusals}")
        try:
            yield database_url(server, name)
        finally:
            with contextlib.suppress(processutils.ProcessExecutionError):
                _sql(environment, "drop", name, server)


def _create(environment: IronicEnvironment, name: str, *urls: str) -> tuple[str, str | None]:
    """Create the database on the first server that lets us; what the others said, that server."""
    try:
        made, refusals = _sql(environment, "create", name, *urls)
    except processutils.ProcessExecutionError as exc:
        raise errors.DatabaseError(exc.stderr) from exc
    return refusals.strip(), made.strip() or None


def _sql(environment: IronicEnvironment, *arguments: str) -> tuple[str, str]:
    """What the program that speaks to MariaDB says, and what it complains of."""
    return processutils.execute(
        *(str(environment.python), str(SCRIPTS / "mariadb.py"), *arguments),
        check_exit_code=[0, NO_SERVER],
        # The URLs may hold passwords.
        loglevel=logging.NOTSET,
    )


def find_program(name: str) -> str | None:
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SERVER_DIRECTORIES))
    return shutil.which(name, path=path)


@contextlib.contextmanager
def private_server(refusals: str, *, sleep: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Start an installed MariaDB that only we can reach, by a socket in one of our directories."""
    server = find_program("mariadbd") or find_program("mysqld")
    install = find_program("mariadb-install-db")
    if server is None or install is None:
        raise errors.DatabaseError(
            "This needs a MariaDB server. None let us in:\n"
            f"{refusals}\n"
            "and none is installed that could be started for this test alone. Either install "
            "one (apt-get install mariadb-server), or name one that you may create databases "
            f"on: {MARIADB_VARIABLE}=mysql+pymysql://user:password@host:3306/"
        )
    # Not below TMPDIR: a socket's path may have 107 characters only.
    directory = Path(tempfile.mkdtemp(prefix="ironic-virt-mariadb-", dir="/tmp"))
    socket = directory / "socket"
    user = getpass.getuser()
    common = ["--no-defaults", f"--datadir={directory / 'data'}", f"--user={user}"]
    try:
        processutils.execute(
            *(install, *common, "--auth-root-authentication-method=normal", "--skip-test-db")
        )
    except processutils.ProcessExecutionError as exc:
        shutil.rmtree(directory, ignore_errors=True)
        raise errors.DatabaseError(
            f"{install} failed:\n{(exc.stdout or '')[-2000:]}{(exc.stderr or '')[-2000:]}"
        ) from exc
    process = ServerProcess(
        [
            *(server, *common, f"--socket={socket}", "--skip-networking"),
            # A test's data need not survive a power cut.
            *("--innodb-flush-log-at-trx-commit=0", "--max-connections=500"),
        ],
        directory=directory,
        log=directory / "log",
    )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not socket.exists():
            if process.exit_status is not None or time.monotonic() > deadline:
                raise errors.DatabaseError(f"{server} did not start:\n{process.log_tail()}")
            sleep(0.1)
        yield f"mysql+pymysql://{user}@localhost/?unix_socket={socket}"
    finally:
        process.stop()
        shutil.rmtree(directory, ignore_errors=True)
