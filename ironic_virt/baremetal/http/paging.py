# SPDX-License-Identifier: Apache-2.0

"""All pages of a list, or an error; never a part of it.

The next page begins behind the last row of the one before.  Of the link to it only that
it is there counts: its host may be one that only a proxy knows, and Ironic leaves all
filters out of it, so that following it would list everybody's rows from page two on.

It keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeVar

from ironic_virt import exceptions


class Row(Protocol):
    """What a list is made of."""

    @property
    def uuid(self) -> str:
        """Unique in a list."""


RowT = TypeVar("RowT", bound=Row)


def pages(
    read: Callable[[Mapping[str, str]], tuple[list[RowT], str | None]],
    query: Mapping[str, str],
    path: str,
) -> Iterator[list[RowT]]:
    """Read one page after the other.

    :param read: reads the page of a query; returns its rows and the link to the next one.
    :param query: of the first page.
    :raises UnexpectedAnswer: a row came twice, or a page without rows has a next one.
    """
    seen: set[str] = set()
    params = query
    while True:
        rows, following = read(params)
        if following or seen:
            count = len(seen) + len(rows)
            seen.update([row.uuid for row in rows])
            if len(seen) != count:
                raise exceptions.UnexpectedAnswer(
                    "a page of the list holds what was on it, or on one before: does something "
                    "between here and Ironic drop the query 'marker'?",
                    method="GET",
                    path=path,
                )
        yield rows
        if not following:
            return
        if not rows:
            raise exceptions.UnexpectedAnswer(
                "an empty page has a link to a next one", method="GET", path=path
            )
        params = {**query, "marker": rows[-1].uuid}
