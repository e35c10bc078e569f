# SPDX-License-Identifier: Apache-2.0

"""What commands that use the records share: the option ``--config-file``, and opening them.

The database's packages come with an extra and take long to import, so they are imported only
when a command has begun.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions
from ironic_virt.cmd.commands import Command, Row, argument

if TYPE_CHECKING:
    from oslo_config import cfg

    from ironic_virt.baremetal.client import IronicClient
    from ironic_virt.compute.db import Database

ENVIRONMENT = "IRONIC_VIRT_CONFIG_FILE"
DEFAULT_FILE = "/etc/ironic-virt/ironic-virt.conf"

# The packages of the extra; another missing package is not our concern.
_PACKAGES = frozenset({"oslo_db", "sqlalchemy"})

CONFIG_FILE = argument(
    "--config-file FILE",
    f"Read this ini file; of several, the last one takes precedence (env: {ENVIRONMENT};"
    f" default: {DEFAULT_FILE} if it exists, or else an embedded database).",
    action="append",
    dest="config_files",
    default=[],
)
"""Allowed before and after the name of a command."""


def config_files(
    named: Sequence[str], environ: Mapping[str, str] = os.environ, default_file: str = DEFAULT_FILE
) -> list[str]:
    """Return the ini files to read: those named, the environment's, or the default.

    :raises ValueError: a named file can't be read; the message is for the user.
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
    :ivar conf: the options, while it acts; ``db``: the records.
    """

    takes: Sequence[Row] = (CONFIG_FILE,)
    makes_records = False
    conf: cfg.ConfigOpts
    db: Database

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Act with the records."""
        with self._opened(parsed_args):
            return super().take_action(parsed_args)

    @contextlib.contextmanager
    def _opened(self, args: argparse.Namespace) -> Iterator[None]:
        """Read the options, and open the records."""
        before = getattr(self.app_args, "config_files", [])
        try:
            files = config_files([*before, *args.config_files])
        except ValueError as error:
            self.refuse(f"--config-file {error}")
        with extra("compute", _PACKAGES):
            with _no_garbage():
                from ironic_virt.compute.db import Database
                from ironic_virt.compute.errors import SchemaMismatch
                from ironic_virt.conf import database as options
            self.conf = options.load(files)
            self.db = Database(self.conf)
            # Some packages are imported only when they are needed.
            with contextlib.closing(self.db):
                try:
                    self.db.open(make=None if self.makes_records else False)
                except SchemaMismatch as error:
                    read = ", ".join(files) or "no configuration file: none was named or found"
                    self.refuse(f"{error} (read: {read})")
                if self.db.is_new:
                    self.app.LOG.warning("Created a new database: %s", self.db.url)
                yield

    def ironic(self) -> IronicClient:
        """The Ironic of the options; those of ``[ironic]`` are registered here."""
        from ironic_virt import conf as options
        from ironic_virt.baremetal.client import IronicClient

        options.register_opts(self.conf)
        options.check(self.conf)
        return IronicClient.from_conf(self.conf)


class Each(Configured):
    """A command that does the same to each thing that is named, as far as possible."""

    def act(self, args: argparse.Namespace) -> None:
        for name in dict.fromkeys(args.names):
            with self.failing():
                self.do(name)

    def do(self, name: str) -> None:
        """Do it to one."""
        raise NotImplementedError


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """Switch the garbage collector off: what is imported stays, and searching it takes time."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


@contextlib.contextmanager
def extra(name: str, packages: Collection[str] = ()) -> Iterator[None]:
    """Raise :class:`ExtrasMissing` if the block lacks a package of an extra.

    :param packages: the packages of the extra; else any package but our own.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in packages if packages else package == "ironic_virt":
            raise
        raise exceptions.ExtrasMissing(error.name, name) from error
