# SPDX-License-Identifier: Apache-2.0

"""What all commands are made of: arguments as rows, an epilog, and one way to fail."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from cliff import command

from ironic_virt import exceptions
from ironic_virt.cmd import arguments

Row = Callable[[Any], object]
"""Adds something to a parser, or to a group of one."""


def argument(*names: str, **settings: Any) -> Row:
    """An argument, as :meth:`argparse.ArgumentParser.add_argument` takes it."""
    return lambda parser: parser.add_argument(*names, **settings)


def one_of(*rows: Row) -> Row:
    """Arguments of which one may be given at most."""

    def add(parser: Any) -> None:
        group = parser.add_mutually_exclusive_group()
        for row in rows:
            row(group)

    return add


def group(title: str, *rows: Row) -> Row:
    """Arguments that stand together in the help."""

    def add(parser: Any) -> None:
        titled = parser.add_argument_group(title)
        for row in rows:
            row(titled)

    return add


SERVER = argument("server", metavar="<server>", help="Its name or ID.")
LIMIT = argument("--limit", type=arguments.positive, metavar="<count>", help="So many at most.")


class Command(command.Command):
    """A command.

    :cvar takes: a class's own arguments; those of its bases stand before them.
    :cvar epilog: stands below the help: examples and exit codes.
    :ivar code: the exit code of a run that has raised nothing.
    """

    takes: Sequence[Row] = ()
    epilog = ""
    code: int = 0

    def get_epilog(self) -> str:
        """Return the epilog alone: cliff would read the files of all packages to name this one."""
        return self.epilog

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's arguments."""
        parser = super().get_parser(prog_name)
        parser.formatter_class = arguments.Help
        for kind in reversed(type(self).__mro__):
            for row in vars(kind).get("takes", ()):
                row(parser)
        self._parser = parser
        return parser

    def refuse(self, message: str) -> NoReturn:
        """End because of what stands on the command line, before anything is done."""
        self._parser.error(message)
        raise AssertionError("a parser's error ends the run")

    def fail(self, message: object) -> None:
        """Tell an error in one line, and go on; the exit code is 1."""
        self.app.LOG.error("%s", " ".join(str(message).split()))
        self.code = 1

    @contextlib.contextmanager
    def failing(self, about: str = "") -> Iterator[None]:
        """Go on behind the block after an error in it, which is told."""
        try:
            yield
        except exceptions.IronicVirtError as error:
            self.fail(f"{about}{error}")

    def run(self, parsed_args: argparse.Namespace) -> int:
        """See :class:`cliff.command.Command`."""
        return super().run(parsed_args) or self.code
