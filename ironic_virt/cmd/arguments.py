# SPDX-License-Identifier: Apache-2.0

"""Kinds of arguments that several commands take; a wrong one ends with exit code 2."""

from __future__ import annotations

import argparse
import datetime
import uuid
from collections.abc import Sequence
from typing import Any


class KeyValue(argparse.Action):
    """``KEY=VALUE``, as often as wanted, into a dict."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """See :class:`argparse.Action`."""
        key, equals, value = str(values).partition("=")
        if not key or not equals:
            raise argparse.ArgumentError(self, f"{values!r} is not KEY=VALUE")
        before: dict[str, str] = getattr(namespace, self.dest) or {}
        setattr(namespace, self.dest, {**before, key: value})


def count(text: str) -> int:
    """A whole number from 0."""
    return _number(text, 0)


def positive(text: str) -> int:
    """A whole number from 1."""
    return _number(text, 1)


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def time(text: str) -> datetime.datetime:
    """A date or a time in ISO 8601, in UTC if it names no zone."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date or time in ISO 8601") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


def node_uuid(text: str) -> str:
    """A node's UUID, in the form in which Ironic writes it."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no UUID") from None


def name(text: str) -> str:
    """A name that a record can have."""
    if not text.strip() or len(text) > 255 or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is no name of 1 to 255 printable characters")
    return text


def _number(text: str, least: int) -> int:
    # The records' numbers have 32 bits.
    digits = text.isascii() and text.isdecimal() and len(text) <= 10
    if not digits or not least <= int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {2**31 - 1}")
    return int(text)
