# SPDX-License-Identifier: Apache-2.0

"""Files that options name."""

from __future__ import annotations

import contextlib
import pathlib
import sys
from collections.abc import Iterator
from typing import TextIO

from ironic_virt.compute.errors import InvalidRequest

STDIN = "-"
LARGEST = 1024 * 1024
"""Bytes; what has more was hardly meant."""


@contextlib.contextmanager
def opened(file: str, option: str, stdin: TextIO) -> Iterator[TextIO]:
    """A file to be read as text.

    :param option: the option that names it, for errors.
    :param stdin: what :data:`STDIN` is.
    :raises InvalidRequest: it can't be read, or is no text in UTF-8.
    """
    try:
        if file == STDIN:
            yield stdin
            return
        with pathlib.Path(file).open(encoding="utf-8") as stream:
            yield stream
    except OSError as error:
        raise InvalidRequest(f"{option} {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{option} {file}: this is no text in UTF-8") from error


def content(file: str, option: str) -> str | bytes:
    """All that a file has: text if it is text in UTF-8, else bytes.

    :raises InvalidRequest: it can't be read, or is larger than :data:`LARGEST`.
    """
    try:
        if file == STDIN:
            found = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with pathlib.Path(file).open("rb") as stream:
                found = stream.read(LARGEST + 1)
    except OSError as error:
        raise InvalidRequest(f"{option} {file}: {error.strerror}") from error
    if len(found) > LARGEST:
        raise InvalidRequest(f"{option} {file}: this has more than {LARGEST} bytes")
    try:
        return found.decode()
    except UnicodeDecodeError:
        return found
