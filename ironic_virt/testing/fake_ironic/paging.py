# SPDX-License-Identifier: Apache-2.0

"""Lists: filtering, sorting, one page after a marker, and the ``next`` link.

The rules are those of Ironic's database layer, NULLs included: paging over a
column that has them loses rows.  In ascending order they come first, unless the
database is PostgreSQL.
"""

import dataclasses
import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ironic_virt.testing.fake_ironic import errors, versions
from ironic_virt.testing.fake_ironic.records import Row
from ironic_virt.testing.fake_ironic.store import Table
from ironic_virt.testing.fake_ironic.web import Answer, Request

RowT = TypeVar("RowT", bound=Row)


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """How many rows a page has, and in which order.

    :ivar sort_dir: ``asc`` or ``desc``.
    """

    limit: int
    sort_key: str
    sort_dir: str

    @classmethod
    def requested(
        cls, request: Request, given: Mapping[str, Any], sort_key: str = "id"
    ) -> "Window":
        """:raises ApiError: 400 for a limit or a direction that means nothing."""
        limit, sort_dir = given["limit"], given["sort_dir"]
        if limit is not None and limit <= 0:
            raise errors.invalid("Limit must be positive")
        if sort_dir not in (None, "asc", "desc"):
            raise errors.invalid(
                f"Invalid sort direction: {sort_dir}. Acceptable values are 'asc' or 'desc'"
            )
        most = request.bm.settings.max_limit
        return cls(
            most if limit is None else min(limit, most),
            given["sort_key"] or sort_key,
            sort_dir or "asc",
        )

    @property
    def descends(self) -> bool:
        return self.sort_dir == "desc"


def check_sorts_by_node(sort_key: str) -> None:
    """Fail where Ironic 39.0.0 asks its database for what is in another table.

    :raises ApiError: 500.
    """
    if sort_key == "node_uuid":
        raise errors.ApiError(500, 'near "DESC": syntax error')


def check_sortable(sort_key: str, unsortable: Container[str]) -> None:
    """Refuse a field whose values have no order.

    :raises ApiError: 400.
    """
    if sort_key in unsortable:
        raise errors.invalid(f"The sort_key value {sort_key} is an invalid field for sorting")


def check_sort_key(sort_key: str, sortable: Container[str]) -> None:
    """Refuse a field that rows don't have.

    :raises ApiError: 400.
    """
    if sort_key not in sortable:
        raise errors.invalid(f'The sort_key value "{sort_key}" is an invalid field for sorting')


def select_fields(
    request: Request, given: Mapping[str, Any], default: list[str]
) -> tuple[list[str] | None, dict[str, Any]]:
    """The fields that a list shows, ``None``: all; and what its ``next`` link repeats of it.

    :raises ApiError: 400 if the request has fields and asks for details as well.
    """
    fields, detail = given["fields"], given["detail"]
    if detail is not None and request.minor < versions.DETAIL:
        raise errors.invalid(f"Invalid query parameter ?detail={detail} received.")
    if fields is not None and detail:
        raise errors.invalid("Can not specify ?detail=True and fields in the same request.")
    if fields is None and not detail:
        fields = default
    return fields, {} if detail is None else {"detail": detail}


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
    window: Window,
    *,
    marker: RowT | None = None,
    candidates: Iterable[RowT] | None = None,
    nulls_sort_last: bool = False,
) -> list[RowT]:
    """One page of a table.

    :param matches: which rows count; None for all.
    :param candidates: rows in the order of their ids that are known to hold
        all matches; None for the whole table.
    :param nulls_sort_last: in ascending order; in descending order first.
    """
    sort_key, descending = window.sort_key, window.descends
    if sort_key == "id":
        ordered = _by_id(table, marker, descending, candidates)
        if matches is not None:
            ordered = filter(matches, ordered)
        return list(itertools.islice(ordered, window.limit))
    rows: Iterable[RowT] = table if candidates is None else candidates
    if matches is not None:
        rows = filter(matches, rows)
    if marker is not None:
        rows = filter(_beyond(marker, sort_key, descending), rows)

    def order(row: RowT) -> tuple[bool, Any, int]:
        value = getattr(row, sort_key)
        return ((value is None) == nulls_sort_last, 0 if value is None else value, row.id)

    return sorted(rows, key=order, reverse=descending)[: window.limit]


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
    window: Window,
    *,
    fields: list[str] | None = None,
    resource: str | None = None,
    **parameters: Any,
) -> Answer:
    """Answer with a page, and a ``next`` link when it is full.

    :param markers: the uuid of each item.
    :param resource: the path of the list below ``/v1``, if it isn't the name.
    :param parameters: what the link repeats besides the order and the fields.  As in
        Ironic that is not every filter: a client has to repeat its own.
    """
    body: dict[str, Any] = {name: items}
    if items and len(items) == window.limit:
        order = {"sort_key": window.sort_key, "sort_dir": window.sort_dir}
        shown = {"fields": ",".join(fields)} if fields else {}
        end = {"limit": window.limit, "marker": markers[-1]}
        query = "&".join(f"{k}={v}" for k, v in (order | parameters | shown | end).items())
        body["next"] = f"{request.url}/v1/{resource or name}?{query}"
    return Answer(body=body)
