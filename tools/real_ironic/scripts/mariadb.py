# SPDX-License-Identifier: Apache-2.0

"""Create or drop a database on a MariaDB server.

Runs with the Python of Ironic's virtualenv, which has PyMySQL and SQLAlchemy:

- ``mariadb.py create NAME URL...`` creates database NAME on the first of the
  servers that lets us in, and prints that server's URL.  When none does, it prints
  on standard error what each said, and exits with 3.
- ``mariadb.py drop NAME URL`` drops it, if it is there.
"""

import importlib
import sys
from typing import Any

NO_SERVER = 3
CONNECT_TIMEOUT = 60
# Seconds; what still has the database open may be an Ironic that was only just stopped.
LOCK_TIMEOUT = 60


def execute(url: str, statement: str) -> None:
    """Run one statement on the server that ``url`` names."""
    sqlalchemy: Any = importlib.import_module("sqlalchemy")
    engine = sqlalchemy.create_engine(url, connect_args={"connect_timeout": CONNECT_TIMEOUT})
    try:
        with engine.connect() as connection:
            # The server would wait a day.
            connection.execute(sqlalchemy.text(f"SET SESSION lock_wait_timeout = {LOCK_TIMEOUT}"))
            connection.execute(sqlalchemy.text(statement))
    finally:
        engine.dispose()


def create(name: str, urls: list[str]) -> int:
    for url in urls:
        try:
            execute(url, f"CREATE DATABASE `{name}` CHARACTER SET utf8mb3")
        except Exception as error:  # for any cause: the next server may work
            print(f"{url}: {str(error).splitlines()[0]}", file=sys.stderr)
        else:
            print(url)
            return 0
    return NO_SERVER


def main() -> int:
    action, name, *urls = sys.argv[1:]
    if action == "create":
        return create(name, urls)
    execute(urls[0], f"DROP DATABASE IF EXISTS `{name}`")
    return 0


if __name__ == "__main__":
    sys.exit(main())
