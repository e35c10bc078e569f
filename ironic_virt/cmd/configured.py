# SPDX-License-Identifier: Apache-2.0

"""What the commands that use the records share: the option ``--config-file`` and a door.

The database's packages come with an extra and take long to import, so nothing
here imports them before a command has begun.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ironic_virt import exceptions
from ironic_virt.cmd.commands import Command, Row, argument

if TYPE_CHECKING:
    from oslo_config import cfg

    from ironic_virt.compute.db import Database

ENVIRONMENT = "IRONIC_VIRT_CONFIG_FILE"
DEFAULT_FILE = "/etc/ironic-virt/ironic-virt.conf"

# What comes with the extra; of anything else that is missing we know nothing.
_PACKAGES = frozenset({"oslo_db", "sqlalchemy"})


CONFIG_FILE = argument(
    "--config-file",
    action="append",
    dest="config_files",
    default=[],
    metavar="FILE",
    help=f"Read this ini file; of several, the last one counts (env: {ENVIRONMENT};"
    f" default: {DEFAULT_FILE} if it exists, or else an embedded database).",
)
"""Stands before and behind a command."""


def config_files(
    named: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    default_file: str = DEFAULT_FILE,
) -> list[str]:
    """Which ini files are read: those named, or that of the environment, or the default.

    :raises ValueError: one that was named can't be read; in words for a user.
    """
    files = list(named)
    if not files and environ.get(ENVIRONMENT):
        files = [environ[ENVIRONMENT]]
    if not files:
        return [default_file] if pathlib.Path(default_file).is_file() else []
    for file in files:
        try:
            pathlib.Path(file).open("rb").close()
        except OSError as error:
            raise ValueError(f"{file}: {error.strerror}") from error
    return files


class Configured(Command):
    """A command that uses the records.

    :cvar makes_records: it makes the embedded database if there is none.
    """

    takes: Sequence[Row] = (CONFIG_FILE,)
    makes_records = False

    @contextlib.contextmanager
    def records(self, parsed_args: argparse.Namespace) -> Iterator[Database]:
        """The database of the options, opened."""
        with self.configured(parsed_args) as (_, database):
            yield database

    @contextlib.contextmanager
    def configured(
        self, parsed_args: argparse.Namespace
    ) -> Iterator[tuple[cfg.ConfigOpts, Database]]:
        """The options, and the database of them, opened."""
        before = getattr(self.app_args, "config_files", [])
        try:
            files = config_files([*before, *parsed_args.config_files])
        except ValueError as error:
            self.refuse(f"--config-file {error}")
        with _packages_or_advice():
            with _no_garbage():
                from ironic_virt.compute.db import Database
                from ironic_virt.compute.errors import SchemaMismatch
                from ironic_virt.conf import database as options
            conf = options.load(files)
            database = Database(conf, patient=False)
            # Some packages are imported only when they are needed.
            with contextlib.closing(database):
                try:
                    database.open(make=None if self.makes_records else False)
                except SchemaMismatch as error:
                    read = ", ".join(files) or "no configuration file: none is named or there"
                    self.refuse(f"{error} (read: {read})")
                if database.is_new:
                    self.app.LOG.warning("Made a new database: %s", database.url)
                yield conf, database


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """What is imported stays, and looking at it for garbage takes time."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


@contextlib.contextmanager
def _packages_or_advice() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise exceptions.ExtrasMissing(error.name, "compute") from error
