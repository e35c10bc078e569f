# SPDX-License-Identifier: Apache-2.0

"""Writes every record that any logger is given to a file, at every level.

Python imports this when it starts, if it is on its path.  Handlers get what they would
have got without it.  Left out is what SQLAlchemy's engine echoes, which is the records
themselves: it says nothing of it, also with ``debug``, unless an operator asks it by name.
"""

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

DIRECTORY = "IRONIC_VIRT_TEST_LOGS"
"""The environment variable that names the directory."""

_ECHO = "sqlalchemy.engine"

_FORM = logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s %(message)s")


@contextlib.contextmanager
def watching(directory: str) -> Iterator[None]:
    """Write the records of this process, as long as the block runs."""
    is_enabled, handle = logging.Logger.isEnabledFor, logging.Logger.handle
    path = os.path.join(directory, f"{os.getpid()}.log")

    def write(self: logging.Logger, record: logging.LogRecord) -> None:
        try:
            text = _FORM.format(record)
        except Exception:
            text = repr((record.msg, record.args))
        # Opened again each time: a process may fork, and may be killed.
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text + "\n")
        if is_enabled(self, record.levelno):
            handle(self, record)

    def all_but_an_echo(self: logging.Logger, level: int) -> bool:
        return not self.name.startswith(_ECHO) or is_enabled(self, level)

    replaced: dict[str, Any] = {"isEnabledFor": all_but_an_echo, "handle": write}
    for name, value in replaced.items():
        setattr(logging.Logger, name, value)
    try:
        yield
    finally:
        logging.Logger.isEnabledFor = is_enabled  # type: ignore[method-assign]
        logging.Logger.handle = handle  # type: ignore[method-assign]


if __name__ == "sitecustomize" and os.environ.get(DIRECTORY):
    # Kept, or it would end at once.
    _to_the_end = watching(os.environ[DIRECTORY])
    _to_the_end.__enter__()
