# SPDX-License-Identifier: Apache-2.0

"""Column types that mean the same on SQLite, MariaDB, MySQL and PostgreSQL.

Times are kept in UTC without a zone, to the microsecond, and come out aware.
JSON is text: nothing here asks a database to look inside.
"""

from __future__ import annotations

import base64
import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

# Their types are imported where they are needed: that takes time.
_MYSQL = frozenset({"mysql", "mariadb"})
_BYTES = "data:application/octet-stream;base64,"


class UtcDateTime(sa.TypeDecorator[datetime.datetime]):
    """An aware time in Python, UTC without a zone in the database."""

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name in _MYSQL:
            from sqlalchemy.dialects import mysql

            # Whole seconds, otherwise.
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(sa.DateTime())

    def process_bind_param(
        self, value: datetime.datetime | None, dialect: sa.Dialect
    ) -> datetime.datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"the time {value} lacks a time zone")
        return value.astimezone(datetime.UTC).replace(tzinfo=None)

    def process_result_value(
        self, value: datetime.datetime | None, dialect: sa.Dialect
    ) -> datetime.datetime | None:
        return None if value is None else value.replace(tzinfo=datetime.UTC)


class LongText(sa.TypeDecorator[Any]):
    """Text without the 64 kB limit that MySQL's TEXT has."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name in _MYSQL:
            from sqlalchemy.dialects import mysql

            return dialect.type_descriptor(mysql.MEDIUMTEXT())
        return super().load_dialect_impl(dialect)


class TextOrBytes(LongText):
    """Text as it is, and bytes that are no text as a data URL."""

    cache_ok = True

    def process_bind_param(self, value: str | bytes | None, dialect: sa.Dialect) -> str | None:
        if isinstance(value, bytes):
            return _BYTES + base64.b64encode(value).decode()
        return value

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | bytes | None:
        if value is None or not value.startswith(_BYTES):
            return value
        return base64.b64decode(value.removeprefix(_BYTES))


class Json(LongText):
    """JSON in a text column, its keys sorted, so that equal values are equal texts."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        return None if value is None else encode(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> Any:
        return None if value is None else msgspec.json.decode(value)


def encode(value: Any) -> str:
    """JSON text as :class:`Json` writes it."""
    return msgspec.json.encode(value, order="sorted").decode()
