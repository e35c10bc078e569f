# SPDX-License-Identifier: Apache-2.0

"""How commands print what they have found: tables with fixed columns, times, words.

Columns are known before anything is done, so a wrong ``--column`` changes
nothing.
"""

from __future__ import annotations

import argparse
import datetime
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from cliff import columns, lister, show

from ironic_virt.cmd.commands import Command
from ironic_virt.cmd.configured import Configured

Cells = Mapping[str, Callable[[Any], Any]]
"""By the name of a column, what stands in it for a thing."""


def in_order(*names: str) -> Cells:
    """Return columns of things that are sequences of their cells."""
    return {name: operator.itemgetter(number) for number, name in enumerate(names)}


class Columns(Command):
    """A command that says beforehand which columns it has.

    :cvar long_columns: those for ``--long``, if it has that.
    """

    columns: ClassVar[Cells] = {}
    long_columns: ClassVar[Cells | None] = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's arguments."""
        parser = super().get_parser(prog_name)
        if self.long_columns is not None:
            parser.add_argument("--long", action="store_true", help="Show more of each.")
        return parser

    def columns_of(self, parsed_args: argparse.Namespace) -> Cells:
        """The columns of this run."""
        if self.long_columns is not None and parsed_args.long:
            return self.long_columns
        return self.columns

    def run(self, parsed_args: argparse.Namespace) -> int:
        """See :class:`cliff.command.Command`."""
        known = self.columns_of(parsed_args)
        short = {_normal(name) for name in known}
        for option, dest in (("--column", "columns"), ("--sort-column", "sort_columns")):
            for name in getattr(parsed_args, dest, ()):
                if _normal(name) not in short:
                    self.refuse(f"{option} {name}: the columns are {', '.join(known)}")
        return super().run(parsed_args)


class Lister(Configured, Columns, lister.Lister):
    """A command that prints a table with a row for each thing."""


class ShowOne(Configured, Columns, show.ShowOne):
    """A command that prints one thing, a row for each of its fields."""


def _normal(name: str) -> str:
    return name.lower().strip().replace(" ", "_")


if TYPE_CHECKING:
    _Column = columns.FormattableColumn[Any]
else:
    # It is not generic in older releases of cliff.
    _Column = columns.FormattableColumn


class Json(_Column):
    """A mapping or a sequence: for people as ``key='value', ...``."""

    def human_readable(self) -> str:
        """See :class:`cliff.columns.FormattableColumn`."""
        if isinstance(self._value, Mapping):
            return ", ".join(f"{key}='{value}'" for key, value in sorted(self._value.items()))
        return ", ".join(str(value) for value in self._value)


class Words(_Column):
    """A value that people are told in other words than programs."""

    def __init__(self, value: Any, words: str) -> None:
        super().__init__(value)
        self._words = words

    def human_readable(self) -> str:
        """See :class:`cliff.columns.FormattableColumn`."""
        return self._words


def when(time: datetime.datetime | None) -> str | None:
    """A time as OpenStack's APIs write it, in UTC to the second."""
    if time is None:
        return None
    return time.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of(name: str) -> Callable[[Any], str | None]:
    """The cell of a thing's attribute that is a time."""
    return lambda thing: when(getattr(thing, name))


def table(columns: Cells, things: Iterable[Any]) -> Any:
    """What a lister returns."""
    return tuple(columns), [tuple(cell(thing) for cell in columns.values()) for thing in things]


def one(columns: Cells, thing: Any) -> Any:
    """What a command that shows one thing returns."""
    return tuple(columns), tuple(cell(thing) for cell in columns.values())
