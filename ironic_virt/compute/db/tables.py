# SPDX-License-Identifier: Apache-2.0

"""The tables, and column types that mean the same on SQLite, MariaDB, MySQL or PostgreSQL.

A table has a column for each field of its record (:mod:`~ironic_virt.compute.db.records`), with
the field's value, so a row is a record as it is read.  A change of a record raises
:data:`VERSION`.

Nothing asks a database to look inside JSON.  A delete removes the row, so nothing secret stays.
Unique keys rely on NULLs being distinct, as they are on all three databases.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import types as python_types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from ironic_virt import virt
from ironic_virt.compute.db import records

VERSION = 4
"""To be raised with each change of the tables."""

# MySQL takes the smallest type that holds so much; PostgreSQL ignores the length.
_BYTES = sa.LargeBinary(2**24 - 1)


class UtcDateTime(sa.TypeDecorator[datetime.datetime]):
    """An aware time as text, in UTC and to the microsecond: texts sort as times do."""

    impl = sa.String(32)
    cache_ok = True

    def process_bind_param(
        self, value: datetime.datetime | None, dialect: sa.Dialect
    ) -> str | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"the time {value} lacks a time zone")
        return value.astimezone(datetime.UTC).isoformat(timespec="microseconds")

    def process_result_value(
        self, value: str | None, dialect: sa.Dialect
    ) -> datetime.datetime | None:
        return None if value is None else datetime.datetime.fromisoformat(value)


class LongText(sa.TypeDecorator[Any]):
    """Text of up to 16 MB, or bytes that are not text."""

    impl = _BYTES
    cache_ok = True

    def process_bind_param(self, value: str | bytes | None, dialect: sa.Dialect) -> bytes | None:
        return value.encode() if isinstance(value, str) else value

    def process_result_value(self, value: bytes | None, dialect: sa.Dialect) -> str | bytes | None:
        if value is None:
            return None
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value


class JsonText(sa.TypeDecorator[Any]):
    """A value as JSON, its keys sorted, so that equal values are equal texts.

    :param kind: its type, which it has again when it is read.
    :param shared: equal texts are decoded once, and shared.  Never for what is secret.
    """

    impl = _BYTES
    cache_ok = True

    def __init__(self, kind: Any, shared: bool = False) -> None:
        super().__init__()
        self.kind = kind
        self.shared = shared

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> bytes | None:
        if value is None:
            return None
        return msgspec.json.encode(value, enc_hook=_plain_mapping, order="sorted")

    def process_result_value(self, value: bytes | None, dialect: sa.Dialect) -> Any:
        if value is None:
            return None
        return (
            _decode_shared(value, self.kind) if self.shared else _decoder(self.kind).decode(value)
        )


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@functools.lru_cache(8192)
def _decode_shared(text: bytes, kind: Any) -> Any:
    value = _decoder(kind).decode(text)
    return python_types.MappingProxyType(value) if isinstance(value, dict) else value


def _plain_mapping(value: Any) -> Any:
    """Turn a mapping that is not a dict into one, which msgspec can encode."""
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} is not JSON")


# -- the tables ---------------------------------------------------------------

# They are added when a table is made, with a collation in which names compare to the letter,
# blanks at the end included, as on the other databases.  A table that is defined with them
# makes SQLAlchemy import MySQL's dialect, which costs each command time.
MYSQL = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}

METADATA = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uniq_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_PLAIN = {
    str: sa.String(255),
    int: sa.Integer(),
    bool: sa.Boolean(),
    datetime.datetime: UtcDateTime(),
}
_LONG = ("user_data", "public_key")
# Of many nodes, and of few kinds.
_SHARED = ("traits", "stats")


def _record_table(
    name: str,
    kind: type,
    *more: sa.Column[Any],
    unique: Iterable[str],
    indexes: Iterable[tuple[str, ...]] = (),
) -> sa.Table:
    """A table of records.

    :param kind: the record.
    :param more: columns that the record has not.
    :param unique: columns in which no two rows have the same.
    """
    return sa.Table(
        name,
        METADATA,
        sa.Column("id", sa.Integer, primary_key=True),
        *_field_columns(kind),
        *more,
        *(sa.UniqueConstraint(column) for column in unique),
        *(sa.Index(None, *columns) for columns in indexes),
    )


def _field_columns(kind: type) -> Iterator[sa.Column[Any]]:
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        is_optional = type(None) in typing.get_args(hint)
        if is_optional:
            # What it is if it is not None.
            (hint, *_) = typing.get_args(hint)
        column: Any = LongText() if field.name in _LONG else _PLAIN.get(hint)
        column = column or JsonText(hint, field.name in _SHARED)
        yield sa.Column(field.name, column, nullable=is_optional)


def columns(table: sa.Table, kind: type) -> tuple[sa.Column[Any], ...]:
    """The columns that are the fields of a record, in their order."""
    return tuple(table.c[field.name] for field in dataclasses.fields(kind))


schema_version = sa.Table(
    "schema_version",
    METADATA,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
)
"""Which version the tables have; one row."""

services = _record_table(
    *("services", records.ComputeService),
    sa.Column("pools", JsonText(tuple[records.NodePool, ...], shared=True)),
    unique=("host",),
)
"""A compute service, and where Ironic picks the nodes, its ``pools``."""

compute_nodes = _record_table(
    *("compute_nodes", records.ComputeNode),
    # The resource class in Placement's form; empty: it has none.
    sa.Column("placement_class", sa.String(96), nullable=False),
    unique=("uuid", "instance_uuid"),
    indexes=[("host", "uuid"), ("available", "instance_uuid", "placement_class", "uuid")],
)
"""An Ironic node, as of its service's last refresh, and who has claimed it."""

instances = _record_table(
    *("instances", records.Instance),
    # That of nodes is the second line of defence: the first are claims.
    unique=("uuid", "node"),
    indexes=[("host", "task_state"), ("display_name",), ("pool",)],
)
"""An instance, and what is wanted of it, with ``arguments``, a password perhaps.

``pool`` is the one that it has a place of; ``node`` is then empty until Ironic has
reserved one.
"""

instance_ports = sa.Table(
    *("instance_ports", METADATA),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("port_id", sa.String(255), nullable=False, unique=True),
    sa.Column("instance_uuid", sa.String(255), nullable=False, index=True),
)
"""A port that an instance has or is being given; gone when it has it no more."""

flavors = _record_table("flavors", virt.Flavor, unique=("name",))
"""A size that instances can be asked for in."""
