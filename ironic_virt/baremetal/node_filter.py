# SPDX-License-Identifier: Apache-2.0

"""Which nodes a list is about, and whether a node passes.

Ironic applies the filter; the fields that are filtered by are asked for as well, so that
an answer that was not filtered is noticed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Protocol, TypeVar

import msgspec

from ironic_virt import exceptions
from ironic_virt.baremetal.http.paging import Row
from ironic_virt.baremetal.node import Node


class NodeRow(Row, Protocol):
    """A node in a list, with the fields that were requested."""

    @property
    def malformed(self) -> tuple[str, ...]:
        """The fields that could not be read."""

    @property
    def shard(self) -> str | None:
        """Its shard, if the list is filtered by shards."""


RowT = TypeVar("RowT", bound=NodeRow)


class NodeFilter(msgspec.Struct, frozen=True):
    """Which nodes a list is about; all conditions that are set must hold.

    :ivar conductor_group: ``""`` is the default group, ``None`` any.
    :ivar shard: a shard's key, ``None`` any.
    :ivar provision_state: one state.
    :ivar instance_uuid: the one node with this instance.
    """

    conductor_group: str | None = None
    shard: str | None = None
    provision_state: str | None = None
    instance_uuid: str | None = None

    def params(self) -> dict[str, str]:
        """The filter as query parameters."""
        return {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None
        }

    def fields(self) -> list[str]:
        """The fields that tell whether a node passes."""
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]

    def holds(self, node: Node) -> bool:
        """Whether a node that was read by itself passes the filter's group and shard.

        Without regard to case, as Ironic compares groups, and, on MariaDB, shards.
        """
        group = self.conductor_group
        if group is not None and (node.conductor_group or "").lower() != group.lower():
            return False
        return self.shard is None or (node.shard or "").lower() == self.shard.lower()

    def others(self, rows: Iterable[RowT]) -> list[RowT]:
        """The nodes of a list that don't pass: their shards look like ours to Ironic's database.

        A field that can't be read costs its node, not the list.  One that is missing costs
        the list: what drops the filter drops the wish for the field, too.

        :raises UnexpectedAnswer: the list holds another, which no database takes for ours.
        """
        alike = []
        for name in self.fields():
            value = getattr(self, name)
            # Most are spelled alike, and 100,000 are many.
            others = [row for row in rows if getattr(row, name) != value]
            for row in others:
                other = getattr(row, name)
                is_same = isinstance(other, str) and other.lower() == value.lower()
                if is_same or name in row.malformed:
                    continue
                if name == "shard" and other and _look_alike(other, value):
                    alike.append(row)
                    continue
                raise exceptions.UnexpectedAnswer(
                    f"nodes with {name} {value!r} were asked for, and node {row.uuid} came, "
                    f"which has {other!r}: does something between here and Ironic drop the "
                    "query?",
                    method="GET",
                    path="/nodes",
                )
        return alike


def _look_alike(shard: str, other: str) -> bool:
    """Whether a database may take two names for one.

    MariaDB and MySQL compare without case, accents and blanks at the end.  Other special letters
    (a German sharp s) they replace by one or two plain ones, or drop.
    """
    first, second = _plain(shard), _plain(other)
    return _may_be(first, second) or _may_be(second, first)


def _plain(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).rstrip()


def _may_be(text: str, other: str) -> bool:
    """Whether a text is another one if each letter that isn't ASCII stands for two at most."""
    places = {0}
    for letter in text:
        if letter.isascii():
            places = {place + 1 for place in places if other[place : place + 1] == letter}
        else:
            places = {place + letters for place in places for letters in range(3)}
    return len(other) in places
