# SPDX-License-Identifier: Apache-2.0

"""How commands print what they have found: tables with fixed columns, times, words.

Columns are known before anything is done, so a wrong ``--column`` changes
nothing.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from cliff import columns, command, lister, show

from ironic_virt.cmd.configured import Configured


class Columns(command.Command):
    """A command that says beforehand which columns it has."""

    def refuse(self, message: str) -> NoReturn:
        """End because of what stands on the command line."""
        raise NotImplementedError

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """Its columns."""
        raise NotImplementedError

    def run(self, parsed_args: argparse.Namespace) -> int:
        """See :class:`cliff.command.Command`."""
        known = self.columns(parsed_args)
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


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Any:
    """What a lister returns."""
    return tuple(columns), [tuple(row) for row in rows]


def one(fields: Mapping[str, Any]) -> Any:
    """What a command that shows one thing returns."""
    return tuple(fields), tuple(fields.values())
