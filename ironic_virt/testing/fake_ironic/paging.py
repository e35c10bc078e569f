# SPDX-License-Identifier: Apache-2.0

"""Lists: filtering, sorting, one page after a marker, and the ``next`` link.

The rules are those of Ironic's database layer, NULLs included: paging over a
column that has them loses rows.  In ascending order they come first, unless the
database is PostgreSQL.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ironic_virt.testing.fake_ironic import errors
from ironic_virt.testing.fake_ironic.store import Row, Table
from ironic_virt.testing.fake_ironic.web import Request

RowT = TypeVar("RowT", bound=Row)


def check_limit(limit: int | None, maximum: int) -> int:
    """The page size for a requested limit.

    :raises ApiError: 400 if it is not positive.
    """
    if limit is None:
        return maximum
    if limit <= 0:
        raise errors.invalid("Limit must be positive")
    return min(limit, maximum)


def check_sort_dir(sort_dir: str | None) -> str:
    """:raises ApiError: 400 if it is neither asc nor desc."""
    if sort_dir not in (None, "asc", "desc"):
        raise errors.invalid(
            f"Invalid sort direction: {sort_dir}. Acceptable values are 'asc' or 'desc'"
        )
    return sort_dir or "asc"


def check_sorts_by_node(sort_key: str) -> None:
    """Fail where Ironic 39.0.0 asks its database for what is in another table.

    :raises ApiError: 500.
    """
    if sort_key == "node_uuid":
        raise errors.ApiError(500, 'near "DESC": syntax error')


def _beyond(marker: Row, key: str, descending: bool) -> Callable[[Row], bool]:
    """Whether a row comes after the marker, decided as SQL decides it."""
    edge = getattr(marker, key)

    def is_beyond(row: Row) -> bool:
        value = getattr(row, key)
        if edge is None:
            return row.id < marker.id if descending else row.id > marker.id
        if value is None:
            return False
        if value == edge:
            return row.id < marker.id if descending else row.id > marker.id
        return bool(value < edge if descending else value > edge)

    return is_beyond


def page(
    table: Table[RowT],
    matches: Callable[[RowT], bool] | None,
    *,
    limit: int,
    marker: RowT | None = None,
    sort_key: str = "id",
    sort_dir: str = "asc",
    candidates: Iterable[RowT] | None = None,
    nulls_sort_last: bool = False,
) -> list[RowT]:
    """One page of a table.

    :param matches: which rows count; None for all.
    :param candidates: rows in the order of their ids that are known to hold
        all matches; None for the whole table.
    :param nulls_sort_last: in ascending order; in descending order first.
    """
    descending = sort_dir == "desc"
    if sort_key == "id":
        rows = _by_id(table, marker, descending, candidates)
        if matches is not None:
            rows = filter(matches, rows)
        return list(itertools.islice(rows, limit))
    found: Iterable[RowT] = table if candidates is None else candidates
    if matches is not None:
        found = filter(matches, found)
    if marker is not None:
        found = filter(_beyond(marker, sort_key, descending), found)

    def order(row: RowT) -> tuple[bool, Any, int]:
        value = getattr(row, sort_key)
        return ((value is None) == nulls_sort_last, 0 if value is None else value, row.id)

    return sorted(found, key=order, reverse=descending)[:limit]


def _by_id(
    table: Table[RowT],
    marker: RowT | None,
    descending: bool,
    candidates: Iterable[RowT] | None,
) -> Iterator[RowT]:
    if candidates is not None:
        rows = list(candidates)
        if marker is not None:
            edge = marker.id
            rows = [row for row in rows if (row.id < edge if descending else row.id > edge)]
        return reversed(rows) if descending else iter(rows)
    if descending:
        return table.before(marker.id if marker is not None else None)
    if marker is not None:
        return table.after(marker.id)
    return iter(table)


def collection(
    request: Request,
    name: str,
    items: list[dict[str, Any]],
    markers: list[str],
    *,
    limit: int,
    resource: str,
    parameters: dict[str, Any],
) -> dict[str, Any]:
    """A list's body, with a ``next`` link when the page is full.

    :param markers: the uuid of each item.
    :param parameters: what the link repeats.  As in Ironic that is not every
        filter: a client has to repeat its own.
    """
    body: dict[str, Any] = {name: items}
    if items and len(items) == limit:
        query = "".join(f"{key}={value}&" for key, value in parameters.items())
        body["next"] = f"{request.url}/v1/{resource}?{query}limit={limit}&marker={markers[-1]}"
    return body
