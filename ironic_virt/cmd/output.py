# SPDX-License-Identifier: Apache-2.0

"""How commands print what they have found: tables with fixed columns, times, words."""

from __future__ import annotations

import argparse
import datetime
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from cliff import columns, lister, show

from ironic_virt.cmd.commands import Cells, Command, normal
from ironic_virt.cmd.configured import Configured


def named(*names: str) -> dict[str, Callable[[Any], Any]]:
    """Return columns that are the attributes of a thing.

    :param names: such as ``Created At`` for its ``created_at``, or ``Disk=root_gb``.  What stands
        before a colon is not part of the attribute's name.
    """
    pairs = [name.partition("=")[::2] for name in names]
    return {name: _make_cell(path or normal(name).rpartition(":")[2]) for name, path in pairs}


def _make_cell(path: str) -> Callable[[Any], Any]:
    value_of = operator.attrgetter(path)
    return lambda thing: shown(value_of(thing))


def shown(value: Any) -> Any:
    """A value as a cell shows it; a time as in OpenStack's APIs, in UTC to the second."""
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, Mapping):
        return Values(dict(value))
    if isinstance(value, Collection) and not isinstance(value, str):
        return Values(sorted(value) if isinstance(value, frozenset) else [*value])
    return value


def in_order(*names: str) -> Cells:
    """Return columns of things that are sequences of their cells."""
    return {name: operator.itemgetter(number) for number, name in enumerate(names)}


class Table(Command, lister.Lister):
    """A command that prints a table with a row for each thing."""

    def shown(self, result: Any, args: argparse.Namespace) -> Any:
        return table(self.columns_of(args), result)


class Lister(Configured, Table):
    """A command that prints things of the records."""


class ShowOne(Configured, show.ShowOne):
    """A command that prints one thing, a row for each of its fields."""

    def shown(self, result: Any, args: argparse.Namespace) -> Any:
        return one(self.columns_of(args), result)


class Values(columns.FormattableColumn):  # type: ignore[type-arg]  # old cliff has none
    """A mapping or a sequence: for people as ``key='value', ...``."""

    def human_readable(self) -> str:
        """The value as a table for people shows it."""
        if isinstance(self._value, Mapping):
            return ", ".join(f"{key}='{value}'" for key, value in sorted(self._value.items()))
        return ", ".join(str(value) for value in self._value)


class Words(columns.FormattableColumn):  # type: ignore[type-arg]  # old cliff has none
    """A value that is shown to people in other words than to programs."""

    def __init__(self, value: Any, words: str) -> None:
        super().__init__(value)
        self._words = words

    def human_readable(self) -> str:
        """The value as a table for people shows it."""
        return self._words


def table(columns: Cells, things: Iterable[Any]) -> Any:
    """What a lister returns."""
    return tuple(columns), [tuple(cell(thing) for cell in columns.values()) for thing in things]


def one(columns: Cells, thing: Any) -> Any:
    """What a command that shows one thing returns."""
    return tuple(columns), tuple(cell(thing) for cell in columns.values())
