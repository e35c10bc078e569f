# SPDX-License-Identifier: Apache-2.0

"""Nova's configuration and database, opened as ``nova-manage`` opens them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from importlib import util
from pathlib import Path
from typing import Any

import nova
from oslo_config import cfg
from oslo_db import exception as db_exception
from sqlalchemy import exc as sa_exceptions

from ironic_virt import exceptions
from ironic_virt.conf import reason_of

DATABASE_ERRORS = (db_exception.DBError, sa_exceptions.SQLAlchemyError)
"""What Nova's engines raise: oslo.db's errors, and those of SQLAlchemy that it leaves alone."""


class DatabaseFailed(exceptions.IronicVirtError):
    """A database of Nova did not answer, or refused."""


@contextlib.contextmanager
def asking(database: str = "Nova's API database", errors: Any = DATABASE_ERRORS) -> Iterator[None]:
    """Raise a database's errors as :class:`DatabaseFailed`, without the library's link."""
    try:
        yield
    except errors as exc:
        reason = str(exc).partition("\n")[0].partition(" (Background on")[0]
        raise DatabaseFailed(f"{database}: {reason}") from exc


def load(files: Sequence[str], directories: Sequence[str] = ()) -> cfg.ConfigOpts:
    """Read Nova's files with our options, and make its databases and objects usable here."""
    arguments = [f"--config-file={path}" for path in files]
    arguments += [f"--config-dir={path}" for path in directories]
    try:
        # Nova may read its files for this, too.
        _keep_native_threads()
        from nova import config, objects

        from ironic_virt.nova import options

        config.parse_args(["ironic-virt-fleet", *arguments])
    except cfg.Error as exc:
        raise exceptions.InvalidConfiguration("--config-file", reason_of(exc)) from None
    options.check_release()
    objects.register_all()
    conf: cfg.ConfigOpts = nova.conf.CONF
    options.register_opts(conf)
    # Nova sets none, and would wait for a silent Placement without end.
    conf.set_default("timeout", 120, "placement")
    return conf


def _keep_native_threads() -> None:
    """Have Nova use this process's threads.

    Nova 32 and later choose when they are imported; older ones patch only their own processes.
    """
    spec = util.find_spec("nova.monkey_patch")
    if spec is not None and "def patch(backend" in Path(spec.origin or "").read_text("utf-8"):
        from nova import monkey_patch

        monkey_patch.patch(backend="threading")
