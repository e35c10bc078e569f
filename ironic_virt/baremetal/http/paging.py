# SPDX-License-Identifier: Apache-2.0

"""All pages of a list, or an error; never a part of it.

The next page begins behind the last row of the one before.  Of the link to it only that
it is there counts: its host may be one that only a proxy knows, and Ironic leaves all
filters out of it, so that following it would list everybody's rows from page two on.

It keeps nothing.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import msgspec

from ironic_virt import exceptions
from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.http.requests import Call, Sender


class Row(Protocol):
    """What a list is made of."""

    @property
    def uuid(self) -> str:
        """Unique in a list."""


RowT = TypeVar("RowT", bound=Row)
AnyRow = TypeVar("AnyRow")

Page = tuple[list[AnyRow], str | None]
"""The rows of a page, and the link to the next one."""


def make_reader(name: str, row: type[AnyRow], meaning: str) -> Callable[[Answer], Page[AnyRow]]:
    """A function that reads a page from an answer.

    :param name: the member of the body that has the rows.
    :param meaning: what the body should be, for the error: ``a list of nodes``.
    """
    rows: Any = types.GenericAlias(list, (row,))
    read = answers.make_reader(
        msgspec.defstruct("_Page", [(name, rows), ("next", str | None, None)]), meaning
    )

    def page(answer: Answer) -> Page[AnyRow]:
        body: Any = read(answer)
        return getattr(body, name), body.next

    return page


def read_pages(
    sender: Sender, call: Call, parse: Callable[[Answer], Page[RowT]]
) -> Iterator[list[RowT]]:
    """Read one page after the other.

    :param call: for the first page.
    :raises UnexpectedAnswer: a row came twice, or a page without rows has a next one.
    """
    seen: set[str] = set()
    following = call
    while True:
        rows, link = sender.read(following, parse)
        if link or seen:
            count = len(seen) + len(rows)
            seen.update([row.uuid for row in rows])
            if len(seen) != count:
                raise exceptions.UnexpectedAnswer(
                    "a page of the list holds what was on it, or on one before: does something "
                    "between here and Ironic drop the query 'marker'?",
                    method="GET",
                    path=call.path,
                )
        yield rows
        if not link:
            return
        if not rows:
            raise exceptions.UnexpectedAnswer(
                "an empty page has a link to a next one", method="GET", path=call.path
            )
        following = dataclasses.replace(call, params={**call.params, "marker": rows[-1].uuid})


def read_all(sender: Sender, call: Call, parse: Callable[[Answer], Page[RowT]]) -> list[RowT]:
    """Read the rows of all pages.

    :param call: of a node's rows, if it names one.
    :raises UnexpectedAnswer: see :func:`read_pages`; or a row is not that node's.
    """
    rows = [row for page in read_pages(sender, call, parse) for row in page]
    for row in rows if call.node else ():
        if (node := getattr(row, "node_uuid", None)) != call.node:
            raise exceptions.UnexpectedAnswer(
                f"{row.uuid} came, of node {node}: does something between here and Ironic drop "
                "the query?",
                method="GET",
                path=call.path,
            )
    return rows
