# SPDX-License-Identifier: Apache-2.0

"""The parts of all commands: arguments as rows, columns, and one way to fail."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

from cliff import command

from ironic_virt import exceptions
from ironic_virt.cmd import arguments

T = TypeVar("T")
Row = Callable[[Any], object]
"""Adds something to a parser, or to a group of one."""
Cells = Mapping[str, Callable[[Any], Any]]
"""By the name of a column, its cell for a thing."""


def argument(spec: str, text: str, *, needs: str = "", **more: Any) -> Row:
    """An argument with a value.

    :param spec: its name and its metavar, such as ``--limit <count>``, which says what kind of
        value it is (:data:`arguments.KINDS`).
    :param needs: the name of an option without which it is refused.
    :param more: what else :meth:`argparse.ArgumentParser.add_argument` takes.
    """
    name, _, metavar = spec.partition(" ")
    kind = arguments.KINDS.get(metavar, str)
    more = {"help": text, "type": kind, "metavar": metavar or None, **more}
    return lambda parser: setattr(parser.add_argument(name, **more), "needs", needs)


def several(spec: str, dest: str, text: str, **more: Any) -> Row:
    """An option that may be given several times; its value is a list or a dict."""
    kind = arguments.KINDS.get(spec.split()[1])
    is_dict = kind is arguments.KeyValue
    more = {"action": "append", "default": [], **more}
    more |= {"action": kind, "default": {}, "type": None} if is_dict else {}
    return argument(spec, f"{text} (may be repeated).", dest=dest, **more)


def flag(names: str, text: str, *, needs: str = "", **more: Any) -> Row:
    """An option without a value."""
    more = {"action": "store_true", "help": text, **more}
    return lambda parser: setattr(parser.add_argument(*names.split(), **more), "needs", needs)


def one_of(*rows: Row) -> Row:
    """Arguments that exclude each other."""
    return lambda parser: _add_rows(parser.add_mutually_exclusive_group(), rows)


def group(title: str, *rows: Row) -> Row:
    """Arguments that stand together in the help."""
    return lambda parser: _add_rows(parser.add_argument_group(title), rows)


def _add_rows(parser: Any, rows: Sequence[Row]) -> None:
    for row in rows:
        row(parser)


SERVER = argument("server <server>", "Name or ID of the server.")
LIMIT = argument("--limit <count>", "Show at most this many.")


class Command(command.Command):
    """A command.

    :cvar takes: a class's own arguments; those of its bases come first.
    :cvar columns: of its table, known before anything is done, so that a wrong ``--column``
        changes nothing; ``long_columns``: for ``--long``, if it has that.
    :cvar examples: command lines for the help, without the program's name; continuation lines
        are indented; ``codes``: what its exit codes mean.
    :ivar code: the exit code of a run that raises nothing.
    """

    takes: Sequence[Row] = ()
    columns: ClassVar[Cells] = {}
    long_columns: ClassVar[Cells | None] = None
    examples = ""
    codes = ""
    code: int = 0

    def get_epilog(self) -> str:
        """Return examples and exit codes; cliff would read all packages to name ours."""
        commands = re.sub(r"^(?! )", "  ironic-virt ", self.examples.rstrip(), flags=re.MULTILINE)
        parts = [f"examples:\n{commands}\n"] if self.examples else []
        return "\n".join([*parts, f"Exit codes: {self.codes}\n"] if self.codes else parts)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.formatter_class = arguments.Help
        for kind in reversed(type(self).__mro__):
            _add_rows(parser, vars(kind).get("takes", ()))
        if self.long_columns is not None:
            parser.add_argument("--long", action="store_true", help="Show more columns.")
        self._parser = parser
        return parser

    def columns_of(self, args: argparse.Namespace) -> Cells:
        """The columns of this run."""
        return self.long_columns if self.long_columns and args.long else self.columns

    def check(self, args: argparse.Namespace) -> None:
        """Refuse arguments that don't go together, before anything is read or done."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Check that the options fit together, then run the command; return its exit code."""
        known = self.columns_of(parsed_args)
        short = {normal(name) for name in known}
        for option, dest in (("--column", "columns"), ("--sort-column", "sort_columns")):
            for name in getattr(parsed_args, dest, ()):
                if normal(name) not in short:
                    self.refuse(f"{option} {name}: the columns are {', '.join(known)}")
        for action in self._parser._actions:
            needs = getattr(action, "needs", "")
            is_given = getattr(parsed_args, action.dest, None) != action.default
            if needs and is_given and not getattr(parsed_args, needs):
                self.refuse(f"argument {action.option_strings[0]}: only with --{needs}")
        self.check(parsed_args)
        return super().run(parsed_args) or self.code

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Act, and return what cliff prints of the result."""
        return self.shown(self.act(parsed_args), parsed_args)

    def act(self, args: argparse.Namespace) -> Any:
        """Do what the command is for, and return what is to be shown."""
        raise NotImplementedError

    def shown(self, result: Any, args: argparse.Namespace) -> Any:
        """What cliff prints of a result; for most commands nothing."""

    def refuse(self, message: str) -> NoReturn:
        """End because of a wrong command line, before anything is done."""
        self._parser.error(message)
        raise AssertionError("a parser's error ends the run")

    def fail(self, message: object) -> None:
        """Log an error in one line, and go on; the exit code is 1."""
        self.app.LOG.error("%s", " ".join(str(message).split()))
        self.code = 1

    def say(self, line: str) -> None:
        """Write a line for people to standard error, unless ``--quiet`` is given."""
        if self.app.options.verbose_level > 0:
            self.app.stderr.write(line + "\n")

    @contextlib.contextmanager
    def failing(self, about: str = "") -> Iterator[None]:
        """Log an error in the block, and go on after the block."""
        try:
            yield
        except exceptions.IronicVirtError as error:
            self.fail(f"{about}{error}")


def row(base: type[T], text: str, *takes: Row, **members: Any) -> type[T]:
    """A command as a row of a table.

    :param base: what kind of command it is.
    :param text: its help.
    :param members: what else its class has, such as ``columns`` and ``examples``.
    """
    return type(base.__name__, (base,), {"__doc__": text, "takes": takes, **members})


def normal(column: str) -> str:
    """A column's name as cliff compares it."""
    return column.lower().strip().replace(" ", "_")
